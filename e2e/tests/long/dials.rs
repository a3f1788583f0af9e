//! Who reaches whom, dialled: every component of a tenant, the operator and a pod of a team each try every port, in a cluster that enforces
//! NetworkPolicies. The table is that of docs/isolation.md.

use anyhow::{Context as _, Result, ensure};
use berth_api::labels;
use berth_e2e::{Tenant, World, core, dial::reaches, network::processes_of, tenant::name_of, until};
use serde_json::{Value, json};

/// A pod, as it takes part.
struct Party {
    /// `etcd-0 of one`, for people.
    name: String,
    component: String,
    tenant: &'static str,
    address: String,
    process: i32,
}

/// What a pod listens on: component, container, ports.
const LISTENS: [(&str, &str, &[u16]); 4] = [
    ("etcd", "etcd", &[2379, 2380, 2381]),
    ("kube-apiserver", "kube-apiserver", &[6443]),
    ("kube-controller-manager", "kube-controller-manager", &[10257]),
    ("kube-scheduler", "kube-scheduler", &[10259]),
];

const OPERATOR: &str = "operator";
const TEAMS: &str = "a team's pod";

#[test]
#[ignore = "make test-all: a cluster of its own, whose NetworkPolicies are enforced, and four minutes"]
fn who_reaches_whom_is_as_the_page_says() {
    berth_e2e::run::run_with_network_policies("dials", |world| {
        let one = Tenant::create(world, "one", &json!({"etcd": {"replicas": 3}}))?;
        let two = Tenant::create(world, "two", &json!({}))?;
        one.wait_ready()?;
        two.wait_ready()?;
        let mut parties = parties_of(&one, "one")?;
        parties.extend(parties_of(&two, "two")?);
        let listen = parties.len();
        parties.push(operator(world)?);
        parties.push(teams(world)?);
        let mut dialled = (0, 0);
        for from in &parties {
            for to in &parties[..listen] {
                for port in ports(&to.component) {
                    let open = is_open(from, to, *port);
                    reached(from, &format!("{}:{port}", to.address), open, &to.name)?;
                    if open { dialled.0 += 1 } else { dialled.1 += 1 }
                }
            }
        }
        println!("    {} pairs reach each other, and {} do not", dialled.0, dialled.1);
        ensure!(dialled.0 > 20 && dialled.1 > 60, "{dialled:?}");
        let (api, node) = (world.service_address("default", "kubernetes")?, world.cluster.node_address(1));
        let dns = world.service_address("kube-system", "kube-dns")?;
        for from in &parties[..listen] {
            reached(from, &format!("{api}:443"), false, "the meta cluster's API")?;
            reached(from, &format!("{node}:6443"), false, "the meta cluster's API by its node")?;
            reached(from, &format!("{node}:10250"), false, "a kubelet")?;
            reached(from, &format!("{dns}:53"), from.component == "kube-apiserver", "the meta cluster's DNS")?;
        }
        one.delete()?;
        two.delete()
    });
}

fn ports(component: &str) -> &'static [u16] {
    LISTENS.iter().find(|(name, ..)| *name == component).map_or(&[], |(.., ports)| ports)
}

/// The table of docs/isolation.md. A pod always reaches itself.
fn is_open(from: &Party, to: &Party, port: u16) -> bool {
    let (own, itself) = (from.tenant == to.tenant, from.address == to.address);
    itself
        || match port {
            2379 => from.component == OPERATOR || (own && from.component == "kube-apiserver"),
            2380 => own && from.component == "etcd",
            // Whoever may send anything at all; of the components these, and to their own.
            6443 if [OPERATOR, TEAMS].contains(&&*from.component) => true,
            6443 => own && ["kube-controller-manager", "kube-scheduler"].contains(&&*from.component),
            _ => false,
        }
}

fn parties_of(tenant: &Tenant<'_>, name: &'static str) -> Result<Vec<Party>> {
    let mut all = vec![];
    for (component, container, _) in LISTENS {
        let pods = tenant.pods(Some(component))?;
        ensure!(!pods.is_empty(), "{name} has no {component}");
        for pod in pods {
            all.push(party(&pod, container, component, name)?);
        }
    }
    Ok(all)
}

fn party(pod: &Value, container: &str, component: &str, tenant: &'static str) -> Result<Party> {
    let address = pod["status"]["podIP"].as_str().context("a pod's address")?.to_owned();
    let process = *processes_of(pod, container)?.first().with_context(|| format!("{} runs nothing", name_of(pod)))?;
    let name = if tenant.is_empty() { component.to_owned() } else { format!("{} of {tenant}", name_of(pod)) };
    Ok(Party { name, component: component.into(), tenant, address, process })
}

fn operator(world: &World) -> Result<Party> {
    let pods =
        world.kube.list(&format!("{}?labelSelector={}=operator", core("berth-system", "pods"), labels::COMPONENT))?;
    let pod = pods.iter().find(|pod| pod["status"]["phase"] == "Running").context("the operator's pod")?;
    let container = pod.pointer("/spec/containers/0/name").and_then(Value::as_str).context("a container")?;
    party(pod, container, OPERATOR, "")
}

/// A pod without any policy, with the labels of an API server.
fn teams(world: &World) -> Result<Party> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-dials"}});
    world.kube.ensure(&core("", "namespaces"), &namespace)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "team-dials", "labels": {labels::COMPONENT: "kube-apiserver"}},
        "spec": {"containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}]},
    });
    world.kube.ensure(&core("team-dials", "pods"), &pod)?;
    until("a pod of a team to run", || {
        let pod = world.kube.get(&format!("{}/probe", core("team-dials", "pods")))?;
        party(&pod, "pause", TEAMS, "")
    })
}

fn reached(from: &Party, to: &str, open: bool, what: &str) -> Result<()> {
    reaches((from.process, &from.name), to, open, what)
}
