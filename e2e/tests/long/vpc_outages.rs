//! The address that moves between API servers: it leaves one that hangs, and stays where it is while a webhook refuses everything and while
//! etcd is away.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use berth_devcluster::Vpc;
use berth_e2e::{
    Kubectl, NEWEST, Tenant, World, apps, core,
    network::{asked_address, define, holder, processes_of},
    run::run,
    tenant::{condition, name_of},
    until,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

const TEAM: &str = "team-e2e";
const VIRTUAL: &str = "172.20.0.10";
/// What the address depends on: an API server that serves, with or without its etcd.
const READY: &str = "/readyz?exclude=etcd&exclude=etcd-readiness";
/// How long clients may be without the address. A second beyond what is promised: other builds may have the machine.
const AWAY: Duration = Duration::from_secs(6);
/// etcd is away for that long, and the address is looked at every second.
const OUTAGE: Duration = Duration::from_mins(10);

#[test]
#[ignore = "make test-all: etcd is away for ten minutes"]
fn the_address_leaves_who_hangs_and_nobody_else() {
    run("vpc_outages", |world| {
        let vpc = world.cluster.vpc("a")?;
        define(world, &vpc.definition(TEAM))?;
        let spec = json!({
            "version": NEWEST, "replicas": 2,
            "vpc": {
                "attachment": {"name": vpc.master()},
                "addresses": ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"], "virtualIP": VIRTUAL,
            },
        });
        let tenant = Tenant::ready(world, "outages", &spec)?;
        let kubectl = Kubectl::of(&tenant)?;
        hangs(&tenant, &vpc, &kubectl)?;
        tenant.wait_ready()?;
        refuses(&tenant, &vpc, &kubectl)?;
        etcd_is_away(world, &tenant, &vpc, &kubectl)?;
        tenant.delete()
    });
}

fn serves(kubectl: &Kubectl, vpc: &Vpc) -> Result<()> {
    let said = kubectl.in_vpc(vpc, VIRTUAL, &["get", "--raw", READY])?;
    ensure!(said == "ok", "{said:?}");
    Ok(())
}

/// The holder's API server is stopped, and its sidecar is not.
fn hangs(tenant: &Tenant<'_>, vpc: &Vpc, kubectl: &Kubectl) -> Result<()> {
    until("the address to answer", || serves(kubectl, vpc))?;
    let pod = holder(tenant, vpc, VIRTUAL)?;
    let all: Vec<_> = processes_of(&pod, "kube-apiserver")?.into_iter().map(Pid::from_raw).collect();
    ensure!(!all.is_empty(), "{} has no API server", name_of(&pod));
    all.iter().try_for_each(|process| kill(*process, Signal::SIGSTOP))?;
    let start = Instant::now();
    let result = loop {
        match serves(kubectl, vpc) {
            Ok(()) => break Ok(start.elapsed()),
            Err(error) if start.elapsed() > Duration::from_mins(1) => break Err(error),
            Err(_) => {}
        }
    };
    let other = holder(tenant, vpc, VIRTUAL);
    // Its kubelet may have ended it by now.
    let _ = all.iter().try_for_each(|process| kill(*process, Signal::SIGCONT));
    let away = result?;
    println!("    {VIRTUAL} answers {:.1} s after {} hung", away.as_secs_f64(), name_of(&pod));
    ensure!(away <= AWAY, "{VIRTUAL} was away for {away:?}");
    ensure!(name_of(&other?) != name_of(&pod), "{} has it and hangs", name_of(&pod));
    Ok(())
}

/// A webhook of the tenant that nobody answers refuses every write.
fn refuses(tenant: &Tenant<'_>, vpc: &Vpc, kubectl: &Kubectl) -> Result<()> {
    let before = name_of(&holder(tenant, vpc, VIRTUAL)?);
    kubectl.apply(&[json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "all"},
        "webhooks": [{
            "name": "all.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": {"url": format!("https://{}:9443/", vpc.router())},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
        }],
    })])?;
    until("writes to be refused", || {
        let said =
            kubectl.run(&["create", "configmap", "refused", "--dry-run=server"]).err().context("it was created")?;
        ensure!(said.to_string().contains("all.example.com"), "{said}");
        Ok(())
    })?;
    stays(tenant, vpc, kubectl, Duration::from_mins(1), &before)?;
    kubectl.run(&["delete", "validatingwebhookconfiguration", "all"])?;
    tenant.wait_ready().map(drop)
}

