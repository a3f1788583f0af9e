//! Clients of a tenant that all write at once, again and again, as its own controllers do after a change: more than one write is under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use serde_json::json;

use crate::{
    Tenant,
    kube_client::{Kube, core, status_of},
};

/// How many they are.
const CLIENTS: usize = 8;

/// From one write of all to the next.
const PACE: Duration = Duration::from_millis(200);

/// After so many writes a client connects anew, maybe to another API server.
const WRITES: usize = 5;

/// Clients that write until [`Crowd::end`].
#[derive(Debug)]
pub struct Crowd {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Written>>>,
}

/// What they got.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Writes that were acknowledged.
    pub acknowledged: u32,
    /// Writes that were answered with 429.
    pub refused: u32,
    /// Writes that failed otherwise.
    pub failed: Vec<String>,
}

impl Crowd {
    /// Begins to write. None of them tries again what was refused, so that all of it is seen.
    pub fn start(tenant: &Tenant<'_>) -> Result<Self> {
        let (api, kubeconfig, stop) = (tenant.api()?, tenant.kubeconfig()?, Arc::new(AtomicBool::new(false)));
        let mut threads = vec![];
        let started = Instant::now();
        for client in 0..CLIENTS {
            let name = format!("crowd-{client}");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            api.ensure(&core("default", "configmaps"), &map)?;
            let path = format!("{}/{name}", core("default", "configmaps"));
            let (kubeconfig, asked) = (kubeconfig.clone(), stop.clone());
            threads.push(thread::spawn(move || write(&kubeconfig, &path, started, &asked)));
        }
        Ok(Self { stop, threads })
    }

    /// Ends it.
    pub fn end(self) -> Result<Written> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Written::default();
        for thread in self.threads {
            let one = thread.join().map_err(|_| anyhow!("a writer panicked"))??;
            all.acknowledged += one.acknowledged;
            all.refused += one.refused;
            all.failed.extend(one.failed);
        }
        println!(
            "    writes: {} acknowledged, {} answered with 429, {} failed otherwise; {:?}",
            all.acknowledged,
            all.refused,
            all.failed.len(),
            all.failed.first()
        );
        ensure!(all.acknowledged > 0, "nothing was ever written");
        Ok(all)
    }
}

fn write(kubeconfig: &str, path: &str, started: Instant, stop: &AtomicBool) -> Result<Written> {
    let mut written = Written::default();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let api = Kube::without_retries(kubeconfig)?;
        for _ in 0..WRITES {
            // All at once.
            let late = started.elapsed().as_millis() % PACE.as_millis();
            thread::sleep(PACE.saturating_sub(Duration::from_millis(u64::try_from(late)?)));
            number += 1;
            match api.merge(path, &json!({"data": {"number": number.to_string()}})) {
                Ok(_) => written.acknowledged += 1,
                Err(e) if status_of(&e) == Some(429) => written.refused += 1,
                Err(e) => written.failed.push(format!("{:?}: {e:#}", status_of(&e))),
            }
        }
    }
    Ok(written)
}
