//! A load balancer that gives a name in place of an address.

use anyhow::{Result, ensure};
use berth_e2e::{Options, Tenant, World, core, kube_client::server, tenant::condition, until};
use serde_json::json;

/// A class that nobody in the cluster serves: the test is the load balancer.
const CLASS: &str = "test.berth.dev/lb";

#[test]
#[ignore = "make test-all: Berth is installed anew, twice"]
fn a_load_balancer_may_give_a_name() {
    berth_e2e::run("endpoints", host_name);
}

/// Its class has to be allowed first.
fn host_name(world: &World) -> Result<()> {
    let class = json!({"type": "LoadBalancer", "service": {"loadBalancerClass": CLASS}});
    let tenant = Tenant::create(world, "named", &json!({"endpoint": class}))?;
    let said = tenant.wait_condition("Ready", "False", "NotAllowed")?;
    ensure!(said.contains(CLASS) && said.contains("writers.service.loadBalancerClasses"), "{said}");
    world.install(&Options {
        values: vec![format!("writers.service.loadBalancerClasses={{{CLASS}}}")],
        ..Options::default()
    })?;
    let service = format!("{}/kube-apiserver", core(&tenant.cp_namespace, "services"));
    until("the Service of the class", || {
        ensure!(world.kube.get(&service)?["spec"]["loadBalancerClass"] == CLASS);
        Ok(())
    })?;
    // Cluster DNS knows it, and so does the operator.
    let name = format!("kube-apiserver.{}.svc.cluster.local", tenant.cp_namespace);
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
