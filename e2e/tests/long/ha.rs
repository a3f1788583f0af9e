//! A tenant with two API servers and three etcd members on three nodes: it gets a new patch version, two members are evicted at once, nodes
//! are drained, one loses its power, and its clients are served on.

use std::{fs, sync::Barrier, thread, time::Duration};

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_e2e::{Caller, Kube, NEWEST, PREVIOUS_PATCH, Tenant, World, apps, core, kube_client::status_of, until};
use serde_json::{Value, json};

/// How long a client may be without an answer when a node is gone without a word.
const KILLED: Duration = Duration::from_secs(45);

/// The label of nodes that API servers are spread over.
const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
#[ignore = "make test-all: three nodes, and four minutes"]
fn nodes_come_and_go_and_clients_are_served() {
    berth_e2e::run::run_on_three_nodes("ha", |world| {
        let tenant = created_over_two_zones(world)?;
        replicas_are_apart(&tenant)?;
        budgets(world, &tenant)?;
        new_patch(&tenant)?;
        let caller = Caller::start(&tenant.kubeconfig()?);
        evicted_at_once(world, &tenant)?;
        for node in world.cluster.nodes() {
            drain(world, &tenant, &node)?;
        }
        caller.end()?.none_failed()?;
        power_loss(world, &tenant)?;
        tenant.delete()
    });
}

/// Two of three nodes are in one zone while the tenant comes up, and the third node takes nobody at first: the second API server has
/// to wait for it, although a node is free where the first one is. Then each node is in a zone of its own again.
fn created_over_two_zones(world: &World) -> Result<Tenant<'_>> {
    let nodes = world.cluster.nodes();
    let [first, second, third] = nodes.as_slice() else { bail!("there are {nodes:?}, and not three") };
    let own = zone_of(world, second)?;
    set_zone(world, second, &zone_of(world, first)?)?;
    world.kubectl(&["cordon", third])?;
    let spread = json!([{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]);
    let tenant = Tenant::create(
        world,
        "steady",
        &json!({
            "version": PREVIOUS_PATCH,
            "replicas": 2,
            "apiServer": {"placement": {"antiAffinity": "Required", "topologySpread": spread}},
            "etcd": {"replicas": 3, "placement": {"antiAffinity": "Required"}},
        }),
    )?;
    one_waits_for_another_zone(&tenant)?;
    world.kubectl(&["uncordon", third])?;
    tenant.wait_ready()?;
    let nodes = nodes_of(&tenant, "kube-apiserver")?;
    let mut zones = nodes.iter().map(|node| zone_of(world, node)).collect::<Result<Vec<_>>>()?;
    zones.sort();
    zones.dedup();
    ensure!(nodes.len() == 2 && zones.len() == 2, "API servers run on {nodes:?}, in the zones {zones:?}");
    set_zone(world, second, &own)?;
    Ok(tenant)
}

fn one_waits_for_another_zone(tenant: &Tenant<'_>) -> Result<()> {
    let waits = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said = conditions.iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
        said.and_then(|c| c["message"].as_str()).is_some_and(|m| m.contains("topology spread constraints"))
    };
    until("the second API server to wait for another zone", || {
        let pods = tenant.pods(Some("kube-apiserver"))?;
        let placed = pods.iter().filter(|p| p["spec"]["nodeName"].is_string()).count();
        ensure!((pods.len(), placed) == (2, 1), "{placed} of {} API servers have a node", pods.len());
        ensure!(pods.iter().any(waits), "the other one does not wait for a zone");
        Ok(())
    })
}

fn zone_of(world: &World, node: &str) -> Result<String> {
    let labels = world.kube.get(&format!("{}/{node}", core("", "nodes")))?["metadata"]["labels"].clone();
    Ok(labels[ZONE].as_str().with_context(|| format!("{node} is in no zone"))?.to_owned())
}

fn set_zone(world: &World, node: &str, zone: &str) -> Result<()> {
    world.kubectl(&["label", "node", node, &format!("{ZONE}={zone}"), "--overwrite"]).map(drop)
}

fn nodes_of(tenant: &Tenant<'_>, component: &str) -> Result<Vec<String>> {
    let pods = tenant.pods(Some(component))?;
    let mut nodes: Vec<String> = pods.iter().filter_map(|p| Some(p["spec"]["nodeName"].as_str()?.to_owned())).collect();
    nodes.sort();
    Ok(nodes)
}

fn replicas_are_apart(tenant: &Tenant<'_>) -> Result<()> {
    for (component, count) in
        [("kube-apiserver", 2), ("etcd", 3), ("kube-controller-manager", 2), ("kube-scheduler", 2)]
    {
        let mut nodes = nodes_of(tenant, component)?;
        nodes.dedup();
        ensure!(nodes.len() == count, "{component} runs on {nodes:?}");
    }
    Ok(())
}

