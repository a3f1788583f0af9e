//! The catalog of examples/apps, as it stands there, in a tenant whose two nodes have no network plugin: nodes become ready by the first App
//! alone, `kubectl top` and a HorizontalPodAutoscaler work by the second one, and the third one moves pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use berth_api::names;
use berth_devcluster::versions::{DESCHEDULER, METRICS_SERVER};
use berth_devcluster::{Worker, binaries, binaries::Selection, images};
use berth_e2e::operator::{Options, SYSTEM};
use berth_e2e::{
    Kube, Kubectl, NEWEST, Registry, Tenant, World, berth, core, machines, network::define, paths, run, until,
};
use berth_testkit::fixtures::from_yaml;
use serde_json::{Value, json};

const TEAM: &str = "team-e2e";
const APPS: [&str; 3] = ["kube-router", "metrics-server", "descheduler"];

#[test]
#[ignore = "make test-all: two machines with kubelets of their own, and what only their Apps run"]
fn nodes_are_ready_by_an_app_and_pods_are_scaled_and_moved_by_others() {
    let needed = ["crane", "helm4", "kube-router", "metrics-server", "descheduler"];
    binaries::build(&Selection::Named(needed.map(str::to_owned).to_vec())).expect("what the Apps run");
    run("catalog", |world| {
        let address = world.cluster.host_address();
        let place = tempfile::tempdir()?;
        let registry = Registry::serve(&format!("{address}:5078"), place.path())?;
        registry.push(&paths::root().join("examples/apps/charts/kube-router"))?;
        registry.push(&binaries::path("metrics-server", METRICS_SERVER, "chart")?)?;
        registry.push(&binaries::path("descheduler", DESCHEDULER, "chart")?)?;
        let tag = berth_e2e::images::load_apps(&world.cluster)?;
        let values = [
            "apps.enabled=true".to_owned(),
            format!("apps.image.tag={tag}"),
            format!("apps.peers[0].ipBlock.cidr={address}/32"),
        ];
        world.install(&Options { values: values.into(), ..Options::default() })?;
        let mut archives = images::of_nodes()?;
        archives.push(images::shell()?);
        archives.extend(images::of_catalog()?);
        machines::with(world, &["catalog-a", "catalog-b"], Some("a"), &archives, |workers| {
            work(world, &registry, workers)
        })
    });
}

fn work(world: &World, registry: &Registry, workers: &[Worker]) -> Result<()> {
    let vpc = world.cluster.vpc("a")?;
    define(world, &vpc.definition(TEAM))?;
    let spec = json!({
        "version": NEWEST,
        "vpc": {
            "attachment": {"name": vpc.master()},
            "addresses": ["172.20.0.2/24"],
            // With a route API servers dial aggregated APIs. Nothing of them is in this network.
            "routes": [{"dst": "10.160.0.0/16", "via": vpc.router()}],
        },
        // A machine of devcluster's does not size its kernel's table of connections.
        "addons": {"coreDNS": {"replicas": 1}, "kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    });
    let tenant = Tenant::ready(world, "catalog", &spec)?;
    let (api, kubectl) = (tenant.api()?, Kubectl::of(&tenant)?);
    for worker in workers {
        worker.join(&tenant.join_arguments()?)?;
    }
    for worker in workers {
        until("a node without a network", || {
            let ready = ready(&api, worker)?;
            let why = ready["message"].as_str().unwrap_or_default();
            ensure!(ready["status"] == "False" && why.contains("NetworkPluginNotReady"), "{ready}");
            Ok(())
        })?;
    }

    println!("    a network plugin");
    let catalog = Catalog { world, registry, tenant: &tenant };
    world.kube.merge(&tenant.path(), &json!({"metadata": {"labels": {"apps": "standard"}}}))?;
    catalog.install("kube-router", &json!({}))?;
    for worker in workers {
        until("a node to be ready", || {
            let ready = ready(&api, worker)?;
            ensure!(ready["status"] == "True", "{}", ready["message"]);
            Ok(())
        })?;
    }
    pods_reach_each_other(&kubectl)?;

    println!("    metrics");
    catalog.install("metrics-server", &json!({}))?;
    until("kubectl top nodes", || {
        let said = kubectl.run(&["top", "nodes", "--no-headers"])?;
        let known =
            |worker: &Worker| said.lines().any(|line| line.starts_with(&worker.name()) && !line.contains("unknown"));
        ensure!(workers.iter().all(known), "{said}");
        Ok(())
    })?;
    a_deployment_is_scaled(&kubectl)?;

    println!("    pods are moved");
    pods_are_moved(&kubectl, &workers[1], || catalog.install("descheduler", &json!({"deschedulingInterval": "20s"})))?;

    tenant.nothing_restarted()?;
    tenant.delete()?;
    for app in APPS {
        world.kube.delete(&format!("{}/{app}", berth(SYSTEM, "apps")))?;
        until(&format!("App {app} to be gone"), || {
            ensure!(world.kube.find(&format!("{}/{app}", berth(SYSTEM, "apps")))?.is_none(), "it is there");
            Ok(())
        })?;
    }
    Ok(())
}

/// The condition `Ready` of a machine's node.
fn ready(api: &Kube, worker: &Worker) -> Result<Value> {
    let node = api.get(&format!("{}/{}", core("", "nodes"), worker.name()))?;
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == "Ready").context("it says nothing yet")
}

struct Catalog<'a> {
    world: &'a World,
    registry: &'a Registry,
    tenant: &'a Tenant<'a>,
}

impl Catalog<'_> {
    /// Applies a file of the catalog, with the registry of this test and these values more, and waits until it is deployed.
    fn install(&self, name: &str, values: &Value) -> Result<()> {
        let file = paths::root().join(format!("examples/apps/{name}.yaml"));
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut app: Value = from_yaml(&text.replace("registry.example.com", &self.registry.host));
        app["spec"]["chart"]["plainHTTP"] = json!(true);
        for (field, value) in values.as_object().into_iter().flatten() {
            app["spec"]["values"][field] = value.clone();
        }
        self.world.kube.ensure(&berth(SYSTEM, "apps"), &app)?;
        let installation = names::app_installation(SYSTEM, name, &self.tenant.name);
        let installation = format!("{}/{installation}", berth(&self.tenant.namespace, "appinstallations"));
        until(&format!("{name} to be deployed"), || {
            let live = self.world.kube.get(&installation)?;
            ensure!(live["status"]["phase"] == "Deployed", "{}", live["status"]);
            Ok(())
        })
    }
}

