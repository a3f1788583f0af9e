//! What a tenant's admin can make its API server dial: none of it leads to the meta cluster.

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{Kubectl, Tenant, World, core, until};
use serde_json::{Value, json};

use super::asked_about_config_maps;

/// By a Service, a pod, a node, a webhook and an aggregated API that claim to be where the meta cluster is.
pub(crate) fn the_meta_cluster_is_not_reached(world: &World, tenant: &Tenant<'_>, kubectl: &Kubectl) -> Result<()> {
    let service = |namespace: &str, name: &str| -> Result<String> {
        let service = world.kube.get(&format!("{}/{name}", core(namespace, "services")))?;
        Ok(service["spec"]["clusterIP"].as_str().context("an address")?.to_owned())
    };
    let (api, node) = (service("default", "kubernetes")?, world.cluster.node_address(1).to_string());
    let scheduler = tenant.pods(Some("kube-scheduler"))?;
    let pod = scheduler.first().and_then(|pod| pod["status"]["podIP"].as_str()).context("a scheduler's address")?;
    for (address, port, what) in
        [(&*api, 443, "the meta API"), (&*node, 10250, "a node's kubelet"), (pod, 10259, "a pod of its own namespace")]
    {
        by_proxies(kubectl, address, port).with_context(|| what.to_owned())?;
        by_a_webhook(kubectl, &format!("https://{address}:{port}/")).with_context(|| what.to_owned())?;
        by_an_aggregated_api(kubectl, address, port).with_context(|| what.to_owned())?;
    }
    by_a_webhook(kubectl, "https://169.254.169.254/").context("metadata")
}

/// The kernel refuses it at once: it is not that nobody answers.
fn refused(said: &str) -> Result<()> {
    ensure!(said.contains("permission denied") || said.contains("no route to host"), "{said}");
    Ok(())
}

fn by_proxies(kubectl: &Kubectl, address: &str, port: u16) -> Result<()> {
    let meta = json!({"name": "meta", "namespace": "default"});
    kubectl.apply(&[
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "meta"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 443, "targetPort": port}]}}),
        // The proxy of Services looks for these, and not for slices, and wants a pod with the address.
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": meta,
            "subsets": [{"addresses": [{"ip": address, "targetRef": {"kind": "Pod", "name": "meta", "namespace": "default"}}], "ports": [{"port": port}]}],
        }),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {
            "nodeName": "meta", "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1"}],
        }}),
    ])?;
    let status = |kind: &str, name: &str, status: &Value| {
        let patch = json!({"status": status}).to_string();
        kubectl.run(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch])
    };
    status("pod", "meta", &json!({"podIP": address, "podIPs": [{"ip": address}]}))?;
    let endpoint = json!({"kubeletEndpoint": {"Port": port}});
    status(
        "node",
        "meta",
        &json!({"addresses": [{"type": "InternalIP", "address": address}], "daemonEndpoints": endpoint}),
    )?;
    for way in [
        "/api/v1/namespaces/default/services/https:meta:443/proxy/".to_owned(),
        format!("/api/v1/namespaces/default/pods/https:meta:{port}/proxy/"),
        format!("/api/v1/nodes/https:meta:{port}/proxy/"),
    ] {
        until("it to be refused by a proxy", || {
            let said = kubectl.run(&["get", "--raw", &way]).err().with_context(|| format!("{way} answers"))?;
            refused(&said.to_string())
        })?;
    }
    kubectl.run(&["delete", "node/meta", "service/meta"])?;
    kubectl.run(&["delete", "pod", "meta", "--force", "--grace-period=0"]).map(drop)
}

fn by_a_webhook(kubectl: &Kubectl, url: &str) -> Result<()> {
    kubectl.apply(&[asked_about_config_maps("meta", &json!({"url": url}))])?;
    until("it to be refused by a webhook", || {
        let said = kubectl.run(&["create", "configmap", "meta", "--dry-run=server"]).err().context("it was created")?;
        refused(&said.to_string())
    })?;
    kubectl.run(&["delete", "validatingwebhookconfiguration", "meta"]).map(drop)
}

fn by_an_aggregated_api(kubectl: &Kubectl, address: &str, port: u16) -> Result<()> {
    kubectl.apply(&[
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "meta-api", "namespace": "default"},
            "spec": {"ports": [{"port": 443, "targetPort": port}]},
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "meta-api", "namespace": "default", "labels": {"kubernetes.io/service-name": "meta-api"}},
            "endpoints": [{"addresses": [address]}], "ports": [{"name": "", "port": port}],
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.meta.example.com"},
            "spec": {
                "group": "meta.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
                "insecureSkipTLSVerify": true, "service": {"name": "meta-api", "namespace": "default", "port": 443},
            },
        }),
    ])?;
    until("it to be refused to the aggregator", || {
        let condition = "{.status.conditions[?(@.type==\"Available\")].message}";
        let said =
            kubectl.run(&["get", "apiservice", "v1.meta.example.com", "-o", &format!("jsonpath={condition}")])?;
        refused(&said)
    })?;
    kubectl.run(&["delete", "apiservice/v1.meta.example.com", "service/meta-api"]).map(drop)
}
