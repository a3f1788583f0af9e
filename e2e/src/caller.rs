//! A client of a tenant that never stops calling, each time over a new connection: what it notices is what people notice.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use berth_devcluster::paths;
use nix::sched::{CloneFlags, setns};

use crate::{Kube, kube_client};

/// From the start of one call to the start of the next, unless that takes longer.
const PACE: Duration = Duration::from_millis(100);

/// In a VPC the address moves: a call that failed is made again after this time, and has to be answered within [`AGAIN`].
const PAUSE: Duration = Duration::from_secs(1);

/// How long the second attempt may take there.
const AGAIN: Duration = Duration::from_secs(5);

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
    /// Begins to call with a kubeconfig. A call that fails is made again at once.
    pub fn start(kubeconfig: &str) -> Self {
        Self::spawn(Client { kubeconfig: kubeconfig.to_owned(), scope: None })
    }

    /// Begins to call an address from within a network namespace, such as a machine's in a VPC. A call that fails is made again after a
    /// second, with a deadline of five.
    pub fn start_in(scope: &str, kubeconfig: &str, address: &str) -> Result<Self> {
        let kubeconfig = kube_client::at(kubeconfig, &format!("https://{address}:6443"))?;
        Ok(Self::spawn(Client { kubeconfig, scope: Some(Path::new(paths::NETNS_DIR).join(scope)) }))
    }

    fn spawn(client: Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = thread::spawn(move || client.call_until(&asked));
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

struct Client {
    kubeconfig: String,
    scope: Option<PathBuf>,
}

impl Client {
    fn call_until(&self, stop: &AtomicBool) -> Calls {
        let (started, mut calls) = (Instant::now(), Calls::default());
        if let Err(error) = self.enter() {
            calls.failed.push((started.elapsed(), format!("{error:#}")));
            return calls;
        }
        let mut last = started;
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = self.call().map(|()| false).or_else(|_| self.call_again().map(|()| true));
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

    /// Threads that this one starts are in the same network.
    fn enter(&self) -> Result<()> {
        let Some(scope) = &self.scope else { return Ok(()) };
        let file = File::open(scope).with_context(|| scope.display().to_string())?;
        setns(file, CloneFlags::CLONE_NEWNET).context("cannot enter the network namespace")
    }

    fn call(&self) -> Result<()> {
        Kube::new(&self.kubeconfig)?.get("/api/v1/namespaces/default").map(drop)
    }

    fn call_again(&self) -> Result<()> {
        if self.scope.is_none() {
            return self.call();
        }
        thread::sleep(PAUSE);
        let began = Instant::now();
        self.call()?;
        ensure!(began.elapsed() <= AGAIN, "the second attempt took {:?}", began.elapsed());
        Ok(())
    }
}
