//! The address that moves between the API servers: who has it, and that it comes back when that one is killed.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use berth_devcluster::Vpc;
use berth_e2e::{Tenant, tenant::name_of};
use serde_json::Value;

use super::{VIRTUAL, answers, asks, interface};

/// How long clients may be without the address. A second beyond what is promised: other builds may have the machine.
const AWAY: Duration = Duration::from_secs(6);

/// The pod that answers at the address on the wire.
fn holder(tenant: &Tenant<'_>, vpc: &Vpc) -> Result<Value> {
    answers(tenant, vpc, VIRTUAL)?;
    let output = vpc.command("ip").args(["neigh", "show", VIRTUAL]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let has =
        |pod: &Value| interface(pod).is_some_and(|net1| net1["mac"].as_str().is_some_and(|mac| said.contains(mac)));
    let pods = tenant.pods(Some("kube-apiserver"))?;
    pods.into_iter().find(has).with_context(|| format!("no API server has {VIRTUAL}, which is at {said}"))
}

/// Every process of the holder is killed at once, those of the sidecar, too: nobody hands the address over.
pub(crate) fn comes_back_when_its_holder_is_killed(tenant: &Tenant<'_>, vpc: &Vpc) -> Result<()> {
    let pod = holder(tenant, vpc)?;
    let all = ["initContainerStatuses", "containerStatuses"].map(|list| pod["status"][list].as_array().cloned());
    let mut killed = 0;
    for status in all.into_iter().flatten().flatten().filter(|status| status["state"]["running"].is_object()) {
        for process in processes(&status)? {
            let done = std::process::Command::new("kill").args(["-9", &process.to_string()]).status()?;
            killed += u32::from(done.success());
        }
    }
    ensure!(killed >= 2, "{killed} processes of {} were killed", name_of(&pod));
    let start = Instant::now();
    loop {
        match asks(tenant, vpc, VIRTUAL) {
            Ok(()) => break,
            Err(error) if start.elapsed() > Duration::from_mins(1) => bail!("{VIRTUAL} does not come back: {error:#}"),
            Err(_) => {}
        }
    }
    let away = start.elapsed();
    println!("    {VIRTUAL} answers {:.1} s after {} was killed", away.as_secs_f64(), name_of(&pod));
    ensure!(away <= AWAY, "{VIRTUAL} was away for {away:?}");
    Ok(())
}

/// Processes of a container, by its cgroup.
pub(crate) fn processes(status: &Value) -> Result<Vec<i32>> {
    let id = status["containerID"].as_str().and_then(|id| id.split_once("://")).context("a container's ID")?.1;
    let mut all = vec![];
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may end meanwhile.
        if fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|cgroup| cgroup.contains(id)) {
            all.push(process);
        }
    }
    Ok(all)
}
