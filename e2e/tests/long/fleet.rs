//! Twelve tenants in three waves, three at once: a version that does not come up stops in the first wave; a good one goes through all,
//! whatever one tenant broke by itself.

use std::{collections::BTreeSet, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use berth_api::labels;
use berth_e2e::{
    NEWEST, Options, PREVIOUS_PATCH, Tenant, World, core, paths, tenant::condition, tenant::name_of, until,
    until_within,
};
use serde_json::{Value, json};

/// Nobody has an image of it.
const BAD: &str = "1.36.99";
const WAVES: [u8; 3] = [0, 5, 9];
/// In each wave.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const AT_ONCE: usize = 3;
const MAX_FAILED: usize = 1;
/// For a whole fleet on two cores.
const LONG: Duration = Duration::from_mins(25);

#[test]
#[ignore = "make test-all: twelve tenants, of which each changes twice, take half an hour"]
fn a_bad_version_stops_at_the_first_wave_and_a_good_one_goes_through_all() {
    berth_e2e::run("fleet", |world| {
        let values = vec![format!("rollouts.maxConcurrent={AT_ONCE}"), format!("rollouts.maxFailed={MAX_FAILED}")];
        world.install(&Options { values, ..Options::default() })?;
        let fleet: Vec<(u8, Tenant<'_>)> = create(world)?;
        for (_, tenant) in &fleet {
            tenant.wait_ready()?;
            recorded(tenant)?;
        }
        let mut seen = Seen::default();

        println!("    a version that does not come up");
        let later: Vec<_> = fleet.iter().filter(|(wave, _)| *wave > 0).map(|(_, tenant)| tenant).collect();
        let before: Vec<_> = later.iter().copied().map(pods).collect::<Result<_>>()?;
        ask(&fleet, BAD)?;
        until_within(LONG, "the first wave to come back, and the others to be stopped", || {
            seen.look(world)?;
            for (wave, tenant) in &fleet {
                // The last of the first wave begins only if one alone came back before the next.
                is(tenant, if *wave == 0 { &["RolledBack", "FleetStopped"] } else { &["FleetStopped"] })?;
            }
            Ok(())
        })?;
        let came_back = came_back(&fleet)?;
        ensure!(came_back.len() > MAX_FAILED, "{came_back:?} came back");
        until("the others to say who came back", || {
            let cluster = later[0].cluster()?;
            let message = condition(&cluster, "Ready")?["message"].as_str().unwrap_or_default().to_owned();
            let named = came_back.iter().all(|name| message.contains(&format!("/{name}")));
            ensure!(named, "{came_back:?} came back: {message}");
            ensure!(condition(&cluster, "Ready")?["status"] == "True", "they serve");
            Ok(())
        })?;
        let rollouts = rollouts(world)?;
        ensure!(rollouts.lines().any(|line| line.starts_with(BAD)), "{rollouts}");
        let after: Vec<_> = later.iter().copied().map(pods).collect::<Result<_>>()?;
        ensure!(after == before, "nobody else began");

        println!("    set back, and a good one; one tenant has a flag of its own that is wrong");
        ask(&fleet, PREVIOUS_PATCH)?;
        for (_, tenant) in &fleet {
            tenant.wait_ready()?;
        }
        let broken = &fleet[1].1;
        let flag = json!([{"name": "no-such-flag", "value": "1"}]);
        broken.change(&json!({"version": NEWEST, "apiServer": {"extraArgs": flag}}))?;
        let well: Vec<_> = fleet.iter().filter(|(_, tenant)| tenant.name != broken.name).collect();
        for (_, tenant) in &well {
            tenant.change(&json!({"version": NEWEST}))?;
        }
        until_within(LONG, "all but one to run the new version", || {
            seen.look(world)?;
            for (wave, tenant) in &well {
                let cluster = tenant.cluster()?;
                let through = cluster["status"]["version"] == NEWEST;
                ensure!(through, "{} of wave {wave}: {}", tenant.name, condition(&cluster, "Ready")?);
            }
            is(broken, &["RolledBack"])
        })?;
        ensure!(seen.most <= AT_ONCE, "{} at once", seen.most);
        ensure!(seen.most > 0, "nobody was seen to have a turn");
        let mut first = vec![];
        for (wave, tenant) in &well {
            let since = tenant.cluster()?["status"]["turn"]["since"].as_str().context("since when")?.to_owned();
            first.push((since, *wave));
        }
        first.sort();
        let waves: Vec<u8> = first.into_iter().map(|(_, wave)| wave).collect();
        ensure!(waves.is_sorted(), "waves were through in this order: {waves:?}");
        for (_, tenant) in &fleet {
            tenant.let_go()?;
        }
        world.install(&Options::default())
    });
}

/// All at once: what they wait for is their own.
fn create(world: &World) -> Result<Vec<(u8, Tenant<'_>)>> {
    let mut all = vec![];
    for wave in WAVES {
        for name in NAMES {
            let spec = json!({
                "version": PREVIOUS_PATCH,
                "upgrade": {"soak": "0s", "progressDeadline": "2m"},
            });
            let tenant = Tenant::create(world, &format!("wave-{wave}-{name}"), &spec)?;
            let label = json!({"metadata": {"labels": {labels::WAVE: wave.to_string()}}});
            world.kube.merge(&tenant.path(), &label)?;
            all.push((wave, tenant));
        }
    }
    Ok(all)
}

/// Their names: a container may restart where this machine has much else to do.
fn pods(tenant: &Tenant<'_>) -> Result<BTreeSet<String>> {
    Ok(tenant.pod_identities()?.into_keys().collect())
}

/// Lower waves first, as `kubectl berth upgrade -A` does.
fn ask(fleet: &[(u8, Tenant<'_>)], version: &str) -> Result<()> {
    fleet.iter().try_for_each(|(_, tenant)| tenant.change(&json!({"version": version})))
}

fn is(tenant: &Tenant<'_>, reasons: &[&str]) -> Result<()> {
    let cluster = tenant.cluster()?;
    let ready = condition(&cluster, "Ready")?;
    ensure!(reasons.iter().any(|reason| ready["reason"] == *reason), "{}: {ready}", tenant.name);
    Ok(())
}

fn came_back(fleet: &[(u8, Tenant<'_>)]) -> Result<Vec<String>> {
    let mut names = vec![];
    for (_, tenant) in fleet {
        if condition(&tenant.cluster()?, "Ready")?["reason"] == "RolledBack" {
            names.push(tenant.name.clone());
        }
    }
    Ok(names)
}

fn recorded(tenant: &Tenant<'_>) -> Result<()> {
    until(&format!("{}: its first revision", tenant.name), || {
        let history = tenant.cluster()?["status"]["history"].clone();
        ensure!(history[0]["outcome"] == "Succeeded", "{history}");
        Ok(())
    })
}

/// `kubectl berth rollouts`, whose exit code is 3 where some are not through.
fn rollouts(world: &World) -> Result<String> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    let output = command.arg("rollouts").env("KUBECONFIG", world.cluster.kubeconfig()).output()?;
    ensure!(output.status.code() == Some(3), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Who had a turn.
#[derive(Default)]
struct Seen {
    most: usize,
}

impl Seen {
    fn look(&mut self, world: &World) -> Result<()> {
        let all = world.kube.list(&format!("{}?labelSelector={}", core("", "namespaces"), labels::CLUSTER_NAME))?;
        let has = |namespace: &&Value| namespace["metadata"]["annotations"][labels::TURN].is_string();
        let now: BTreeSet<String> = all.iter().filter(has).map(name_of).collect();
        self.most = self.most.max(now.len());
        Ok(())
    }
}
