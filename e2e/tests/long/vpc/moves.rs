//! The address that moves between the API servers: who has it, and that it comes back when that one is killed.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use berth_devcluster::Vpc;
use berth_e2e::{
    Tenant,
    network::{holder, processes},
    tenant::name_of,
};

use super::{VIRTUAL, answers, asks};

/// How long clients may be without the address. A second beyond what is promised: other builds may have the machine.
const AWAY: Duration = Duration::from_secs(6);

/// Every process of the holder is killed at once, those of the sidecar, too: nobody hands the address over.
pub(crate) fn comes_back_when_its_holder_is_killed(tenant: &Tenant<'_>, vpc: &Vpc) -> Result<()> {
    answers(tenant, vpc, VIRTUAL)?;
    let pod = holder(tenant, vpc, VIRTUAL)?;
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
