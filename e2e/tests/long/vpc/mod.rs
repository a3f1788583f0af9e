//! A tenant whose API servers have addresses in its VPC: a machine there reaches each of them and joins; a new version and a lost pod change
//! who serves, and no address is ever on two pods. One more address moves between them, and rules in their pods keep the two networks apart.

mod moves;
mod reach;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use berth_devcluster::{Vpc, Worker};
use berth_e2e::{
    Kubectl, NEWEST, PREVIOUS_PATCH, Tenant, World, apps, core,
    kube_client::path,
    machines,
    network::{asked_address, define, interface, neighbour},
    run::run,
    tenant::name_of,
    until,
};
use serde_json::json;

const TEAM: &str = "team-e2e";
/// Two that run, and a spare.
const ADDRESSES: [&str; 3] = ["172.20.0.2", "172.20.0.3", "172.20.0.4"];
/// Where one of them is reached at a time.
const VIRTUAL: &str = "172.20.0.10";

#[test]
#[ignore = "make test-all: six minutes, and machines with kubelets of their own"]
fn api_servers_keep_their_addresses_in_a_vpc() {
    run("vpc", |world| {
        let vpc = world.cluster.vpc("a")?;
        let watch = Watch::start(world);
        let result = in_a_vpc(world, &vpc);
        watch.end().and(result)
    });
}

fn in_a_vpc(world: &World, vpc: &Vpc) -> Result<()> {
    let tenant = created(world, vpc)?;
    for address in ADDRESSES[..2].iter().chain(&[VIRTUAL]) {
        answers(&tenant, vpc, address)?;
    }
    addresses_are_on_the_interface(&tenant, vpc)?;
    ensure!(slots(world, &tenant)? == [1, 1, 0], "the spare is at rest");
    let other = world.cluster.vpc("b")?;
    let twin = with_the_same_addresses(world, &tenant, &other)?;
    moves::comes_back_when_its_holder_is_killed(&tenant, vpc)?;
    tenant.wait_ready()?;
    rolled(world, &tenant, vpc)?;
    comes_back(world, &tenant, vpc)?;
    machines::with(world, &["in-vpc", "in-vpc-2"], Some("a"), &[], |workers| {
        workers.iter().try_for_each(|worker| joins(&tenant, worker))?;
        reach::only_what_is_open(world, (&tenant, &twin), vpc, &workers[0])
    })?;
    twin.delete()?;
    tenant.delete()
}

/// Another tenant on another VPC has the same addresses, and is another API.
fn with_the_same_addresses<'w>(world: &'w World, tenant: &Tenant<'_>, vpc: &Vpc) -> Result<Tenant<'w>> {
    define(world, &vpc.definition(TEAM))?;
    let spec = json!({"vpc": {
        "attachment": {"name": vpc.master(), "interface": "net1"},
        "addresses": [format!("{}/24", ADDRESSES[0])], "virtualIP": VIRTUAL,
    }});
    let twin = Tenant::ready(world, "netted-twin", &spec)?;
    for address in [ADDRESSES[0], VIRTUAL] {
        answers(&twin, vpc, address)?;
        ensure!(asks(tenant, vpc, address).is_err(), "the same API answers at {address} in both VPCs");
    }
    Ok(twin)
}

/// What is missing is said, and made good by the definition.
fn created<'w>(world: &'w World, vpc: &Vpc) -> Result<Tenant<'w>> {
    let definitions = path("/apis/k8s.cni.cncf.io/v1", TEAM, "network-attachment-definitions");
    world.kube.delete(&format!("{definitions}/{}", vpc.master()))?;
    let spec = json!({
        "version": PREVIOUS_PATCH, "replicas": 2,
        "vpc": {
            "attachment": {"name": vpc.master(), "interface": "net1"},
            "addresses": ADDRESSES.map(|address| format!("{address}/24")),
            "virtualIP": VIRTUAL,
        },
    });
    let tenant = Tenant::create(world, "netted", &spec)?;
    let said = tenant.wait_condition("VPCReady", "False", "InvalidSpec")?;
    ensure!(said.contains(&format!("NetworkAttachmentDefinition {TEAM}/{} does not exist", vpc.master())), "{said}");
    world.kube.ensure(&definitions, &vpc.definition(TEAM))?;
    tenant.wait_ready()?;
    tenant.wait_condition("VPCReady", "True", "AsExpected")?;
    Ok(tenant)
}

/// The API answers there, asked from within the VPC, and its certificate names the address.
fn answers(tenant: &Tenant<'_>, vpc: &Vpc, address: &str) -> Result<()> {
    until(&format!("the API to answer at {address}"), || asks(tenant, vpc, address))
}

/// Once.
fn asks(tenant: &Tenant<'_>, vpc: &Vpc, address: &str) -> Result<()> {
    let said = Kubectl::of(tenant)?.in_vpc(vpc, address, &["get", "--raw", "/readyz"])?;
    ensure!(said == "ok", "{said:?}");
    Ok(())
}

