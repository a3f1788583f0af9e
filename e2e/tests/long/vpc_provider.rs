//! A tenant whose API server gets its address in the VPC from the provider, behind the provider's load balancer: a machine joins there, and
//! where its pods find the API follows the address.

use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Vpc, Worker, images};
use berth_e2e::{
    Kubectl, Tenant, World, core,
    kube_client::path,
    machines,
    network::{define, interface},
    run::run,
    until,
};
use serde_json::{Value, json};

const TEAM: &str = "team-e2e";

#[test]
#[ignore = "make test-all: a machine in a VPC, with a kubelet of its own"]
fn the_address_is_the_providers() {
    run("vpc_provider", |world| {
        let vpc = world.cluster.vpc("a")?;
        machines::with(world, &["provided"], Some("a"), &images::of_nodes()?, |workers| {
            work(world, &vpc, workers.first().context("a machine")?)
        })
    });
}

fn work(world: &World, vpc: &Vpc, worker: &Worker) -> Result<()> {
    let definition = vpc.pool_definition(TEAM);
    define(world, &definition)?;
    // What a provider would put in front of the API servers has the router's address here.
    let host = vpc.router().to_string();
    let spec = json!({
        "vpc": {
            "attachment": {"name": definition["metadata"]["name"]},
            "host": host,
            "routes": [{"dst": "10.160.0.0/16", "via": vpc.router()}],
        },
        "addons": {"coreDNS": {"enabled": false}, "kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    });
    let tenant = Tenant::ready(world, "provided", &spec)?;
    tenant.wait_condition("VPCReady", "True", "AsExpected")?;
    let first = address(&tenant)?;
    let balancer = Balancer::start(vpc, &first)?;
    let kubectl = Kubectl::of(&tenant)?;
    until("the API to answer behind the load balancer", || kubectl.in_vpc(vpc, &host, &["get", "--raw", "/readyz"]))?;
    let arguments = tenant.join_arguments()?;
    ensure!(arguments.first().is_some_and(|to| *to == format!("{host}:6443")), "{arguments:?}");
    machines::join(&tenant, worker)?;
    ensure!(slice(&tenant)? == [first.clone()], "the slice has {:?}", slice(&tenant)?);
    asks_the_api(&kubectl)?;
    drop(balancer);

    let pods = core(&tenant.cp_namespace, "pods");
    let pod = tenant.pods(Some("kube-apiserver"))?.first().cloned().context("an API server")?;
    world.kube.delete(&format!("{pods}/{}", pod["metadata"]["name"].as_str().context("a name")?))?;
    let second = until("another API server with another address", || {
        let now = address(&tenant)?;
        ensure!(now != first, "it is {now}");
        Ok(now)
    })?;
    let _balancer = Balancer::start(vpc, &second)?;
    tenant.wait_ready()?;
    until("the slice to follow", || {
        ensure!(slice(&tenant)? == [second.clone()], "it has {:?}", slice(&tenant)?);
        Ok(())
    })?;
    kubectl.run(&["delete", "pod", "asks"])?;
    asks_the_api(&kubectl)?;
    tenant.delete()
}

/// The address that the plugin gave the only API server that is ready.
fn address(tenant: &Tenant<'_>) -> Result<String> {
    let ready = |pod: &Value| {
        let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        pod["metadata"]["deletionTimestamp"].is_null()
            && all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let pods: Vec<_> = tenant.pods(Some("kube-apiserver"))?.into_iter().filter(ready).collect();
    ensure!(pods.len() == 1, "{} API servers are ready", pods.len());
    let given = pods.first().and_then(interface).context("net1")?;
    Ok(given.pointer("/ips/0").and_then(Value::as_str).context("an address")?.to_owned())
}

/// Where pods of the tenant find the API.
fn slice(tenant: &Tenant<'_>) -> Result<Vec<String>> {
    let slices = path("/apis/discovery.k8s.io/v1", "default", "endpointslices");
    let live = tenant.api()?.get(&format!("{slices}/kubernetes"))?;
    let endpoints = live["endpoints"].as_array().cloned().unwrap_or_default();
    Ok(endpoints.iter().filter_map(|one| Some(one.pointer("/addresses/0")?.as_str()?.to_owned())).collect())
}

/// A pod on the machine connects to the Service `kubernetes`.
fn asks_the_api(kubectl: &Kubectl) -> Result<()> {
    let to = kubectl.run(&["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"])?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks", "namespace": "default"},
        "spec": {"restartPolicy": "OnFailure", "containers": [{
            "name": "asks", "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
            "args": ["connect", format!("{to}:443"), "--timeout=3s"],
        }]},
    });
    kubectl.apply(&[pod])?;
    until("a pod to reach the API", || {
        let phase = kubectl.run(&["get", "pod", "asks", "-o", "jsonpath={.status.phase}"])?;
        ensure!(phase == "Succeeded", "it is {phase}");
        Ok(())
    })
}

/// A load balancer at the router's address, with one server behind it. It ends with this value.
struct Balancer(Child);

impl Balancer {
    fn start(vpc: &Vpc, server: &str) -> Result<Self> {
        let listen = format!("TCP-LISTEN:6443,bind={},fork,reuseaddr", vpc.router());
        let mut command = vpc.command("socat");
        command.args([listen, format!("TCP:{server}:6443,connect-timeout=3")]);
        Ok(Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
