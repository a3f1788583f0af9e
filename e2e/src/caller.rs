//! A client of a tenant that never stops calling, each time over a new connection: what it notices is what people notice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};

use crate::Kube;

/// From the start of one call to the start of the next, unless that takes longer.
const PACE: Duration = Duration::from_millis(100);

/// A client that calls until [`Caller::end`].
#[derive(Debug)]
pub struct Caller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Calls>,
}

/// What it got.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Calls that were answered, at the first or the second attempt.
    pub answered: u32,
    /// Calls that were answered only when they were made again.
    pub retried: u32,
    /// Calls that failed twice: when, and why.
    pub failed: Vec<(Duration, String)>,
    /// The longest time without an answer.
    pub longest: Duration,
}

impl Caller {
    /// Begins to call with a kubeconfig.
    pub fn start(kubeconfig: &str) -> Self {
        let (kubeconfig, stop) = (kubeconfig.to_owned(), Arc::new(AtomicBool::new(false)));
        let asked = stop.clone();
        let thread = thread::spawn(move || call_until(&kubeconfig, &asked));
        Self { stop, thread }
    }

    /// Ends it.
    pub fn end(self) -> Result<Calls> {
        self.stop.store(true, Ordering::Relaxed);
        let calls = self.thread.join().map_err(|_| anyhow!("the caller panicked"))?;
        println!(
            "    calls: {} answered, {} of them at the second attempt, {} failed, at most {:.1?} without an answer",
            calls.answered,
            calls.retried,
            calls.failed.len(),
            calls.longest
        );
        ensure!(calls.answered > 0, "nothing was ever answered: {:?}", calls.failed.first());
        Ok(calls)
    }
}

impl Calls {
    /// No call failed twice in a row.
    pub fn none_failed(&self) -> Result<()> {
        ensure!(
            self.failed.is_empty(),
            "{} calls failed, the first ones: {:#?}",
            self.failed.len(),
            &self.failed[..self.failed.len().min(3)]
        );
        Ok(())
    }
}

fn call_until(kubeconfig: &str, stop: &AtomicBool) -> Calls {
    let (started, mut calls) = (Instant::now(), Calls::default());
    let mut last = started;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = call(kubeconfig).map(|()| false).or_else(|_| call(kubeconfig).map(|()| true));
        match answer {
            Ok(again) => {
                calls.answered += 1;
                calls.retried += u32::from(again);
                calls.longest = calls.longest.max(last.elapsed());
                last = Instant::now();
            }
            Err(error) => calls.failed.push((started.elapsed(), format!("{error:#}"))),
        }
        thread::sleep(PACE.saturating_sub(began.elapsed()));
    }
    calls.longest = calls.longest.max(last.elapsed());
    calls
}

fn call(kubeconfig: &str) -> Result<()> {
    Kube::new(kubeconfig)?.get("/api/v1/namespaces/default").map(drop)
}
