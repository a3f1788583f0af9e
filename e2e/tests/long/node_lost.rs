//! One of three nodes loses its power and is declared out of service: the member of etcd with its volume there is replaced on another node,
//! under a client that writes all the time. Until somebody says so it is waited for, and once the node is back its old data is nobody's.

use std::{thread, time::Duration};

use anyhow::{Context, Result, ensure};
use berth_e2e::{Tenant, World, Writer, core, tenant::condition, tenant::name_of, until};
use serde_json::{Value, json};

const TAINT: &str = "node.kubernetes.io/out-of-service";

#[test]
#[ignore = "make test-all: three nodes, of which one loses its power, and minutes until Kubernetes gives it up"]
fn a_member_whose_node_is_out_of_service_is_replaced_and_no_write_is_lost() {
    berth_e2e::run::run_on_three_nodes("node_lost", |world| {
        let tenant = Tenant::ready(world, "spread", &json!({"etcd": {"replicas": 3}}))?;
        let (member, node, number) = on_another_node(world, &tenant)?;
        let before = ids(&tenant)?;
        let writer = Writer::start(&tenant.kubeconfig()?);
        println!("    power loss of {node}, with {member}");
        world.cluster.kill_node(number)?;
        is_given_up(world, &node)?;
        thread::sleep(Duration::from_secs(30));
        ensure!(ids(&tenant)? == before, "a member that is only away was replaced");

        println!("    {node} is out of service");
        world.kubectl(&["taint", "node", &node, &format!("{TAINT}=nodeshutdown:NoExecute")])?;
        until(&format!("{member} to be replaced"), || {
            let now = ids(&tenant)?;
            let changed = now.iter().zip(&before).filter(|(now, before)| now != before).count();
            let etcd = tenant.etcd()?;
            let ready = condition(&etcd, "Ready")?;
            ensure!(changed == 1 && etcd["status"]["operation"].is_null() && ready["status"] == "True", "{ready}");
            Ok(())
        })?;
        let (now, after) = (node_of(&tenant, &member)?, ids(&tenant)?);
        ensure!(now != node, "{member} is on {now}");
        tenant.wait_ready()?;

        println!("    {node} is back");
        world.cluster.start_node(number)?;
        world.kubectl(&["taint", "node", &node, &format!("{TAINT}-")])?;
        until(&format!("{node} to be ready"), || {
            let live = world.kube.get(&format!("{}/{node}", core("", "nodes")))?;
            let ready = condition(&live, "Ready")?;
            ensure!(ready["status"] == "True", "{ready}");
            Ok(())
        })?;
        thread::sleep(Duration::from_secs(20));
        tenant.wait_ready()?;
        ensure!(ids(&tenant)? == after, "the old data is nobody's");
        writer.nothing_was_lost(&tenant)?;
        tenant.delete()
    });
}

/// A member that is not on the first node, which has the meta cluster itself; its node, and that node's number.
fn on_another_node(world: &World, tenant: &Tenant<'_>) -> Result<(String, String, u8)> {
    let (nodes, first) = (world.cluster.nodes(), world.cluster.node());
    for member in ["etcd-0", "etcd-1", "etcd-2"] {
        let node = node_of(tenant, member)?;
        if let Some(at) = nodes.iter().position(|n| *n == node).filter(|_| node != first) {
            return Ok((member.to_owned(), node, u8::try_from(at + 1)?));
        }
    }
    anyhow::bail!("all members are on {first}")
}

fn node_of(tenant: &Tenant<'_>, member: &str) -> Result<String> {
    let pods = tenant.pods(Some("etcd"))?;
    let pod = pods.iter().find(|p| name_of(p) == member).with_context(|| format!("no pod {member}"))?;
    Ok(pod["spec"]["nodeName"].as_str().with_context(|| format!("{member} has no node"))?.to_owned())
}

fn ids(tenant: &Tenant<'_>) -> Result<Vec<Value>> {
    let etcd = tenant.etcd()?;
    Ok(etcd["status"]["members"].as_array().context("members")?.iter().map(|m| m["id"].clone()).collect())
}

fn is_given_up(world: &World, node: &str) -> Result<()> {
    until("the node to be given up", || {
        let live = world.kube.get(&format!("{}/{node}", core("", "nodes")))?;
        let ready = condition(&live, "Ready")?;
        ensure!(ready["status"] != "True", "{ready}");
        Ok(())
    })
}
