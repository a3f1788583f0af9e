//! Lines of JSON on standard output, which stop nobody: what nobody takes in time is counted, and lost.

use governor::{DefaultDirectRateLimiter, RateLimiter};
use serde::Serialize;
use std::io::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::rate::quota;

/// Lines that wait to be written. What reads them must not stop connections: lines that do not fit are counted, and lost.
pub const WAITING: usize = 4096;

/// So many lines a second, and for a moment twice as many, are written of strangers: they must not push out what was written of others.
const STRANGERS: NonZeroU32 = NonZeroU32::new(50).unwrap();

/// Where lines go.
#[derive(Clone, Debug)]
pub struct Log {
    lines: SyncSender<String>,
    lost: Arc<AtomicU64>,
    strangers: Arc<DefaultDirectRateLimiter>,
}

impl Log {
    /// To standard output, by a thread that ends with the last clone of this.
    pub fn start() -> (Self, JoinHandle<()>) {
        let (log, waiting) = Self::captured();
        let writer = std::thread::spawn(move || {
            let mut out = std::io::stdout().lock();
            for line in waiting {
                // There is nobody to tell.
                let _ = writeln!(out, "{line}");
            }
        });
        (log, writer)
    }

    /// The lines are received there.
    pub fn captured() -> (Self, Receiver<String>) {
        let (lines, waiting) = sync_channel(WAITING);
        (Self { lines, lost: Arc::default(), strangers: Arc::new(RateLimiter::direct(quota(STRANGERS))) }, waiting)
    }

    /// `is_stranger`: it is of somebody who has not shown to have any business here.
    pub fn say(&self, line: &impl Serialize, is_stranger: bool) {
        if is_stranger && self.strangers.check().is_err() {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        let text = serde_json::to_string(line).unwrap_or_default();
        if self.lines.try_send(text).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Lines that were not written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nobody_reads_stop_nothing_and_are_counted() {
        let (log, lines) = Log::captured();
        (0..WAITING + 3).for_each(|at| log.say(&at, false));
        assert_eq!((log.lost(), lines.try_recv().unwrap().as_str()), (3, "0"));
    }

    #[test]
    fn strangers_get_few_lines_and_others_theirs() {
        let (log, lines) = Log::captured();
        (0..500).for_each(|_| log.say(&"stranger", true));
        log.say(&"guest", false);
        let (written, lost) = (lines.try_iter().count() as u64, log.lost());
        assert!((101..400).contains(&written) && written + lost == 501, "{written} {lost}");
    }
}
