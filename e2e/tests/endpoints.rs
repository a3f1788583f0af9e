//! The API under one kind of address after the other: the kubeconfig follows, and who has an older one is served on.

use anyhow::{Result, ensure};
use berth_e2e::{Kube, Options, Tenant, World, core, tenant::condition, until};
use serde_json::json;

/// A class that nobody in the cluster serves: the test is the load balancer.
const CLASS: &str = "test.berth.dev/lb";

#[test]
fn addresses_change_without_a_gap() {
    berth_e2e::run("endpoints", |world| {
        let tenant = Tenant::ready(world, "moving", &json!({}))?;
        let first = tenant.kubeconfig()?;
        let caller = berth_e2e::Caller::start(&first);
        load_balancer(world, &tenant, &first)?;
        node_port(world, &tenant, &first)?;
        caller.end()?.none_failed()?;
        tenant.let_go()?;
        host_name(world)
    });
}

fn server(kubeconfig: &str) -> String {
    let line = kubeconfig.lines().find_map(|l| l.trim().strip_prefix("server: ")).unwrap_or_default();
    line.trim_matches('"').to_owned()
}

fn load_balancer(world: &World, tenant: &Tenant<'_>, first: &str) -> Result<()> {
    let ranges = json!(["10.0.0.0/8"]);
    tenant.change(&json!({"endpoint": {"type": "LoadBalancer", "service": {"loadBalancerSourceRanges": ranges}}}))?;
    let cluster = tenant.wait_ready()?;
    let service = world.kube.get(&format!("{}/kube-apiserver", core(&tenant.home, "services")))?;
    let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().unwrap_or_default().to_owned();
    ensure!(service["spec"]["loadBalancerSourceRanges"] == ranges);
    ensure!(cluster["status"]["endpoints"][0]["host"] == address.as_str(), "{}", cluster["status"]["endpoints"]);
    ensure!(server(&tenant.kubeconfig()?) == format!("https://{address}:6443"), "{}", server(&tenant.kubeconfig()?));
    tenant.api()?.get("/version")?;
    Kube::new(first)?.get("/version")?;
    Ok(())
}

fn node_port(world: &World, tenant: &Tenant<'_>, first: &str) -> Result<()> {
    let node = world.cluster.slot().node_address().to_string();
    let before = tenant.kubeconfig()?;
    tenant.change(&json!({"endpoint": {"type": "NodePort", "host": node, "service": null}}))?;
    tenant.wait_ready()?;
    let service = world.kube.get(&format!("{}/kube-apiserver", core(&tenant.home, "services")))?;
    let port = &service["spec"]["ports"][0]["nodePort"];
    ensure!(server(&tenant.kubeconfig()?) == format!("https://{node}:{port}"), "{}", server(&tenant.kubeconfig()?));
    ensure!(server(&before) != server(&tenant.kubeconfig()?));
    tenant.api()?.get("/version")?;
    Kube::new(first)?.get("/version")?;
    Ok(())
}

/// A load balancer that gives a name in place of an address, of a class that has to be allowed first.
fn host_name(world: &World) -> Result<()> {
    let class = json!({"type": "LoadBalancer", "service": {"loadBalancerClass": CLASS}});
    let tenant = Tenant::create(world, "named", &json!({"endpoint": class}))?;
    let said = tenant.wait_condition("Ready", "False", "NotAllowed")?;
    ensure!(said.contains(CLASS) && said.contains("writers.service.loadBalancerClasses"), "{said}");
    world.install(&Options {
        values: vec![format!("writers.service.loadBalancerClasses={{{CLASS}}}")],
        ..Options::default()
    })?;
    let service = format!("{}/kube-apiserver", core(&tenant.home, "services"));
    until("the Service of the class", || {
        ensure!(world.kube.get(&service)?["spec"]["loadBalancerClass"] == CLASS);
        Ok(())
    })?;
    // Cluster DNS knows it, and so does the operator.
    let name = format!("kube-apiserver.{}.svc.cluster.local", tenant.home);
    let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": name}]}}});
    world.kube.merge(&format!("{service}/status"), &status)?;
    let cluster = tenant.wait_ready()?;
    ensure!(condition(&cluster, "Available")?["status"] == "True");
    ensure!(server(&tenant.kubeconfig()?) == format!("https://{name}:6443"), "{}", server(&tenant.kubeconfig()?));
    // Another class while it is a load balancer is refused at once.
    let refused = tenant.change(&json!({"endpoint": {"service": {"loadBalancerClass": "another"}}}));
    let error = format!("{:#}", refused.err().unwrap_or_else(|| anyhow::anyhow!("it was accepted")));
    ensure!(error.contains("set the type to ClusterIP first"), "{error}");
    tenant.delete()?;
    world.install(&Options::default())
}
