//! Tenants outlive restarts of Berth and of the meta cluster, and a new Berth changes none of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::{Options, Tenant, World, core, images, tenant::condition, until};
use serde_json::{Value, json};

#[test]
fn restarts_and_an_upgrade() {
    berth_e2e::run("restart", |world| {
        let tenant = Tenant::ready(world, "lasting", &json!({"etcd": {"replicas": 3}}))?;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
        tenant.api()?.create(&core("default", "configmaps"), &map)?;
        world.wait_alone(&tenant)?;
        another_operator_writes_nothing(world, &tenant)?;
        a_build_with_other_templates_rolls_nothing(world, &tenant)?;
        power_comes_back(world, &tenant)
    });
}

fn another_operator_writes_nothing(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let pods = tenant.pod_identities()?;
    let mark = world.audit_mark()?;
    world.restart_operator()?;
    world.operator_has_reconciled()?;
    let writes = world.writes_since(mark)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    ensure!(tenant.pod_identities()? == pods);
    Ok(())
}

/// Another agent, on another way into the pods, and another text in the templates of every minor: new tenants get all of it,
/// old ones stay as they are.
fn a_build_with_other_templates_rolls_nothing(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let pods = tenant.pod_identities()?;
    let program = with_other_templates(images::built("operator")?)?;
    let mark = world.audit_mark()?;
    world.install(&Options {
        program: Some(program),
        agent_suffix: "another",
        agent_delivery: Some("InitContainer"),
        ..Options::default()
    })?;
    world.operator_has_reconciled()?;
    // `UpdateAvailable` is said, and that is all.
    let writes = world.writes_since(mark)?;
    let status = format!("/clusters/{}/status?", tenant.name);
    ensure!(writes.iter().all(|w| w.contains(&status)), "{writes:#?}");
    ensure!(tenant.pod_identities()? == pods, "0 pods are restarted");

    let new = Tenant::ready(world, "new", &json!({}))?;
    ensure!(liveness(&new)? == json!(16), "a new tenant gets the new templates");
    ensure!(liveness(tenant)? == json!(15), "an old one keeps its own");
    let agent = |t: &Tenant<'_>, at: &str| {
        let deployment = t.deployment("kube-apiserver")?;
        let image = deployment.pointer(&format!("/spec/template/spec/{at}")).and_then(Value::as_str);
        image.map(str::to_owned).with_context(|| format!("no {at}"))
    };
    let copied = agent(&new, "initContainers/0/image")?;
    ensure!(copied != agent(tenant, "volumes/0/image/reference")?, "and the new agent, in the new way");
    // A repair is made with the tenant's own templates, not with the operator's.
    world.kubectl(&["-n", &tenant.cp_namespace, "delete", "deployment", "kube-scheduler"])?;
    until("the scheduler's Deployment to be back", || tenant.deployment("kube-scheduler"))?;
    tenant.wait_ready()?;
    ensure!(
        tenant.deployment("kube-scheduler")?.pointer("/spec/template/spec/containers/0/livenessProbe/periodSeconds")
            == Some(&json!(15))
    );
    new.let_go()?;
    world.install(&Options::default())
}

const PROBE: &[u8] = b"periodSeconds: 15";

/// The operator's program with another period of liveness probes in the templates that it carries.
fn with_other_templates(mut program: Vec<u8>) -> Result<Vec<u8>> {
    let found: Vec<usize> =
        program.windows(PROBE.len()).enumerate().filter(|(_, w)| *w == PROBE).map(|(at, _)| at).collect();
    ensure!(!found.is_empty(), "the templates are not in the program as they are in the checkout");
    for at in found {
        program[at + PROBE.len() - 1] = b'6';
    }
    Ok(program)
}

fn liveness(tenant: &Tenant<'_>) -> Result<Value> {
    let deployment = tenant.deployment("kube-apiserver")?;
    let period = deployment.pointer("/spec/template/spec/containers/0/livenessProbe/periodSeconds");
    period.cloned().context("a liveness probe")
}

fn power_comes_back(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let secrets = tenant.secrets()?;
    world.cluster.stop()?;
    world.cluster.start(Duration::from_mins(5))?;
    until("the tenant's data to be there", || tenant.api()?.get(&format!("{}/kept", core("default", "configmaps"))))?;
    until("every pod to be ready again", || {
        for pod in tenant.pods(None)? {
            let ready = condition(&pod, "Ready")?;
            ensure!(ready["status"] == "True", "{}: {ready}", pod["metadata"]["name"]);
        }
        Ok(())
    })?;
    world.operator_has_reconciled()?;
    tenant.wait_ready()?;
    ensure!(tenant.secrets()? == secrets, "no key was made anew");
    Ok(())
}
