//! Machines that become nodes of a tenant.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use berth_devcluster::Worker;

use crate::kube_client::{host, through};
use crate::{Kube, Tenant, World, core, until};

/// Lines of a kubelet's log that are printed when a test fails.
const LINES: usize = 20;

/// Works with machines of these names, in a VPC or on the cluster's own network, and removes them whatever comes of it. When it fails, the
/// end of their kubelets' logs is printed.
pub fn with(
    world: &World,
    names: &[&str],
    vpc: Option<&str>,
    images: &[PathBuf],
    work: impl FnOnce(&[Worker]) -> Result<()>,
) -> Result<()> {
    let add = |name: &&str| {
        // One of a run that was cut off has joined what is gone.
        world.cluster.find_worker(name).map_or(Ok(()), |left| left.remove())?;
        world.cluster.add_worker(name, vpc, images)
    };
    let workers = names.iter().map(add).collect::<Result<Vec<_>>>()?;
    let result = work(&workers);
    if result.is_err() {
        for worker in &workers {
            let log = std::fs::read_to_string(worker.kubelet_log()).unwrap_or_default();
            let lines: Vec<_> = log.lines().rev().take(LINES).collect();
            println!("{}'s kubelet, the newest first:\n{}", worker.name(), lines.join("\n"));
        }
    }
    workers.iter().map(Worker::remove).fold(result, Result::and)
}

/// Joins a machine by what `kubectl berth join-command` prints, and waits until its node is ready.
pub fn join(tenant: &Tenant<'_>, worker: &Worker) -> Result<()> {
    join_seen_by(&tenant.api()?, tenant, worker)
}

/// The same of a tenant behind the gateway, which is at that address, by its name there.
pub fn join_by_name(tenant: &Tenant<'_>, worker: &Worker, address: &str) -> Result<()> {
    let line = format!("echo {address} {} >> /etc/hosts", host(&tenant.kubeconfig()?));
    let output = worker.command("/bin/sh".as_ref())?.args(["-c", &line]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    join_seen_by(&Kube::new(&through(&tenant.kubeconfig()?, address)?)?, tenant, worker)
}

fn join_seen_by(api: &Kube, tenant: &Tenant<'_>, worker: &Worker) -> Result<()> {
    worker.join(&tenant.join_arguments()?)?;
    worker.configure_pods()?;
    let node = format!("{}/{}", core("", "nodes"), worker.name());
    until("the node to be ready", || {
        let live = api.get(&node)?;
        let all = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = all.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
        ensure!(ready["status"] == "True", "{}", ready["message"]);
        Ok(())
    })
}
