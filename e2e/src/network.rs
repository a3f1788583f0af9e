//! Pods with a second interface: their addresses, and who has one on the wire.

use std::fs;

use anyhow::{Context as _, Result};
use berth_devcluster::Vpc;
use serde_json::{Value, json};

use crate::{Tenant, World, core, kube_client::path, tenant::name_of};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Creates a NetworkAttachmentDefinition where the tenants of tests are, unless it is there.
pub fn define(world: &World, definition: &Value) -> Result<()> {
    let namespace = definition["metadata"]["namespace"].as_str().context("a namespace")?;
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    world.kube.ensure(&core("", "namespaces"), &team)?;
    world.kube.ensure(&path("/apis/k8s.cni.cncf.io/v1", namespace, "network-attachment-definitions"), definition)
}

/// The address that a pod asks for.
pub fn asked_address(pod: &Value) -> Option<String> {
    let asked: Value = serde_json::from_str(pod["metadata"]["annotations"][NETWORKS].as_str()?).ok()?;
    asked.pointer("/0/ips/0")?.as_str()?.split('/').next().map(str::to_owned)
}

/// What the network plugin says it gave a pod at `net1`.
pub fn interface(pod: &Value) -> Option<Value> {
    let all: Vec<Value> = serde_json::from_str(pod["metadata"]["annotations"][STATUS].as_str()?).ok()?;
    all.into_iter().find(|one| one["interface"] == "net1")
}

/// The hardware address at which the VPC's router last heard from an address, as `ip neigh` prints it.
pub fn neighbour(vpc: &Vpc, address: &str) -> Result<String> {
    let output = vpc.command("ip").args(["neigh", "show", address]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The API server that has an address on the wire. The router must have asked for it before.
pub fn holder(tenant: &Tenant<'_>, vpc: &Vpc, address: &str) -> Result<Value> {
    let said = neighbour(vpc, address)?;
    let has =
        |pod: &Value| interface(pod).is_some_and(|net1| net1["mac"].as_str().is_some_and(|mac| said.contains(mac)));
    let pods = tenant.pods(Some("kube-apiserver"))?;
    pods.into_iter().find(has).with_context(|| format!("no API server has {address}, which is at {said}"))
}

/// Processes of a container, by its cgroup.
pub fn processes(status: &Value) -> Result<Vec<i32>> {
    let id = status["containerID"].as_str().and_then(|id| id.split_once("://")).context("a container's ID")?.1;
    let mut all = vec![];
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may end meanwhile.
        if fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|cgroup| cgroup.contains(id)) {
            all.push(process);
        }
    }
    Ok(all)
}

/// Processes of a pod's container.
pub fn processes_of(pod: &Value, container: &str) -> Result<Vec<i32>> {
    let all = ["initContainerStatuses", "containerStatuses"].map(|list| pod["status"][list].as_array().cloned());
    let status = all.into_iter().flatten().flatten().find(|status| status["name"] == container);
    processes(&status.with_context(|| format!("{} has no container {container}", name_of(pod)))?)
}
