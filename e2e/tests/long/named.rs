//! A tenant whose API has a name in front, as README's example has: machines join by the name, and pods reach the API by the address that
//! Berth found for them.

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Worker, binaries, images};
use berth_e2e::{Kubectl, Tenant, World, machines, run::run, tenant::condition, until};
use serde_json::{Value, json};

/// Of the machines of a tenant without `network.podCIDRs`.
const PODS: &str = "10.160.0.0/16";
/// One that starts a program of the machine's.
const LISTS: &str = "lists";

#[test]
#[ignore = "make test-all: two machines with kubelets of their own"]
fn pods_reach_an_api_that_has_a_name() {
    run("named", |world| {
        let images = images::of_nodes()?;
        machines::with(world, &["named-a", "named-b"], None, &images, |workers| work(world, workers))
    });
}

fn work(world: &World, workers: &[Worker]) -> Result<()> {
    let spec = json!({
        "endpoint": {"type": "LoadBalancer"},
        // A machine of devcluster's does not size its kernel's table of connections.
        "addons": {"coreDNS": {"replicas": 2}, "kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    });
    let tenant = Tenant::ready(world, "named", &spec)?;
    // This machine does not know the name.
    let kubectl = Kubectl::of(&tenant)?;
    let address = tenant.cluster()?["status"]["endpoints"][0]["host"].as_str().context("an address")?.to_owned();
    // The operator resolves it, too: in the cluster it is the Service, and machines are told the load balancer.
    let host = format!("kube-apiserver.{}.svc.cluster.local", tenant.cp_namespace);
    tenant.change(&json!({"endpoint": {"host": host}}))?;
    tenant.wait_ready()?;

    let arguments = tenant.join_arguments()?;
    ensure!(arguments.first().is_some_and(|to| to == &format!("{host}:6443")), "{arguments:?}");
    let hosts = format!("{address} {host}");
    let ranges = workers.iter().map(|worker| join(&kubectl, worker, &hosts, &arguments)).collect::<Result<Vec<_>>>()?;
    workers[0].route(&ranges[1], workers[1].address())?;
    workers[1].route(&ranges[0], workers[0].address())?;

    let dns = ["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=2s"];
    kubectl.until("CoreDNS to be ready", &dns)?;
    for worker in workers {
        lists(&kubectl, worker)?;
    }
    let reach = condition(&tenant.wait_ready()?, "PodsReachAPI")?.clone();
    ensure!(reach["status"] == "True" && reach["message"].as_str().is_some_and(|m| m.contains(&address)), "{reach}");
    tenant.nothing_restarted()?;
    tenant.delete()
}

/// Joins by the name, and gives pods addresses that are the machine's outside of their own network, as network plugins do. The range.
fn join(kubectl: &Kubectl, worker: &Worker, hosts: &str, arguments: &[String]) -> Result<String> {
    shell(worker, &format!("echo {hosts} >> /etc/hosts"))?;
    worker.join(arguments)?;
    let range = worker.configure_pods()?;
    shell(
        worker,
        &format!(
            "nft add table ip e2e && nft add chain ip e2e out '{{ type nat hook postrouting priority 100; }}' && \
             nft add rule ip e2e out ip saddr {range} ip daddr != {PODS} masquerade"
        ),
    )?;
    kubectl
        .until("the node to be ready", &["wait", "--for=condition=Ready", "--timeout=2s", "node", &worker.name()])?;
    Ok(range)
}

fn shell(worker: &Worker, script: &str) -> Result<()> {
    let output = worker.command("/bin/sh".as_ref())?.args(["-c", script]).output()?;
    ensure!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A pod of the node lists pods by the API's name in the cluster, with its own token.
fn lists(kubectl: &Kubectl, worker: &Worker) -> Result<()> {
    let program = binaries::kubectl()?;
    let dir = program.parent().context("a directory")?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "view", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    let name = format!("{LISTS}-{}", worker.name());
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": worker.name(), "restartPolicy": "OnFailure",
            "containers": [{
                "name": "lists", "image": format!("registry.k8s.io/pause:{}", berth_devcluster::versions::PAUSE),
                "imagePullPolicy": "Never",
                "command": ["/machine/kubectl", "get", "pods", "-o", "name"],
                // In place of the address: what is asked for is the name.
                "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default"}],
                "volumeMounts": [{"name": "machine", "mountPath": "/machine", "readOnly": true}],
            }],
            "volumes": [{"name": "machine", "hostPath": {"path": dir}}],
        },
    });
    kubectl.apply(&[binding, pod])?;
    let said = until("the pod to list pods", || {
        let live: Value = serde_json::from_str(&kubectl.run(&["get", "pod", &name, "-o", "json"])?)?;
        ensure!(live["status"]["phase"] == "Succeeded", "{}", live["status"]);
        kubectl.run(&["logs", &name])
    })?;
    ensure!(said.contains(&format!("pod/{name}")), "{said}");
    Ok(())
}