/// Without an operator, too: the API server that has not got the address is deleted.
fn comes_back(world: &World, tenant: &Tenant<'_>, holder: &str) -> Result<()> {
    let pods = tenant.pods(Some("kube-apiserver"))?;
    let other = pods.iter().find(|pod| name_of(pod) != holder).context("another API server")?;
    let path = format!("{}/{}", core(&tenant.cp_namespace, "pods"), name_of(other));
    world.kube.delete(&path)?;
    until("a deleted API server to come back", || {
        let now = world.kube.get(&path)?;
        ensure!(now["metadata"]["uid"] != other["metadata"]["uid"], "it is the same");
        ensure!(asked_address(&now) == asked_address(other), "it asks for {:?}", asked_address(&now));
        let ready = condition(&now, "Ready")?;
        ensure!(ready["status"] == "True", "{}", ready["reason"]);
        Ok(())
    })
}

/// Nobody repairs etcd meanwhile.
fn etcd_is_away(world: &World, tenant: &Tenant<'_>, vpc: &Vpc, kubectl: &Kubectl) -> Result<()> {
    let before = name_of(&holder(tenant, vpc, VIRTUAL)?);
    world.stop_operator()?;
    comes_back(world, tenant, &before)?;
    let pods = tenant.pod_identities()?;
    let etcd = format!("{}/etcd", apps(&tenant.cp_namespace, "statefulsets"));
    world.kube.merge(&etcd, &json!({"spec": {"replicas": 0}}))?;
    until("etcd to be away", || {
        ensure!(tenant.pods(Some("etcd"))?.is_empty(), "a member is there");
        ensure!(kubectl.in_vpc(vpc, VIRTUAL, &["get", "--raw", "/readyz"]).is_err(), "the API is ready");
        Ok(())
    })?;
    stays(tenant, vpc, kubectl, OUTAGE, &before)?;
    world.kube.merge(&etcd, &json!({"spec": {"replicas": 1}}))?;
    until("the API to be ready", || kubectl.in_vpc(vpc, VIRTUAL, &["get", "--raw", "/readyz"]))?;
    world.start_operator()?;
    tenant.wait_ready()?;
    for (name, (uid, _)) in tenant.pod_identities()? {
        ensure!(
            name.starts_with("etcd") || pods.get(&name).is_some_and(|(known, _)| *known == uid),
            "{name} is another pod"
        );
    }
    Ok(())
}

/// For that long, one API server has the address, and answers there.
fn stays(tenant: &Tenant<'_>, vpc: &Vpc, kubectl: &Kubectl, time: Duration, who: &str) -> Result<()> {
    let (start, mut looks, mut missed) = (Instant::now(), 0, 0);
    while start.elapsed() < time {
        // One that finds the machine busy is asked again.
        missed = if serves(kubectl, vpc).is_ok() { 0 } else { missed + 1 };
        if missed > 2 {
            bail!("{VIRTUAL} does not answer, {:?} after it began", start.elapsed());
        }
        let now = name_of(&holder(tenant, vpc, VIRTUAL)?);
        ensure!(now == who, "{VIRTUAL} went from {who} to {now}, {:?} after it began", start.elapsed());
        looks += 1;
        thread::sleep(Duration::from_secs(1));
    }
    println!("    {who} had {VIRTUAL} all along, in {looks} looks");
    Ok(())
}
