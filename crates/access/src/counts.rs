//! What is counted.

use http::StatusCode;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::line::Why;

/// Calls since it started.
#[derive(Debug)]
pub(crate) struct Counts {
    /// By the first digit of the code.
    answered: [AtomicU64; 6],
    refused: [AtomicU64; Why::ALL.len()],
    /// Seconds until a tenant's answer began.
    pub(crate) took: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        // From 4 ms to a minute: API servers end what takes longer, but for watches, which begin at once.
        let took = Histogram::new(exponential_buckets(0.004, 2.0, 15));
        Self { answered: Default::default(), refused: Default::default(), took }
    }
}

impl Counts {
    pub(crate) fn add(&self, code: StatusCode, refused: Option<Why>, took: Duration) {
        if refused.is_none() {
            self.took.observe(took.as_secs_f64());
        }
        let counter = match refused {
            Some(why) => Why::ALL.iter().position(|one| *one == why).and_then(|at| self.refused.get(at)),
            None => self.answered.get(usize::from(code.as_u16() / 100)),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Answers of tenants, as `2xx`.
    pub(crate) fn answered(&self) -> impl Iterator<Item = (String, u64)> {
        self.answered.iter().enumerate().skip(1).map(|(digit, count)| (format!("{digit}xx"), count.load(Relaxed)))
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = (Why, u64)> {
        Why::ALL.into_iter().zip(&self.refused).map(|(why, count)| (why, count.load(Relaxed)))
    }
}
