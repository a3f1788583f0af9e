//! The API under one kind of address after the other: the kubeconfig follows, and older ones keep working.

use std::{thread::sleep, time::Duration};

use anyhow::{Context, Result, ensure};
use berth_e2e::{
    Caller, Kube, Tenant, World, core,
    kube_client::{server, under_name},
    revisions::{pods, pods_that_stay},
    tenant::condition,
    until,
};
use serde_json::json;

/// Calls that have to be answered one after the other before an address counts as reached, and the time between them.
const STEADY: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(100);

/// A name that is asked for at first, and one that is asked for later.
const FORMER: &str = "former.test.berth.dev";
const LATER: &str = "later.test.berth.dev";

#[test]
fn addresses_change_without_a_gap() {
    berth_e2e::run("endpoints", |world| {
        let tenant = Tenant::ready(world, "moving", &json!({"endpoint": {"certSANs": [FORMER]}}))?;
        let first = tenant.kubeconfig()?;
        let by_name = under_name(&first, FORMER)?;
        // The address inside the cluster is always in the certificate. Who knows another name connects there, too, and expects its own.
        let mut callers = vec![("by the first address", Caller::start(&first))];
        callers.push(("by a name that is dropped", Caller::start(&by_name)));
        let address = load_balancer(world, &tenant, &first)?;
        Kube::new(&by_name)?.get("/version").context("the name that certSANs had")?;
        let by_address = under_name(&first, &address)?;
        callers.push(("by the load balancer's address", Caller::start(&by_address)));
        node_port(world, &tenant, &first)?;
        Kube::new(&by_address)?.get("/version").context("the address that the load balancer had")?;
        Kube::new(&under_name(&first, LATER)?)?.get("/version").context("the name that certSANs has now")?;
        let stranger = Kube::new(&under_name(&first, "stranger.test.berth.dev")?)?.get("/version");
        ensure!(stranger.is_err(), "a name that nobody asked for is in the certificate, or clients do not look");
        for (who, caller) in callers {
            println!("    {who}");
            caller.end()?.none_failed().context(who)?;
        }
        tenant.let_go()
    });
}

/// The address that the load balancer gave; the name that certSANs had is asked for no longer.
fn load_balancer(world: &World, tenant: &Tenant<'_>, first: &str) -> Result<String> {
    let ranges = json!(["10.0.0.0/8"]);
    let service = json!({"loadBalancerSourceRanges": ranges});
    tenant.change(&json!({"endpoint": {"type": "LoadBalancer", "certSANs": null, "service": service}}))?;
    let cluster = tenant.wait_ready()?;
    let service = world.kube.get(&format!("{}/kube-apiserver", core(&tenant.cp_namespace, "services")))?;
    let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().unwrap_or_default().to_owned();
    ensure!(service["spec"]["loadBalancerSourceRanges"] == ranges);
    ensure!(cluster["status"]["endpoints"][0]["host"] == address.as_str(), "{}", cluster["status"]["endpoints"]);
    ensure!(server(&tenant.kubeconfig()?) == format!("https://{address}:6443"), "{}", server(&tenant.kubeconfig()?));
    // With ranges the operator asks inside the cluster, and until the nodes have heard, a pod that ends serves on with the certificate of before.
    until("the load balancer's address to lead to the API", || {
        (0..STEADY).try_for_each(|_| {
            sleep(BETWEEN);
            tenant.api()?.get("/version").map(drop)
        })
    })?;
    Kube::new(first)?.get("/version")?;
    named(tenant, first, &address)?;
    Ok(address)
}

/// A name in front: pods are still given the load balancer's address, or the one that somebody says, and nothing restarts for it. The name and
/// both addresses are in the certificate already.
fn named(tenant: &Tenant<'_>, first: &str, address: &str) -> Result<()> {
    const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let before = pods_that_stay(tenant)?;
    let host = format!("kube-apiserver.{}.svc", tenant.cp_namespace);
    let service = server(first).trim_start_matches("https://").trim_end_matches(":6443").to_owned();
    for (given, wanted) in [(None, address), (Some(&service), &*service)] {
        tenant.change(&json!({"endpoint": {"host": host, "advertiseAddress": given}}))?;
        let cluster = tenant.wait_ready()?;
        let reach = condition(&cluster, "PodsReachAPI")?;
        ensure!(reach["status"] == "True", "{reach}");
        let slice = Kube::new(first)?.get(SLICE)?;
        ensure!(slice["endpoints"][0]["addresses"] == json!([wanted]), "{slice}");
    }
    tenant.change(&json!({"endpoint": {"host": null, "advertiseAddress": null}}))?;
    tenant.wait_ready()?;
    ensure!(pods(tenant)? == before, "pods were replaced");
    Ok(())
}

/// The load balancer's address is no longer there, and another name is asked for.
fn node_port(world: &World, tenant: &Tenant<'_>, first: &str) -> Result<()> {
    let node = world.cluster.slot().node_address().to_string();
    let before = tenant.kubeconfig()?;
    tenant.change(&json!({"endpoint": {"type": "NodePort", "host": node, "certSANs": [LATER], "service": null}}))?;
    tenant.wait_ready()?;
    let service = world.kube.get(&format!("{}/kube-apiserver", core(&tenant.cp_namespace, "services")))?;
    ensure!(service["status"]["loadBalancer"]["ingress"].is_null(), "{}", service["status"]);
    let port = &service["spec"]["ports"][0]["nodePort"];
    ensure!(server(&tenant.kubeconfig()?) == format!("https://{node}:{port}"), "{}", server(&tenant.kubeconfig()?));
    ensure!(server(&before) != server(&tenant.kubeconfig()?));
    tenant.api()?.get("/version")?;
    Kube::new(first)?.get("/version")?;
    Ok(())
}
