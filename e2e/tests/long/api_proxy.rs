//! A node behind the gateway: its pods reach the API by Service `kubernetes`, which leads to an address of the node itself.

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Worker, images};
use berth_e2e::images::{built, pack_own};
use berth_e2e::{Kube, Tenant, World, apps, core, machines, until};
use serde_json::{Value, json};

use crate::gateway;

const SYSTEM: &str = "kube-system";

#[test]
#[ignore = "make test-all: a machine with a kubelet of its own; what the program does is tested in its crate with connections"]
fn pods_behind_the_gateway_reach_their_api() {
    berth_e2e::run("api-proxy", |world| {
        // The machine pulls from nowhere.
        let (tag, archive) = pack_own(&world.cluster, "api-proxy", &built("api-proxy")?, &[])?;
        let address = gateway::install(world, &[format!("apiProxy.image.tag={tag}")])?;
        let mut all = images::addons()?;
        all.extend([images::shell()?, archive]);
        machines::with(world, &["proxied"], None, &all, |workers| work(world, &address, &workers[0]))
    });
}

fn work(world: &World, address: &str, machine: &Worker) -> Result<()> {
    // As on every machine of these tests, see addons.rs.
    let config = json!({"conntrack": {"maxPerCore": 0, "min": 0}, "nftables": {"masqueradeAll": true}});
    let proxy = json!({"mode": "nftables", "config": config});
    let addons = json!({"apiProxy": {"enabled": true}, "coreDNS": {"replicas": 1}, "kubeProxy": proxy});
    let tenant = Tenant::ready(world, "proxied", &json!({"endpoint": {"type": "Gateway"}, "addons": addons}))?;
    gateway::knows_the_name(machine, &tenant, address)?;
    machine.join(&tenant.join_arguments()?)?;
    machine.configure_pods()?;
    let api = Kube::new(&gateway::through(&tenant, address)?)?;

    println!("    the program runs, and dials the gateway");
    until("api-proxy to be ready", || daemon_is_ready(&api))?;
    let says = tenant.wait_condition("PodsReachAPI", "True", "AsExpected")?;
    let leads = format!(
        "240.0.0.1:6443, from where the add-on api-proxy on each node leads to {}:6444",
        gateway::name(&tenant)
    );
    ensure!(says.contains(&leads), "{says}");
    let slice = api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")?;
    ensure!(slice["endpoints"][0]["addresses"] == json!(["240.0.0.1"]), "{slice}");

    println!("    pods reach the API");
    // CoreDNS has the configuration of any client in a pod, and is ready once it has listed what it answers by.
    until("CoreDNS to be ready", || {
        let deployment = api.get(&(apps(SYSTEM, "deployments") + "/coredns"))?;
        ensure!(deployment["status"]["readyReplicas"] == 1, "{}", deployment["status"]);
        Ok(())
    })?;
    a_pod_reaches_it(&api, "first")?;

    println!("    a pod of it is replaced");
    let before = api.get(&format!("{}?labelSelector=k8s-app=api-proxy", core(SYSTEM, "pods")))?;
    let name = before["items"][0]["metadata"]["name"].as_str().context("a pod")?.to_owned();
    api.delete(&format!("{}/{name}", core(SYSTEM, "pods")))?;
    until("another one to be ready", || {
        ensure!(api.find(&format!("{}/{name}", core(SYSTEM, "pods")))?.is_none(), "{name} is there");
        daemon_is_ready(&api)
    })?;
    a_pod_reaches_it(&api, "second")?;
    tenant.wait_condition("AddonsReady", "True", "AsExpected")?;
    tenant.wait_ready()?;
    tenant.nothing_restarted()?;

    println!("    off again");
    tenant.change(&json!({"addons": {"apiProxy": {"enabled": false}}}))?;
    until("its DaemonSet to be gone", || {
        ensure!(api.find(&(apps(SYSTEM, "daemonsets") + "/api-proxy"))?.is_none(), "it is there");
        Ok(())
    })?;
    tenant.wait_condition("PodsReachAPI", "False", "NoIPAddress")?;
    tenant.delete()
}

fn daemon_is_ready(api: &Kube) -> Result<()> {
    let status = api.get(&(apps(SYSTEM, "daemonsets") + "/api-proxy"))?["status"].clone();
    ensure!(status["desiredNumberScheduled"] == 1 && status["numberReady"] == 1, "{status}");
    Ok(())
}

/// A shell has no TLS: who answers what is none with a 400 is an API server, and the gateway has passed on what it has not read.
fn a_pod_reaches_it(api: &Kube, name: &str) -> Result<()> {
    let script = "set -e
        getent hosts kubernetes.default.svc
        exec 3<>/dev/tcp/$KUBERNETES_SERVICE_HOST/$KUBERNETES_SERVICE_PORT
        printf 'GET /version HTTP/1.0\\r\\n\\r\\n' >&3
        read -r status <&3
        echo \"$status\" >/dev/termination-log";
    let container: Value = json!({
        "name": "asks", "image": images::SHELL, "imagePullPolicy": "Never", "command": ["bash", "-c", script],
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "OnFailure", "containers": [container]},
    });
    let pods = core("default", "pods");
    // The default ServiceAccount may not be there yet.
    until("a pod to be created", || api.create(&pods, &pod))?;
    until("a pod to reach the API", || {
        let status = api.get(&format!("{pods}/{name}"))?["status"].clone();
        ensure!(status["phase"] == "Succeeded", "{status}");
        let said = status["containerStatuses"][0]["state"]["terminated"]["message"].as_str().unwrap_or_default();
        ensure!(said.contains(" 400 "), "an API server answers otherwise: {said}");
        Ok(())
    })
}