/// Address and node of each pod of `hello`, by its name.
fn hello(kubectl: &Kubectl) -> Result<BTreeMap<String, (String, String)>> {
    let all: Value =
        serde_json::from_str(&kubectl.run(&["-n", "default", "get", "pods", "-l", "app=hello", "-o", "json"])?)?;
    let text = |pod: &Value, at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let pods = all["items"].as_array().context("pods")?.iter();
    let pods = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(pods
        .map(|pod| (text(pod, "/metadata/name"), (text(pod, "/status/podIP"), text(pod, "/spec/nodeName"))))
        .collect())
}

fn nodes_of_hello(kubectl: &Kubectl) -> Result<BTreeSet<String>> {
    Ok(hello(kubectl)?.into_values().map(|(_, node)| node).collect())
}

/// Four, so that the scheduler spreads them.
fn four_are_ready(kubectl: &Kubectl) -> Result<()> {
    kubectl.run(&["-n", "default", "scale", "deployment/hello", "--replicas=4"])?;
    kubectl
        .until("pods to be ready", &["-n", "default", "rollout", "status", "deployment/hello", "--timeout=2s"])
        .map(drop)
}

/// By their addresses, on either node and across; and a Service by its name.
fn pods_reach_each_other(kubectl: &Kubectl) -> Result<()> {
    let example = paths::root().join("examples/hello.yaml");
    kubectl.until("pods to be created", &["apply", "-f", &example.to_string_lossy()])?;
    four_are_ready(kubectl)?;
    let pods = hello(kubectl)?;
    ensure!(nodes_of_hello(kubectl)?.len() == 2, "{pods:?}");
    let connect = |from: &str, to: &str| {
        let exec = ["-n", "default", "exec", from, "--", "/agnhost", "connect", "--timeout=3s", to];
        kubectl.until(&format!("{from} to reach {to}"), &exec)
    };
    for from in pods.keys() {
        for (address, _) in pods.values() {
            connect(from, &format!("{address}:8080"))?;
        }
    }
    kubectl.until("CoreDNS", &["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=2s"])?;
    for from in pods.keys() {
        connect(from, "hello.default.svc.cluster.local:80")?;
    }
    Ok(())
}

/// Up while a pod asks without end, and down again.
fn a_deployment_is_scaled(kubectl: &Kubectl) -> Result<()> {
    let example = paths::root().join("examples/hello-hpa.yaml");
    kubectl.run(&["apply", "-f", &example.to_string_lossy()])?;
    let replicas = |what: &str, fits: fn(u32) -> bool| {
        until(what, || {
            let said =
                kubectl.run(&["-n", "default", "get", "deployment", "hello", "-o", "jsonpath={.spec.replicas}"])?;
            let status = kubectl.run(&["-n", "default", "get", "hpa", "hello", "-o", "jsonpath={.status}"])?;
            ensure!(said.parse().is_ok_and(fits), "{said}: {status}");
            Ok(())
        })
    };
    replicas("one pod, since nobody asks", |count| count == 1)?;
    // A connection for each question, by the address that kubelet tells, of a Service that was there before.
    let script = "ask() {
          while :; do
            { printf 'GET /hostname HTTP/1.0\\r\\n\\r\\n' >&3; while read -r _ <&3; do :; done; } 3<>/dev/tcp/$HELLO_SERVICE_HOST/80
          done
        }
        ask & ask & wait";
    kubectl.apply(&[json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "asks", "image": images::SHELL, "imagePullPolicy": "Never", "command": ["bash", "-c", script],
            }],
        },
    })])?;
    replicas("more pods, since one asks without end", |count| count > 1)?;
    kubectl.run(&["-n", "default", "delete", "pod", "asks"])?;
    replicas("one pod again", |count| count == 1)?;
    kubectl.run(&["-n", "default", "delete", "hpa", "hello"]).map(drop)
}

/// All pods are on one node, since the other one took none; once it takes some, they are spread.
fn pods_are_moved(kubectl: &Kubectl, worker: &Worker, install: impl Fn() -> Result<()>) -> Result<()> {
    kubectl.run(&["cordon", &worker.name()])?;
    kubectl.run(&["-n", "default", "scale", "deployment/hello", "--replicas=0"])?;
    until("no pod", || {
        let left = hello(kubectl)?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })?;
    four_are_ready(kubectl)?;
    ensure!(!nodes_of_hello(kubectl)?.contains(&worker.name()), "{:?}", hello(kubectl)?);
    kubectl.run(&["uncordon", &worker.name()])?;
    install()?;
    until("pods on both nodes", || {
        let nodes = nodes_of_hello(kubectl)?;
        ensure!(nodes.len() == 2, "{nodes:?}");
        Ok(())
    })
}
