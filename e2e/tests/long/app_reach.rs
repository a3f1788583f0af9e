//! What the pod of a Job reaches that installs an app, dialled in its own network, in a cluster that enforces NetworkPolicies: its tenant's API,
//! the meta cluster's DNS and the registry. Each address that it does not reach answers somebody else at the same time.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use berth_api::{labels, names};
use berth_devcluster::{binaries, binaries::Selection};
use berth_e2e::network::processes_of;
use berth_e2e::s3::Process;
use berth_e2e::tenant::name_of;
use berth_e2e::{Options, Registry, Tenant, World, berth, core, dial::reaches, images, until};
use serde_json::{Value, json};

const PORT: u16 = 5079;

/// Where clouds serve credentials. Here something else answers there, in the cluster's own network.
const METADATA: &str = "169.254.169.254";

/// Another private address that answers, beside those that the chart's values name.
const ELSEWHERE: &str = "10.254.254.254";

#[test]
#[ignore = "make test-all: a cluster of its own, whose NetworkPolicies are enforced, and a Job that waits"]
fn the_pod_of_a_job_reaches_its_tenant_and_the_registry_alone() {
    binaries::build(&Selection::Named(vec!["crane".to_owned(), "helm4".to_owned()])).expect("crane and Helm 4");
    berth_e2e::run::run_with_network_policies("app_reach", |world| {
        let place = tempfile::tempdir()?;
        let registry = Registry::serve(&format!("{}:{PORT}", world.cluster.host_address()), place.path())?;
        let tag = images::load_apps(&world.cluster)?;
        let values = [
            "apps.enabled=true".to_owned(),
            format!("apps.image.tag={tag}"),
            format!("writers.apps.sources={{oci://{}/charts/*}}", registry.host),
        ];
        let named = format!("apps.peers[0].ipBlock.cidr={}/32", world.cluster.host_address());
        let install =
            |more: &[String]| world.install(&Options { values: [&values[..], more].concat(), ..Options::default() });
        install(&[named])?;
        registry.push_chart("waits", "1.0.0", WAITS)?;
        work(world, &registry, &|| install(&[]))
    });
}

/// No node of the tenant's runs its pod, so whoever waits for it waits.
const WAITS: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: waits}
spec:
  selector: {matchLabels: {app: waits}}
  template:
    metadata: {labels: {app: waits}}
    spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10.1}]}
";

/// Whoever dials: a process in a pod, and what the pod is.
struct Pod {
    process: i32,
    name: String,
}

impl Pod {
    fn of(pod: &Value, container: &str, whose: &str) -> Result<Self> {
        let all = processes_of(pod, container)?;
        let process = *all.first().with_context(|| format!("{} runs nothing", name_of(pod)))?;
        Ok(Self { process, name: format!("{} of {whose}", name_of(pod)) })
    }

    fn reaches(&self, to: &str, open: bool, what: &str) -> Result<()> {
        reaches((self.process, &self.name), to, open, what)
    }
}

