//! CoreDNS and kube-proxy that Berth keeps in a tenant, on a machine that joined: names and Services work in its pods.

use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use berth_devcluster::{Worker, images};
use berth_e2e::{Kube, Kubectl, Tenant, World, apps, core, machines, run::run, until};
use serde_json::{Value, json};

const SYSTEM: &str = "kube-system";

#[test]
#[ignore = "make test-all: a machine beside the cluster, and a CoreDNS of its own version"]
fn names_and_services_work_on_a_node_and_add_ons_go_again() {
    run("addons", |world| {
        let mut archives = images::addons()?;
        archives.push(images::shell()?);
        machines::with(world, &["addons"], None, &archives, |workers| work(world, &workers[0]))
    });
}

fn work(world: &World, worker: &Worker) -> Result<()> {
    // Nothing leads answers back to pods, so each connection to a Service has the machine's address. Its kernel's table of connections
    // is not its own to size.
    let config = json!({"conntrack": {"maxPerCore": 0, "min": 0}, "nftables": {"masqueradeAll": true}});
    let addons = json!({"coreDNS": {"replicas": 1}, "kubeProxy": {"mode": "nftables", "config": config}});
    let spec = json!({"addons": addons, "kubelet": {"config": {"maxPods": 42}}});
    // Without a node nothing of it runs, and that is no failure.
    let tenant = Tenant::ready(world, "addons", &spec)?;
    let api = tenant.api()?;
    worker.join(&tenant.join_arguments()?)?;
    worker.configure_pods()?;

    let (dns, proxy) = (apps(SYSTEM, "deployments") + "/coredns", apps(SYSTEM, "daemonsets") + "/kube-proxy");
    until("kube-proxy to run", || {
        let set = api.get(&proxy)?;
        ensure!(set["status"]["numberReady"] == 1, "{}", set["status"]);
        Ok(())
    })?;
    until("CoreDNS to be ready", || {
        let deployment = api.get(&dns)?;
        ensure!(deployment["status"]["readyReplicas"] == 1, "{}", deployment["status"]);
        Ok(())
    })?;
    let node = api.get(&format!("{}/{}", core("", "nodes"), worker.name()))?;
    ensure!(
        node["status"]["capacity"]["pods"] == "42",
        "what the spec says of kubelets: {}",
        node["status"]["capacity"]
    );
    names_and_services_work(&tenant, &api)?;
    an_edit_is_undone(world, &tenant, &api)?;
    a_change_that_does_not_come_up_stops(&tenant, &api, &dns)?;

    let off = json!({"enabled": false});
    tenant.change(&json!({"addons": {"coreDNS": off, "kubeProxy": off}}))?;
    for gone in [dns, proxy, core(SYSTEM, "services") + "/kube-dns", core(SYSTEM, "configmaps") + "/coredns"] {
        until(&format!("{gone} to be gone"), || {
            ensure!(api.find(&gone)?.is_none(), "it is there");
            Ok(())
        })?;
    }
    tenant.wait_ready()?;
    // What a node needs in order to be one stays.
    api.get(&(core(SYSTEM, "configmaps") + "/kubelet-config"))?;
    api.get(&format!("{}/{}", core("", "nodes"), worker.name())).map(drop)
}

/// A pod looks up a name, and talks to a Service by that name: the address is a ClusterIP, so kube-proxy leads both there.
fn names_and_services_work(tenant: &Tenant<'_>, api: &Kube) -> Result<()> {
    let script = "set -e
        getent hosts kubernetes.default.svc
        exec 3<>/dev/tcp/kube-dns.kube-system.svc.cluster.local/9153
        printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3
        read -r status <&3
        echo \"$status\"";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"},
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [{
                "name": "asks", "image": images::SHELL, "imagePullPolicy": "Never", "command": ["bash", "-c", script],
            }],
        },
    });
    let pods = core("default", "pods");
    // The default ServiceAccount may not be there yet.
    until("a pod to be created", || api.create(&pods, &pod))?;
    until("a pod to look up a name and to reach a Service", || {
        let pod = api.get(&format!("{pods}/asks"))?;
        ensure!(pod["status"]["phase"] == "Succeeded", "{}", pod["status"]);
        Ok(())
    })?;
    let service = api.get(&(core("default", "services") + "/kubernetes"))?;
    let address = service["spec"]["clusterIP"].as_str().context("a ClusterIP")?;
    // Nobody but berth-approve approves serving certificates.
    let said = Kubectl::of(tenant)?.until("its log", &["logs", "asks"])?;
    let lines: Vec<_> = said.lines().rev().take(2).collect();
    let found = lines.get(1).and_then(|line| line.split_whitespace().next());
    ensure!(found == Some(address), "{address} is not what it found: {said}");
    ensure!(lines[0].contains(" 200 "), "the Service answered: {said}");
    Ok(())
}

/// No node has so much CPU. The pod that serves goes on, and the condition says why the next one does not.
fn a_change_that_does_not_come_up_stops(tenant: &Tenant<'_>, api: &Kube, dns: &str) -> Result<()> {
    tenant.wait_condition("AddonsReady", "True", "AsExpected")?;
    let asked = |cpu: Value| json!({"addons": {"coreDNS": {"resources": {"requests": {"cpu": cpu}}}}});
    tenant.change(&asked(json!("500")))?;
    until("AddonsReady to say why", || {
        let said = tenant.wait_condition("AddonsReady", "False", "AddonsNotReady")?;
        ensure!(
            said.contains("0 of 1 pods have the last change: pod coredns-") && said.contains("Insufficient cpu"),
            "{said}"
        );
        Ok(())
    })?;
    ensure!(api.get(dns)?["status"]["availableReplicas"] == 1, "the pod that served still does");
    tenant.wait_ready()?;
    tenant.change(&asked(Value::Null))?;
    tenant.wait_condition("AddonsReady", "True", "AsExpected")?;
    tenant.wait_ready().map(drop)
}

/// ConfigMaps of the namespace are read in each reconcile, so an event of the Cluster has it found at once.
fn an_edit_is_undone(world: &World, tenant: &Tenant<'_>, api: &Kube) -> Result<()> {
    let path = core(SYSTEM, "configmaps") + "/coredns";
    let corefile = |map: &Value| map["data"]["Corefile"].clone();
    let wanted = corefile(&api.get(&path)?);
    ensure!(wanted.as_str().is_some_and(|text| text.contains("forward . /etc/resolv.conf")), "{wanted}");
    api.merge(&path, &json!({"data": {"Corefile": ".:53 {\n}\n"}}))?;
    until("the edit to be undone", || {
        let look = json!({"metadata": {"annotations": {"looked-at": format!("{:?}", SystemTime::now())}}});
        world.kube.merge(&tenant.path(), &look)?;
        let found = corefile(&api.get(&path)?);
        ensure!(found == wanted, "it is {found}");
        Ok(())
    })?;
    until("an Event that says so", || {
        let events = api.get(&format!("/apis/events.k8s.io/v1/namespaces/{SYSTEM}/events"))?;
        let mut all = events["items"].as_array().into_iter().flatten();
        let is_it = |event: &&Value| event["reason"] == "SetBack" && event["regarding"]["name"] == "coredns";
        let note = all.find(is_it).map(|event| event["note"].clone()).unwrap_or_default();
        ensure!(note.as_str().is_some_and(|note| note.contains("/data/Corefile")), "{note}");
        Ok(())
    })
}