fn budgets(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", tenant.cp_namespace);
    until("every budget to allow one disruption", || {
        let budgets = world.kube.list(&path)?;
        ensure!(budgets.len() == 4, "{} budgets", budgets.len());
        ensure!(budgets.iter().all(|b| b["status"]["disruptionsAllowed"] == 1), "not yet");
        Ok(())
    })
}

/// API servers are exchanged one after the other, and clients see nothing of it.
fn new_patch(tenant: &Tenant<'_>) -> Result<()> {
    println!("    a new patch version");
    let caller = Caller::start(&tenant.kubeconfig()?);
    tenant.change(&json!({"version": NEWEST}))?;
    until("the version to be the new one", || {
        let version = tenant.cluster()?["status"]["version"].clone();
        ensure!(version == NEWEST, "it is {version}");
        Ok(())
    })?;
    tenant.wait_ready()?;
    ensure!(tenant.api()?.get("/version")?["gitVersion"] == format!("v{NEWEST}"));
    caller.end()?.none_failed()
}

/// As when two people drain two nodes: one member goes, the other has to wait until that one is back.
fn evicted_at_once(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    println!("    two evictions at once");
    budgets(world, tenant)?;
    let members = ["etcd-0", "etcd-1"];
    let before = members.map(|member| uid(tenant, member));
    let meta = Kube::without_retries(&fs::read_to_string(world.cluster.kubeconfig())?)?;
    let evict = |member: &str| {
        let path = format!("{}/{member}/eviction", core(&tenant.cp_namespace, "pods"));
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": member, "namespace": tenant.cp_namespace},
        });
        meta.create(&path, &eviction).map(drop)
    };
    let start = Barrier::new(members.len());
    let answers = thread::scope(|scope| {
        let one = |member| {
            let (start, evict) = (&start, &evict);
            scope.spawn(move || {
                start.wait();
                evict(member)
            })
        };
        members.map(one).map(thread::ScopedJoinHandle::join)
    });
    let mut refused = vec![];
    for (member, answer) in members.into_iter().zip(answers) {
        match answer.map_err(|_| anyhow!("a thread panicked"))? {
            Ok(()) => {}
            Err(e) if status_of(&e) == Some(429) => refused.push(member),
            Err(e) => return Err(e.context(format!("eviction of {member}"))),
        }
    }
    let [waits] = refused.as_slice() else { bail!("one of both has to wait: {refused:?}") };
    until(&format!("{waits} to go, too"), || evict(waits))?;
    until("two other pods, ready", || {
        for (member, before) in members.iter().zip(&before) {
            let now = uid(tenant, member)?;
            ensure!(before.as_ref().is_ok_and(|before| *before != now), "{member} is the same pod");
        }
        Ok(())
    })?;
    tenant.wait_ready()?;
    budgets(world, tenant)
}

fn uid(tenant: &Tenant<'_>, pod: &str) -> Result<Value> {
    let pods = tenant.pods(Some("etcd"))?;
    let found = pods.iter().find(|p| p["metadata"]["name"] == pod);
    Ok(found.with_context(|| format!("no pod {pod}"))?["metadata"]["uid"].clone())
}

/// As before maintenance: pods leave one after the other, as budgets allow, and etcd's member waits for its node.
fn drain(world: &World, tenant: &Tenant<'_>, node: &str) -> Result<()> {
    println!("    draining {node}");
    world.kubectl(&["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s"])?;
    let left = tenant.pods(None)?.into_iter().filter(|p| p["spec"]["nodeName"] == node).count();
    ensure!(left == 0, "{left} pods are left on {node}");
    tenant.api()?.get("/version")?;
    world.kubectl(&["uncordon", node])?;
    operator_is_there(world)?;
    tenant.wait_ready().map(drop)
}

fn operator_is_there(world: &World) -> Result<()> {
    until("the operator to run", || {
        let deployment = world.kube.get(&format!("{}/berth-operator", apps("berth-system", "deployments")))?;
        ensure!(deployment["status"]["availableReplicas"] == 1);
        Ok(())
    })
}

/// A node with an API server goes without a word. The first one carries the meta cluster itself.
fn power_loss(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let first = world.cluster.node();
    let node =
        nodes_of(tenant, "kube-apiserver")?.into_iter().find(|n| *n != first).context("an API server elsewhere")?;
    let number = world.cluster.nodes().iter().position(|n| *n == node).context("its number")? + 1;
    println!("    power loss of {node}");
    let caller = Caller::start(&tenant.kubeconfig()?);
    world.cluster.kill_node(u8::try_from(number)?)?;
    let path = format!("{}/{node}", core("", "nodes"));
    until("the node to be given up", || {
        let node = world.kube.get(&path)?;
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(conditions.iter().any(|c| c["type"] == "Ready" && c["status"] != "True"));
        Ok(())
    })?;
    // Its endpoints are taken out now, and clients are at ease.
    std::thread::sleep(Duration::from_secs(15));
    let calls = caller.end()?;
    ensure!(calls.longest <= KILLED, "{:?} without an answer", calls.longest);
    world.cluster.start_node(u8::try_from(number)?)?;
    tenant.wait_ready().map(drop)
}