fn work(world: &World, registry: &Registry, without_peers: &dyn Fn() -> Result<()>) -> Result<()> {
    let (own, other) =
        (Tenant::create(world, "reach-own", &json!({}))?, Tenant::create(world, "reach-other", &json!({}))?);
    own.wait_ready()?;
    other.wait_ready()?;
    let job = job(world, registry, &own)?;
    let free = free(world)?;
    let of = |tenant: &Tenant<'_>, component: &str| -> Result<(String, Pod)> {
        let pod = tenant.pods(Some(component))?.pop().with_context(|| format!("no {component}"))?;
        let address = pod["status"]["podIP"].as_str().context("an address")?.to_owned();
        Ok((address, Pod::of(&pod, component, &tenant.name)?))
    };
    let ((own_api, own_server), (other_api, other_server)) =
        (of(&own, "kube-apiserver")?, of(&other, "kube-apiserver")?);
    let ((own_etcd, _), (other_etcd, _)) = (of(&own, "etcd")?, of(&other, "etcd")?);
    let (own_service, other_service) = (
        world.service_address(&own.cp_namespace, "kube-apiserver")?,
        world.service_address(&other.cp_namespace, "kube-apiserver")?,
    );
    let (meta_api, dns) =
        (world.service_address("default", "kubernetes")?, world.service_address("kube-system", "kube-dns")?);
    let node = world.cluster.node_address(1);
    let _metadata = [answers(world, METADATA, PORT)?, answers(world, METADATA, 80)?];
    let _elsewhere = answers(world, ELSEWHERE, PORT)?;
    // The host, at a port where no registry is.
    let listener = TcpListener::bind((world.cluster.host_address(), 0))?;
    let beside = listener.local_addr()?.to_string();

    let open = [
        (format!("{own_api}:6443"), "its tenant's API"),
        (format!("{own_service}:6443"), "its tenant's API by the Service"),
        (registry.host.clone(), "the registry"),
        (format!("{dns}:53"), "the meta cluster's DNS"),
    ];
    // Whom it answers meanwhile, so that a refusal says something.
    let closed = [
        (format!("{other_api}:6443"), "another tenant's API", &free),
        (format!("{other_service}:6443"), "another tenant's API by the Service", &free),
        (format!("{own_etcd}:2379"), "its own tenant's etcd", &own_server),
        (format!("{other_etcd}:2379"), "another tenant's etcd", &other_server),
        (format!("{meta_api}:443"), "the meta cluster's API", &free),
        (format!("{node}:6443"), "the meta cluster's API by its node", &free),
        (format!("{node}:10250"), "a kubelet", &free),
        (format!("{METADATA}:{PORT}"), "cloud metadata at the registry's port", &free),
        (format!("{METADATA}:80"), "cloud metadata", &free),
        (beside, "another port of the registry's address", &free),
    ];
    let elsewhere = format!("{ELSEWHERE}:{PORT}");
    let look = |peers: bool| -> Result<()> {
        // Where no peers are named, a registry may be anywhere but in the meta cluster. By this one knows which policy it is.
        free.reaches(&elsewhere, true, "another address at the registry's port")?;
        job.reaches(&elsewhere, !peers, "another address at the registry's port")?;
        for (to, what) in &open {
            job.reaches(to, true, what)?;
        }
        for (to, what, who) in &closed {
            who.reaches(to, true, what)?;
            job.reaches(to, false, what)?;
        }
        // Whoever refuses by having ended shows nothing.
        job.reaches(&registry.host, true, "the registry, at the end")
    };
    println!("    with apps.peers");
    look(true)?;
    println!("    without");
    without_peers()?;
    look(false)?;
    own.delete()?;
    other.delete()
}

/// The pod of a Job that installs a chart, and waits for what never comes.
fn job(world: &World, registry: &Registry, tenant: &Tenant<'_>) -> Result<Pod> {
    let chart = json!({"oci": format!("oci://{}/charts/waits", registry.host), "version": "1.0.0", "plainHTTP": true});
    let app = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "waits"},
        "spec": {"clusterRefs": [{"name": tenant.name}], "chart": chart, "wait": true, "timeoutSeconds": 1200},
    });
    world.kube.create(&berth(&tenant.namespace, "apps"), &app)?;
    let api = tenant.api()?;
    until("the Job to have asked the tenant for what it waits for", || {
        api.get(&format!("{}/waits", berth_e2e::apps("default", "deployments")))
    })?;
    let pods = tenant.pods(Some(names::APPS))?;
    let pod = pods.iter().find(|pod| pod["status"]["phase"] == "Running").context("the Job's pod")?;
    Pod::of(pod, names::APPS, &tenant.name)
}

/// A pod without any policy, with the labels of a Job's.
fn free(world: &World) -> Result<Pod> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-reach"}});
    world.kube.ensure(&core("", "namespaces"), &namespace)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "team-reach", "labels": {labels::COMPONENT: names::APPS}},
        "spec": {"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}]},
    });
    world.kube.ensure(&core("team-reach", "pods"), &pod)?;
    until("a pod of a team to run", || {
        Pod::of(&world.kube.get(&format!("{}/probe", core("team-reach", "pods")))?, "pause", "a team")
    })
}

/// Takes connections there, in the cluster's network, as long as this value lives. Nothing of it is on the machine's own.
fn answers(world: &World, address: &str, port: u16) -> Result<Process> {
    let netns = world.cluster.netns();
    let output =
        Command::new("ip").args(["-n", &netns, "addr", "replace", &format!("{address}/32"), "dev", "lo"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut server = Command::new("ip");
    // Ends with this test, however that ends.
    server.args(["netns", "exec", &netns, "setpriv", "--pdeathsig", "KILL", "socat", "-U"]);
    server.args([&*format!("TCP-LISTEN:{port},bind={address},fork,reuseaddr"), "OPEN:/dev/null"]);
    Ok(Process(server.spawn()?))
}
