//! The access log: a line of JSON for each connection, when it has ended.

use governor::{DefaultDirectRateLimiter, RateLimiter};
use serde::Serialize;
use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::ended::Ended;
use crate::sources::quota;

/// Lines that wait to be written. What reads them must not stop connections: lines that do not fit are counted, and lost.
const WAITING: usize = 4096;

/// So many lines a second, and for a moment twice as many, are written of connections that found no tenant: strangers must not push out what
/// was written of others.
const STRANGERS: NonZeroU32 = NonZeroU32::new(50).unwrap();

/// One line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// When it ended.
    pub(crate) time: String,
    /// The client, by what is believed of a PROXY header.
    pub(crate) client: SocketAddr,
    /// The server name that it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// `namespace/name` of the `Cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// This gateway's own address and port towards the API server, which has it as the source in its audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gateway: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_server: Option<SocketAddr>,
    /// Bytes to the API server.
    pub(crate) bytes_up: u64,
    /// Bytes to the client.
    pub(crate) bytes_down: u64,
    /// From its begin to its end.
    pub(crate) seconds: f64,
    pub(crate) ended: Ended,
}

/// Where lines go.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: SyncSender<String>,
    lost: Arc<AtomicU64>,
    strangers: Arc<DefaultDirectRateLimiter>,
}

impl Log {
    /// To standard output, by a thread that ends with the last clone of this.
    pub(crate) fn start() -> (Self, JoinHandle<()>) {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let writer = std::thread::spawn(move || {
            let mut out = std::io::stdout().lock();
            for line in waiting {
                // There is nobody to tell.
                let _ = writeln!(out, "{line}");
            }
        });
        (Self::to(lines), writer)
    }

    /// For tests: the lines are received there.
    #[cfg(test)]
    pub(crate) fn captured() -> (Self, std::sync::mpsc::Receiver<String>) {
        let (lines, waiting) = sync_channel(WAITING);
        (Self::to(lines), waiting)
    }

    fn to(lines: SyncSender<String>) -> Self {
        Self { lines, lost: Arc::default(), strangers: Arc::new(RateLimiter::direct(quota(STRANGERS))) }
    }

    pub(crate) fn say(&self, line: &Line) {
        if line.tenant.is_none() && self.strangers.check().is_err() {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        let text = serde_json::to_string(line).unwrap_or_default();
        if self.lines.try_send(text).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Lines that were not written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            time: "2026-01-01T00:00:00Z".to_owned(),
            client: "203.0.113.7:40000".parse().unwrap(),
            name: Some("acme.example.com".to_owned()),
            tenant: Some("team-a/acme".to_owned()),
            gateway: Some("10.244.0.9:50000".parse().unwrap()),
            api_server: Some("10.244.0.10:6443".parse().unwrap()),
            bytes_up: 1,
            bytes_down: 2,
            seconds: 1.5,
            ended: Ended::Closed,
        }
    }

    #[test]
    fn a_line_is_written_so() {
        let (log, lines) = Log::captured();
        log.say(&line());
        let whole = r#"{"time":"2026-01-01T00:00:00Z","client":"203.0.113.7:40000","name":"acme.example.com","tenant":"team-a/acme","gateway":"10.244.0.9:50000","apiServer":"10.244.0.10:6443","bytesUp":1,"bytesDown":2,"seconds":1.5,"ended":"Closed"}"#;
        assert_eq!(lines.try_recv().unwrap(), whole);
    }

    #[test]
    fn lines_that_nobody_reads_stop_nothing_and_are_counted() {
        let (log, _lines) = Log::captured();
        (0..WAITING + 3).for_each(|_| log.say(&line()));
        assert_eq!(log.lost(), 3);
    }
}
