//! A client of a tenant that writes all the time: what was acknowledged has to be there at the end.

use std::{
    collections::BTreeSet,
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
    kube_client::{Kube, core, status_of},
    tenant::{Tenant, name_of},
};

/// From one write to the next.
const PACE: Duration = Duration::from_millis(100);

/// A client of the tenant that creates ConfigMaps with numbers.
#[derive(Debug)]
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Written>>,
}

#[derive(Debug, Default)]
struct Written {
    /// Numbers that were acknowledged.
    acknowledged: BTreeSet<u32>,
    failed: Vec<String>,
    longest: Duration,
}

impl Writer {
    /// Begins to write.
    pub fn start(kubeconfig: &str) -> Self {
        let (kubeconfig, stop) = (kubeconfig.to_owned(), Arc::new(AtomicBool::new(false)));
        let asked = stop.clone();
        Self { stop, thread: thread::spawn(move || write(&kubeconfig, &asked)) }
    }

    /// Ends, and reads what was acknowledged. Err: some of it is not there.
    pub fn nothing_was_lost(self, tenant: &Tenant<'_>) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let written = self.thread.join().map_err(|_| anyhow!("the writer panicked"))??;
        println!(
            "    {} writes acknowledged, {} failed, at most {:.1?} without one; {:?}",
            written.acknowledged.len(),
            written.failed.len(),
            written.longest,
            written.failed.first()
        );
        ensure!(written.acknowledged.len() > 100, "only {} writes", written.acknowledged.len());
        let there = tenant.api()?.list(&core("default", "configmaps"))?;
        let there: BTreeSet<_> = there.iter().filter_map(|m| name_of(m).strip_prefix("n-")?.parse().ok()).collect();
        let lost: Vec<_> = written.acknowledged.difference(&there).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        Ok(())
    }
}

/// A write that fails is not made again: the next has another number.
fn write(kubeconfig: &str, stop: &AtomicBool) -> Result<Written> {
    let api = Kube::new(kubeconfig)?;
    let (mut written, mut last) = (Written::default(), Instant::now());
    for n in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("n-{n}")}});
        match api.create(&core("default", "configmaps"), &map) {
            Ok(_) => {
                written.acknowledged.insert(n);
                written.longest = written.longest.max(last.elapsed());
                last = Instant::now();
            }
            Err(e) => written.failed.push(format!("{:?}: {e:#}", status_of(&e))),
        }
        thread::sleep(PACE);
    }
    Ok(written)
}
