//! A tenant sleeps and wakes with real pods, again and again, while a client writes and others watch: nothing that was acknowledged is lost, and
//! clients go on by themselves.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use berth_e2e::{Outside, Tenant, World, Writer, apps, core, paths, run, tenant::condition, until};
use serde_json::{Value, json};

/// How often; `BERTH_E2E_SLEEPS` says otherwise.
const TIMES: usize = 3;

#[test]
#[ignore = "make test-all: clients outside are built, and a tenant sleeps several times"]
fn a_tenant_sleeps_and_wakes() {
    run("sleep", |world| {
        world.install(&berth_e2e::operator::Options::default())?;
        by_hand(world)?;
        by_the_spec(world)
    });
}

fn by_hand(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "sleeper", &json!({}))?;
    let outside = Outside::start(&tenant)?;
    let writer = Writer::start(&tenant.kubeconfig()?);
    let times = std::env::var("BERTH_E2E_SLEEPS").ok().and_then(|times| times.parse().ok()).unwrap_or(TIMES);
    for n in 0..times {
        let began = Instant::now();
        berth(world, &tenant, &["sleep", "-y", "--wait"])?;
        println!("    asleep after {:.1?}", began.elapsed());
        sleeps(world, &tenant)?;
        let began = Instant::now();
        berth(world, &tenant, &["wake", "--wait"])?;
        println!("    awake after {:.1?}", began.elapsed());
        tenant.wait_ready()?;
        let name = format!("after-{n}");
        outside.asks(&tenant, &name)?;
        outside.is_bound(&tenant, &name)?;
    }
    writer.nothing_was_lost(&tenant)?;
    tenant.delete()
}

/// Three members and two API servers; the operator ends at each step, and what is asked for meanwhile comes after the wake.
fn by_the_spec(world: &World) -> Result<()> {
    let spec = json!({"replicas": 2, "etcd": {"replicas": 3}, "hibernation": {"enabled": true}});
    let tenant = Tenant::create(world, "cold", &spec)?;
    println!("    created asleep: it comes up once, and sleeps");
    for state in ["FallingAsleep", "Asleep"] {
        at(world, &tenant, state)?;
        world.restart_operator()?;
    }
    tenant.wait_condition("Ready", "True", "Asleep")?;
    sleeps(world, &tenant)?;
    let refused = berth(world, &tenant, &["wake"]).unwrap_or_else(|error| format!("{error:#}"));
    ensure!(refused.contains("spec.hibernation.enabled is true"), "{refused}");
    let flag = json!([{"name": "max-requests-inflight", "value": "399"}]);
    tenant.change(&json!({"apiServer": {"extraArgs": flag}}))?;
    tenant.wait_condition("Ready", "True", "Asleep")?;
    ensure!(!tenant.deployment("kube-apiserver")?.to_string().contains("max-requests-inflight"), "it changed asleep");
    tenant.change(&json!({"hibernation": {"enabled": false}}))?;
    at(world, &tenant, "Waking")?;
    world.restart_operator()?;
    until("the change to be made once it is awake", || {
        let live = tenant.deployment("kube-apiserver")?;
        ensure!(live.to_string().contains("max-requests-inflight=399"), "it is as before");
        ensure!(live["status"]["updatedReplicas"] == 2 && live["status"]["replicas"] == 2, "{}", live["status"]);
        Ok(())
    })?;
    tenant.wait_ready()?;
    ensure!(tenant.cluster()?["status"]["hibernation"]["state"] == "Awake", "{}", tenant.cluster()?["status"]);
    tenant.delete()
}

/// No pod is left, and everything else is there.
pub(crate) fn sleeps(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let cluster = tenant.cluster()?;
    for (type_, status) in [("Ready", "True"), ("Available", "False"), ("Degraded", "False")] {
        let found = condition(&cluster, type_)?;
        ensure!(found["status"] == status, "{type_} of one that sleeps: {found}");
    }
    ensure!(tenant.pods(None)?.is_empty(), "pods are left: {:?}", tenant.pod_identities()?);
    let claims = world.kube.list(&core(&tenant.cp_namespace, "persistentvolumeclaims"))?;
    let set = world.kube.get(&format!("{}/etcd", apps(&tenant.cp_namespace, "statefulsets")))?;
    ensure!(set["spec"]["replicas"] == 0 && !claims.is_empty(), "{} claims; {}", claims.len(), set["spec"]["replicas"]);
    ensure!(!tenant.kubeconfig()?.is_empty());
    Ok(())
}

/// Waits for what is recorded on the control-plane namespace.
fn at(world: &World, tenant: &Tenant<'_>, state: &str) -> Result<()> {
    until(&format!("{} to be {state}", tenant.name), || {
        let live = world.kube.get(&format!("{}/{}", core("", "namespaces"), tenant.cp_namespace))?;
        let text = live["metadata"]["annotations"]["berth.dev/sleep"].as_str().unwrap_or("null");
        let record: Value = serde_json::from_str(text)?;
        ensure!(record["state"] == state, "it is {record}");
        Ok(())
    })
}

pub(crate) fn berth(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(arguments).args([&tenant.name, "-n", &tenant.namespace]);
    let output = command.env("KUBECONFIG", world.cluster.kubeconfig()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}: {}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}
