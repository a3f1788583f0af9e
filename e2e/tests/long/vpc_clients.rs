//! A machine in a tenant's VPC calls the API at its virtual IP without a pause, while the tenant gets a new patch version, nodes of the meta
//! cluster are drained, and an API server gets another address.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::Worker;
use berth_e2e::{
    Caller, NEWEST, PREVIOUS_PATCH, Tenant, World, apps, machines,
    network::{asked_address, define, holder},
    tenant::{condition, name_of},
    until,
};
use serde_json::{Value, json};

const TEAM: &str = "team-e2e";
const VIRTUAL: &str = "172.20.0.10";
/// How long a client may be without an answer when a node is gone without a word. Another API server has the address within seconds, but its
/// client of etcd takes half a minute to notice a member that is gone.
const LOST: Duration = Duration::from_secs(45);

#[test]
#[ignore = "make test-all: three nodes and a machine in a VPC"]
fn clients_in_a_vpc_notice_no_change() {
    berth_e2e::run::run_on_three_nodes("vpc_clients", |world| {
        machines::with(world, &["client"], Some("a"), &[], |workers| work(world, workers.first().context("a machine")?))
    });
}

fn work(world: &World, worker: &Worker) -> Result<()> {
    let vpc = world.cluster.vpc("a")?;
    define(world, &vpc.definition(TEAM))?;
    let addresses = |second: &str| json!(["172.20.0.2/24", second, "172.20.0.4/24"]);
    let spec = json!({
        "version": PREVIOUS_PATCH, "replicas": 2,
        "vpc": {"attachment": {"name": vpc.master()}, "addresses": addresses("172.20.0.3/24"), "virtualIP": VIRTUAL},
        "apiServer": {"placement": {"antiAffinity": "Required"}},
        "etcd": {"replicas": 3, "placement": {"antiAffinity": "Required"}},
        "addons": {"coreDNS": {"enabled": false}, "kubeProxy": {"enabled": false}},
    });
    let tenant = Tenant::ready(world, "called", &spec)?;
    machines::join(&tenant, worker)?;
    let under = |what: &str, change: &dyn Fn() -> Result<()>| {
        println!("    {what}");
        let caller = Caller::start_in(&worker.netns(), &tenant.kubeconfig()?, VIRTUAL)?;
        let result = change();
        let calls = caller.end()?;
        result?;
        calls.none_failed().with_context(|| what.to_owned())
    };
    under("a new patch version", &|| {
        tenant.change(&json!({"version": NEWEST}))?;
        tenant.wait_ready()?;
        ensure!(tenant.cluster()?["status"]["version"] == NEWEST, "it is not served");
        Ok(())
    })?;
    under("each node is drained", &|| world.cluster.nodes().iter().try_for_each(|node| drain(world, &tenant, node)))?;
    under("another address", &|| {
        tenant.change(&json!({"vpc": {"addresses": addresses("172.20.0.7/24")}}))?;
        tenant.wait_ready()?;
        let pods = tenant.pods(Some("kube-apiserver"))?;
        let addresses: Vec<_> = pods.iter().filter_map(asked_address).collect();
        ensure!(addresses.contains(&"172.20.0.7".to_owned()), "API servers ask for {addresses:?}");
        Ok(())
    })?;
    power_loss(world, worker, &tenant)?;
    tenant.delete()
}

/// A node with an API server goes without a word: another one has the virtual IP within seconds, and the spare takes the place of the lost one.
fn power_loss(world: &World, worker: &Worker, tenant: &Tenant<'_>) -> Result<()> {
    let (first, nodes) = (world.cluster.node(), world.cluster.nodes());
    let pods = tenant.pods(Some("kube-apiserver"))?;
    // The first node carries the meta cluster itself. Preferably who has the virtual IP.
    let has = holder(tenant, &world.cluster.vpc("a")?, VIRTUAL).ok();
    let elsewhere = |pod: &&Value| pod["spec"]["nodeName"].as_str().is_some_and(|node| node != first);
    let lost =
        has.as_ref().filter(elsewhere).or_else(|| pods.iter().find(elsewhere)).context("an API server elsewhere")?;
    let node = lost["spec"]["nodeName"].as_str().unwrap_or_default();
    let number = u8::try_from(nodes.iter().position(|name| name == node).context("its number")? + 1)?;
    println!("    power loss of {node}, with {}", name_of(lost));
    let caller = Caller::start_in(&worker.netns(), &tenant.kubeconfig()?, VIRTUAL)?;
    world.cluster.kill_node(number)?;
    let served = until("an API server on the spare", || {
        let pods = tenant.pods(Some("kube-apiserver"))?;
        let spare = pods.iter().find(|pod| name_of(pod) == "kube-apiserver-2-0").context("no pod of the spare")?;
        let ready = condition(spare, "Ready")?;
        ensure!(ready["status"] == "True", "{}", ready["reason"]);
        Ok(())
    });
    let calls = caller.end()?;
    world.cluster.start_node(number)?;
    served?;
    ensure!(calls.longest <= LOST, "{:?} without an answer", calls.longest);
    tenant.wait_ready().map(drop)
}

/// As before maintenance, as budgets allow.
fn drain(world: &World, tenant: &Tenant<'_>, node: &str) -> Result<()> {
    println!("    draining {node}");
    world.kubectl(&["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s"])?;
    let left: Vec<_> = tenant.pods(None)?.iter().filter(|pod| pod["spec"]["nodeName"] == node).map(name_of).collect();
    ensure!(left.is_empty(), "{left:?} are left on {node}");
    world.kubectl(&["uncordon", node])?;
    until("the operator to run", || {
        let deployment = world.kube.get(&format!("{}/berth-operator", apps("berth-system", "deployments")))?;
        ensure!(deployment["status"]["availableReplicas"] == 1);
        Ok(())
    })?;
    tenant.wait_ready().map(drop)
}
