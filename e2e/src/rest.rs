//! Tenants at rest: of these `kubectl berth plan` says that nothing is to be done, as the operator does. It reads the same, and goes by the
//! same configuration, under a chart with every value set.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{Tenant, World, apps, berth, operator, paths, tenant::condition, tenant::name_of, until_within};

/// How long what a plan shows may last: what the operator is about to do, or waits for, such as `spec.upgrade.soak`.
const SOON: Duration = Duration::from_mins(5);

/// Certificates that live shorter are due within the time that a plan foresees.
const BRIEF: u64 = 24 * 60;

impl Tenant<'_> {
    /// Waits until it is at rest, and has a plan without a change.
    pub fn rests(&self) -> Result<()> {
        until_within(SOON, &format!("{} to be at rest, and a plan to say so", self.name), || {
            let cluster = self.cluster()?;
            at_rest(&cluster)?;
            plan(self.world, &cluster)
        })
    }
}

impl World {
    /// [`if_at_rest`] for each tenant.
    pub fn all_rest(&self) -> Result<()> {
        self.kube.list(&berth("", "clusters"))?.iter().try_for_each(|cluster| if_at_rest(self, cluster))
    }
}

/// Waits for a plan without a change, as long as the tenant is at rest. One that is not, or without an operator that would say so, is left out.
pub fn if_at_rest(world: &World, cluster: &Value) -> Result<()> {
    let name = name_of(cluster);
    let path = format!("{}/{name}", berth(namespace(cluster), "clusters"));
    let left_out = |why: &str| println!("    {name}: no plan is asked for: {why}");
    if let Some(why) = never(world)? {
        left_out(why);
        return Ok(());
    }
    until_within(SOON, &format!("a plan of {name} without a change"), || {
        let Some(cluster) = world.kube.find(&path)? else { return Ok(()) };
        match at_rest(&cluster) {
            Err(why) => left_out(&format!("{why:#}")),
            Ok(()) => plan(world, &cluster)?,
        }
        Ok(())
    })
}

/// Why no tenant is at rest for long, if so.
fn never(world: &World) -> Result<Option<&'static str>> {
    let deployment = world.kube.find(&format!("{}/{}", apps(operator::SYSTEM, "deployments"), operator::NAME))?;
    let Some(deployment) = deployment else { return Ok(Some("Berth is not installed")) };
    if deployment["status"]["availableReplicas"].as_u64().unwrap_or_default() == 0 {
        return Ok(Some("the operator does not run"));
    }
    let args = deployment.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
    let minutes = args.into_iter().flatten().find_map(|arg| arg.as_str()?.strip_prefix("--leaf-lifetime-minutes="));
    let brief = minutes.and_then(|minutes| minutes.parse::<u64>().ok()).is_some_and(|minutes| minutes < BRIEF);
    Ok(brief.then_some("certificates are renewed all the time"))
}

/// The operator says that nothing is to be done. The error: what there is.
fn at_rest(cluster: &Value) -> Result<()> {
    let (meta, status) = (&cluster["metadata"], &cluster["status"]);
    ensure!(meta["deletionTimestamp"].is_null(), "it is being deleted");
    ensure!(cluster["spec"]["paused"] != true, "it is paused");
    ensure!(status["observedGeneration"] == meta["generation"], "its spec was not looked at");
    let (ready, degraded) = (condition(cluster, "Ready")?, condition(cluster, "Degraded")?);
    ensure!(ready["status"] == "True" && ready["reason"] == "AsExpected", "{}: {}", ready["reason"], ready["message"]);
    ensure!(degraded["status"] == "False", "{}: {}", degraded["reason"], degraded["message"]);
    ensure!(status["rollout"].is_null(), "a release is rolled out: {}", status["rollout"]);
    let turn = &status["turn"]["state"];
    ensure!(turn.is_null() || turn == "Succeeded", "the change to {} is {turn}", status["turn"]["to"]);
    Ok(())
}

/// Nothing is to be done, and all was read that the operator goes by.
fn plan(world: &World, cluster: &Value) -> Result<()> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(["plan", &name_of(cluster), "-n", namespace(cluster)]).env("KUBECONFIG", world.cluster.kubeconfig());
    let output = command.output().context("cannot run kubectl-berth")?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (said, notes) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.code() == Some(0) && notes.is_empty(), "{}:\n{said}\n{notes}", output.status);
    Ok(())
}

fn namespace(cluster: &Value) -> &str {
    cluster["metadata"]["namespace"].as_str().unwrap_or_default()
}