/// Of each slot with a pod: the address that it asks for is the one that it got, and who answers on the wire is that pod.
fn addresses_are_on_the_interface(tenant: &Tenant<'_>, vpc: &Vpc) -> Result<()> {
    for pod in tenant.pods(Some("kube-apiserver"))? {
        let (asked, got) = (asked_address(&pod).context("an address")?, interface(&pod).context("net1")?);
        ensure!(got["ips"] == json!([asked]), "{} asks for {asked} and got {got}", name_of(&pod));
        answers(tenant, vpc, &asked)?;
        let said = neighbour(vpc, &asked)?;
        let mac = got["mac"].as_str().context("a hardware address")?;
        ensure!(said.contains(mac), "{asked} is at {said} in the VPC, and {} has {mac}", name_of(&pod));
    }
    Ok(())
}

/// A new patch version: one slot after the other, and the spare only meanwhile.
fn rolled(world: &World, tenant: &Tenant<'_>, vpc: &Vpc) -> Result<()> {
    tenant.change(&json!({"version": NEWEST}))?;
    until("the spare to run", || {
        ensure!(slots(world, tenant)? == [1, 1, 1], "slots are {:?}", slots(world, tenant)?);
        Ok(())
    })?;
    tenant.wait_ready()?;
    ensure!(slots(world, tenant)? == [1, 1, 0], "the spare is at rest again");
    for pod in tenant.pods(Some("kube-apiserver"))? {
        let version = &pod["metadata"]["labels"]["app.kubernetes.io/version"];
        ensure!(
            version == NEWEST || pod["metadata"]["deletionTimestamp"].is_string(),
            "{} is {version}",
            name_of(&pod)
        );
    }
    ADDRESSES[..2].iter().try_for_each(|address| answers(tenant, vpc, address))
}

/// A pod that is deleted comes back with its address; the tenant is served meanwhile.
fn comes_back(world: &World, tenant: &Tenant<'_>, vpc: &Vpc) -> Result<()> {
    let pod = format!("{}/kube-apiserver-0-0", core(&tenant.cp_namespace, "pods"));
    let before = world.kube.get(&pod)?;
    world.kube.delete(&pod)?;
    until("another pod in its place", || {
        let now = world.kube.get(&pod)?;
        ensure!(now["metadata"]["uid"] != before["metadata"]["uid"], "it is the same");
        ensure!(asked_address(&now) == asked_address(&before), "its address is {:?}", asked_address(&now));
        Ok(())
    })?;
    tenant.wait_ready()?;
    answers(tenant, vpc, ADDRESSES[0])
}

/// A machine in the VPC becomes a node, with its address there.
fn joins(tenant: &Tenant<'_>, worker: &Worker) -> Result<()> {
    let arguments = tenant.join_arguments()?;
    let first = arguments.first().context("an address")?;
    ensure!(*first == format!("{VIRTUAL}:6443"), "nodes reach the API in the VPC: {first}");
    machines::join(tenant, worker)?;
    let live = tenant.api()?.get(&format!("{}/{}", core("", "nodes"), worker.name()))?;
    let addresses = live["status"]["addresses"].to_string();
    ensure!(addresses.contains(&worker.address().to_string()), "its addresses are {addresses}");
    Ok(())
}

/// Replicas of each slot.
fn slots(world: &World, tenant: &Tenant<'_>) -> Result<Vec<i64>> {
    let set = |n: usize| {
        let set = world.kube.get(&format!("{}/kube-apiserver-{n}", apps(&tenant.cp_namespace, "statefulsets")))?;
        set["spec"]["replicas"].as_i64().context("replicas")
    };
    (0..ADDRESSES.len()).map(set).collect()
}

/// Looks at all pods, several times a second: which address is asked for by two at once.
struct Watch {
    stop: Arc<AtomicBool>,
    seen: thread::JoinHandle<Result<u32>>,
}

impl Watch {
    fn start(world: &World) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (kube, stopped) = (world.kube.clone(), stop.clone());
        let seen = thread::spawn(move || {
            let mut looks = 0;
            while !stopped.load(Ordering::SeqCst) {
                let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for pod in kube.list(&core("", "pods")).unwrap_or_default() {
                    let ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == **phase);
                    let place = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
                    if let Some(address) = asked_address(&pod).filter(|_| !ended) {
                        holders.entry(format!("{address} in {place}")).or_default().push(name_of(&pod));
                    }
                }
                looks += u32::from(!holders.is_empty());
                let two = holders.into_iter().find(|(_, pods)| pods.len() > 1);
                if let Some((address, pods)) = two {
                    return Err(anyhow!("{address} is on {}", pods.join(" and ")));
                }
                thread::sleep(Duration::from_millis(200));
            }
            Ok(looks)
        });
        Self { stop, seen }
    }

    fn end(self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        let looks = self.seen.join().map_err(|_| anyhow!("the watch failed"))??;
        ensure!(looks > 10, "it saw pods with addresses {looks} times");
        Ok(())
    }
}
