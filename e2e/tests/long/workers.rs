//! Two machines in a tenant's VPC become its nodes: pods on both, a Service by its DNS name, logs, exec, port-forward and the API server's
//! own way to pods; then one is drained and taken away.

use std::{
    collections::BTreeSet,
    io::Read as _,
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Worker, images};
use berth_e2e::{Kubectl, NEWEST, Tenant, World, machines, network::define, paths, run::run, until};
use serde_json::{Value, json};

const TEAM: &str = "team-e2e";
const VIRTUAL_IP: &str = "172.20.0.10";
/// Of `hello`, by its name: six answers of one pod that asks.
const DIAL: &str = "proxy/dial?host=hello.default.svc.cluster.local&port=80&request=hostname&tries=6";

#[test]
#[ignore = "make test-all: three minutes, and two machines with kubelets of their own"]
fn two_machines_run_a_tenants_pods() {
    run("workers", |world| {
        let images = images::of_nodes()?;
        machines::with(world, &["worker-a", "worker-b"], Some("a"), &images, |workers| work(world, workers))
    });
}

fn work(world: &World, workers: &[Worker]) -> Result<()> {
    let vpc = world.cluster.vpc("a")?;
    define(world, &vpc.definition(TEAM))?;
    let spec = json!({
        "version": NEWEST, "apiServer": {"replicas": 2},
        "vpc": {
            "attachment": {"name": vpc.master()},
            "addresses": ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"],
            "virtualIP": VIRTUAL_IP,
            "routes": [{"dst": "10.160.0.0/16", "via": vpc.router()}],
        },
        // A machine of devcluster's does not size its kernel's table of connections.
        "addons": {"coreDNS": {"replicas": 1}, "kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    });
    let tenant = Tenant::ready(world, "worked", &spec)?;
    let kubectl = Kubectl::of(&tenant)?;
    for worker in workers {
        let arguments = tenant.join_arguments()?;
        ensure!(arguments.first().is_some_and(|to| to == &format!("{VIRTUAL_IP}:6443")), "{arguments:?}");
        machines::join(&tenant, worker)?;
    }
    let pods = pods_on_both(&kubectl)?;
    reached(&kubectl, &pods)?;
    drained(&kubectl, &workers[0])?;
    tenant.nothing_restarted()?;
    tenant.delete()
}

/// Name and node of each pod of `hello`.
fn pods_on_both(kubectl: &Kubectl) -> Result<Vec<(String, String)>> {
    let example = paths::root().join("examples/hello.yaml");
    kubectl.until("pods to be created", &["apply", "-f", &example.to_string_lossy()])?;
    // Four, so that the scheduler spreads them.
    kubectl.run(&["-n", "default", "scale", "deployment/hello", "--replicas=4"])?;
    kubectl.until("pods to be ready", &["-n", "default", "rollout", "status", "deployment/hello", "--timeout=2s"])?;
    let all: Value =
        serde_json::from_str(&kubectl.run(&["-n", "default", "get", "pods", "-l", "app=hello", "-o", "json"])?)?;
    let text = |pod: &Value, at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let pods = all["items"].as_array().context("pods")?.iter();
    let pods: Vec<_> = pods.map(|pod| (text(pod, "/metadata/name"), text(pod, "/spec/nodeName"))).collect();
    let nodes: BTreeSet<_> = pods.iter().map(|(_, node)| node).collect();
    ensure!(nodes.len() == 2, "pods run on {nodes:?}");
    Ok(pods)
}

/// Names, Services and every way of `kubectl` to a pod, on each node.
fn reached(kubectl: &Kubectl, pods: &[(String, String)]) -> Result<()> {
    let names: BTreeSet<&str> = pods.iter().map(|(name, _)| name.as_str()).collect();
    for (name, node) in pods {
        // The API server reaches the pod over the VPC's router; the pod asks the Service by its name.
        let said = kubectl.until(
            "the Service to answer a pod",
            &["get", "--raw", &format!("/api/v1/namespaces/default/pods/{name}:8080/{DIAL}")],
        )?;
        let said: Value = serde_json::from_str(&said)?;
        let answers: BTreeSet<_> =
            said["responses"].as_array().context("responses")?.iter().filter_map(Value::as_str).collect();
        ensure!(!answers.is_empty() && answers.is_subset(&names), "{name} on {node} heard {said}");
        kubectl.until("its log", &["-n", "default", "logs", name])?;
        let said = kubectl.run(&["-n", "default", "exec", name, "--", "/agnhost", "--help"])?;
        ensure!(said.contains("netexec"), "{said}");
        forwarded(kubectl, name)?;
    }
    let said = kubectl.run(&["get", "--raw", &format!("/api/v1/namespaces/default/services/hello/{DIAL}")])?;
    ensure!(names.iter().any(|name| said.contains(name)), "by the Service's proxy: {said}");
    Ok(())
}

fn forwarded(kubectl: &Kubectl, pod: &str) -> Result<()> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let mut forward = kubectl.command()?;
    forward.args(["-n", "default", "port-forward", pod, &format!("{port}:8080")]);
    let _forward = Ended(forward.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    until(&format!("{pod} to answer through port-forward"), || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        std::io::Write::write_all(&mut stream, b"GET /hostname HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        ensure!(said.ends_with(pod), "{said}");
        Ok(())
    })
}

/// A node is drained, its pods come up on the other one, and it is taken away.
fn drained(kubectl: &Kubectl, worker: &Worker) -> Result<()> {
    let node = worker.name();
    kubectl.run(&["drain", &node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"])?;
    kubectl.until("the pods elsewhere", &["-n", "default", "rollout", "status", "deployment/hello", "--timeout=2s"])?;
    let left = kubectl.run(&[
        "-n",
        "default",
        "get",
        "pods",
        "--field-selector",
        &format!("spec.nodeName={node}"),
        "-o",
        "name",
    ])?;
    ensure!(left.trim().is_empty(), "left on {node}: {left}");
    worker.kill()?;
    kubectl.run(&["delete", "node", &node])?;
    let said = kubectl.until(
        "the Service to answer",
        &["get", "--raw", &format!("/api/v1/namespaces/default/services/hello/{DIAL}")],
    )?;
    ensure!(said.contains("hello-"), "{said}");
    Ok(())
}

/// A process that ends with this value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
