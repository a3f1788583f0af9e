//! How slow this machine is now: a fixed piece of work against a table. Deadlines of tests are that much longer, so that slow is not red.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::shell::{Result, cache};

/// What tests read the factor from.
pub(super) const VARIABLE: &str = "BERTH_SLOWNESS";

/// The factor of this run, once it is measured.
static FACTOR: OnceLock<f64> = OnceLock::new();

/// What deadlines are multiplied with in this run.
pub(super) fn factor() -> f64 {
    measured().unwrap_or(1.0)
}

/// None: nothing is run whose deadlines depend on it.
pub(super) fn measured() -> Option<f64> {
    FACTOR.get().copied()
}

/// Measures, says what came of it, and keeps the factor for whatever is started from now on.
pub(super) fn begin() {
    match Speed::measure() {
        Ok(speed) => {
            println!("{speed}");
            let _ = FACTOR.set(speed.factor());
        }
        Err(error) => println!("how slow this machine is could not be measured: {error:#}"),
    }
}

/// Milliseconds that each piece takes on two cores of a quiet machine, for which the deadlines of tests are written.
const TABLE: [Piece; 3] = [("processors", digests, 220.0), ("processes", processes, 85.0), ("disk", writes, 20.0)];

/// A name, what is done, and the milliseconds of the table.
type Piece = (&'static str, fn() -> Result<()>, f64);

/// Deadlines are generous anyway, and no machine is so slow that a test should wait for hours.
const MOST: f64 = 6.0;

/// How many times as long as in the table each piece took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Speed {
    pieces: Vec<(&'static str, f64)>,
}

impl Speed {
    /// Does each piece three times; the middle one counts.
    pub(super) fn measure() -> Result<Self> {
        let piece = |(name, work, usual): Piece| {
            let mut times = [Duration::ZERO; 3];
            for time in &mut times {
                let began = Instant::now();
                work()?;
                *time = began.elapsed();
            }
            times.sort();
            Ok((name, times[1].as_secs_f64() * 1000.0 / usual))
        };
        Ok(Self { pieces: TABLE.into_iter().map(piece).collect::<Result<_>>()? })
    }

    /// What deadlines are multiplied with: never less than 1.
    pub(super) fn factor(&self) -> f64 {
        self.pieces.iter().map(|(_, factor)| *factor).fold(1.0, f64::max).min(MOST)
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pieces: Vec<_> = self.pieces.iter().map(|(name, factor)| format!("{name} {factor:.1}")).collect();
        write!(
            f,
            "this machine takes {:.1} times as long as the one of the deadlines ({})",
            self.factor(),
            pieces.join(", ")
        )
    }
}

/// Both cores at once.
fn digests() -> Result<()> {
    let block = vec![7u8; 16 << 20];
    let work = || (0..16).fold(Sha256::new(), |digest, _| digest.chain_update(&block)).finalize();
    thread::scope(|scope| {
        let other = scope.spawn(work);
        let ours = work();
        anyhow::ensure!(other.join().is_ok_and(|theirs| theirs == ours), "two cores came to different digests");
        Ok(())
    })
}

fn processes() -> Result<()> {
    (0..100).try_for_each(|_| Ok(Command::new("true").stdin(Stdio::null()).status().map(drop)?))
}

/// As etcd writes: small, and on the disk before it goes on.
fn writes() -> Result<()> {
    let path = cache().join(format!("speed-{}", std::process::id()));
    let written = File::create(&path)
        .and_then(|mut file| (0..20).try_for_each(|_| file.write_all(&[7; 4096]).and_then(|()| file.sync_data())));
    let _ = fs::remove_file(&path);
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: [f64; 3]) -> Speed {
        Speed { pieces: TABLE.iter().zip(pieces).map(|((name, ..), factor)| (*name, factor)).collect() }
    }

    #[test]
    fn the_slowest_piece_counts_and_a_quick_machine_shortens_nothing() {
        let factors = [of([0.5, 0.4, 0.9]), of([1.0, 2.5, 1.2]), of([100.0, 1.0, 1.0])].map(|speed| speed.factor());
        assert_eq!(factors.map(|f| f.to_string()), ["1", "2.5", "6"]);
        let said = of([1.0, 2.54, 1.2]).to_string();
        assert!(
            said.ends_with("2.5 times as long as the one of the deadlines (processors 1.0, processes 2.5, disk 1.2)")
        );
    }
}
