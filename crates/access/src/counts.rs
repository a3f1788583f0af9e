//! What is counted.

use http::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::line::Why;

/// Calls since it started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// By the first digit of the code.
    answered: [AtomicU64; 6],
    refused: [AtomicU64; Why::ALL.len()],
}

impl Counts {
    pub(crate) fn add(&self, code: StatusCode, refused: Option<Why>) {
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
