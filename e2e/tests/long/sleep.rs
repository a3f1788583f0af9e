//! A tenant sleeps and wakes with real pods, again and again, while a client writes and others watch: nothing that was acknowledged is lost, and
//! clients go on by themselves.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_e2e::{
    Kubectl, Outside, Tenant, World, Writer, apps, core, paths, run, tenant::condition, until, until_within,
};
use serde_json::{Value, json};

use crate::gateway;

/// How often.
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
    for n in 0..TIMES {
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
fn sleeps(world: &World, tenant: &Tenant<'_>) -> Result<()> {
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

fn berth(world: &World, tenant: &Tenant<'_>, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(paths::program("kubectl-berth")?);
    command.args(arguments).args([&tenant.name, "-n", &tenant.namespace]);
    let output = command.env("KUBECONFIG", world.cluster.kubeconfig()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}: {}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}

/// The first call against a tenant that sleeps is answered; nobody uses it, it sleeps again, and another operator wakes it as well.
#[test]
#[ignore = "make test-all: real pods behind the gateway, and minutes without a client"]
fn a_connection_wakes_it() {
    run("woken", |world| {
        let address = gateway::install(world, &[])?;
        let asked = json!({"afterIdle": "5m", "wake": {"onConnect": true, "stayFor": "1m"}});
        let spec = json!({"endpoint": {"type": "Gateway"}, "hibernation": asked});
        let tenant = Tenant::ready(world, "woken", &spec)?;
        let kubeconfig = gateway::through(&tenant, &address)?;
        let kubectl = Kubectl::with(&kubeconfig)?;
        kubectl.run(&["create", "configmap", "before"])?;
        berth(world, &tenant, &["sleep", "-y", "--wait"])?;
        sleeps(world, &tenant)?;
        let began = Instant::now();
        kubectl.run(&["get", "configmap", "before"])?;
        println!("    a first kubectl get after {:.1?}", began.elapsed());
        tenant.wait_ready()?;
        let cause = tenant.cluster()?["status"]["hibernation"]["cause"].clone();
        ensure!(cause == "a connection", "{cause}");

        println!("    nobody uses it");
        until_within(Duration::from_mins(10), "it to fall asleep by itself", || {
            let state = tenant.cluster()?["status"]["hibernation"].clone();
            ensure!(state["state"] == "Asleep" && state["cause"] == "spec.hibernation.afterIdle", "{state}");
            Ok(())
        })?;
        sleeps(world, &tenant)?;
        world.restart_operator()?;
        println!("    another operator, and a first call again");
        kubectl.run(&["get", "configmap", "before"])?;
        tenant.wait_ready()?;
        tenant.delete()
    });
}
