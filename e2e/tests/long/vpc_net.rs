//! A machine in a VPC becomes a node of a tenant by `kubeadm join`, and the VPC's router leads to its pods.
//!
//! The tenant is reached at its load balancer's address: the VPC is given a link to the meta cluster's network, as a cloud's peering is.

use std::process::Command;

use anyhow::{Result, ensure};
use berth_devcluster::{Vpc, Worker, versions};
use berth_e2e::{Kubectl, Tenant, World, machines, run::run, until};
use serde_json::json;

/// Both ends of the link.
const ENDS: [&str; 2] = ["192.168.77.1", "192.168.77.2"];

#[test]
#[ignore = "make test-all: a machine beside the cluster, with a kubelet of its own"]
fn a_machine_in_a_vpc_joins_and_its_pods_are_reached() {
    run("vpc_net", |world| {
        let vpc = world.cluster.vpc("a")?;
        let result = machines::with(world, &["vpc-net"], Some("a"), &[], |workers| {
            peer(world, &vpc).and_then(|()| joins(world, &vpc, &workers[0]))
        });
        result.and(ip(&["-n", &world.cluster.netns(), "link", "del", "peer-a"]))
    });
}

fn peer(world: &World, vpc: &Vpc) -> Result<()> {
    let (meta, own) = (world.cluster.netns(), vpc.netns());
    let [near, far] = ENDS.map(|end| format!("{end}/30"));
    ip(&["-n", &meta, "link", "add", "peer-a", "type", "veth", "peer", "name", "peer", "netns", &own])?;
    for (scope, link, address) in [(&meta, "peer-a", near), (&own, "peer", far)] {
        ip(&["-n", scope, "addr", "add", &address, "dev", link])?;
        ip(&["-n", scope, "link", "set", link, "up"])?;
    }
    ip(&["-n", &meta, "route", "add", &vpc.subnet().to_string(), "via", ENDS[1]])?;
    ip(&["-n", &own, "route", "replace", &world.cluster.slot().range(), "via", ENDS[0]])
}

fn joins(world: &World, vpc: &Vpc, worker: &Worker) -> Result<()> {
    let tenant = Tenant::ready(world, "in-a-vpc", &json!({}))?;
    worker.join(&tenant.join_arguments()?)?;
    worker.configure_pods()?;

    let kubectl = Kubectl::of(&tenant)?;
    let ready = || {
        let said = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status} {.status.addresses[0].address}";
        let said = kubectl.run(&["get", "node", &worker.name(), "-o", said])?;
        ensure!(said == format!("True {}", worker.address()), "Ready and address are {said}");
        Ok(())
    };
    until("the node to be ready, at its address in the VPC", ready)?;
    let image = format!("--image=registry.k8s.io/coredns/coredns:v{}", versions::COREDNS);
    // Without a configuration it serves `whoami`, at a port that needs no rights.
    kubectl.run(&[
        "run",
        "first",
        &image,
        "--image-pull-policy=Never",
        "--port=1053",
        "--",
        "-dns.port=1053",
        "-conf=/dev/null",
    ])?;
    let pod = || {
        let said = kubectl.run(&["get", "pod", "first", "-o", "jsonpath={.status.phase} {.status.podIP}"])?;
        Ok::<_, anyhow::Error>(said.strip_prefix("Running ").unwrap_or_default().to_owned())
    };
    let answers = |vpc: &Vpc, address: &str| {
        let address = format!("TCP:{address}:1053,connect-timeout=2");
        Ok::<_, anyhow::Error>(vpc.command("socat").args(["-u", "OPEN:/dev/null", &address]).output()?.status.success())
    };
    let reached = || {
        let address = pod()?;
        ensure!(!address.is_empty() && answers(vpc, &address)?, "nothing answers at `{address}`");
        Ok(())
    };
    until("the pod to be reached from the VPC's router", reached)?;
    kubectl.until("its log, from the API server over the VPC", &["logs", "first"])?;
    let address = pod()?;
    ensure!(!answers(&world.cluster.vpc("b")?, &address)?, "the other VPC leads there too");

    worker.kill()?;
    ensure!(!answers(vpc, &address)?, "the machine is off, and its pod answers");
    world.cluster.add_worker(&worker.name(), Some("a"), &[])?;
    // It is made anew, at an address of the same range.
    until("the pod of the machine that is back", reached)
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output()?;
    ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(())
}
