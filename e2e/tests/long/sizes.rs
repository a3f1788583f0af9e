//! Requests of running pods follow usage, with real kubelets: the same containers run on, with other requests, while a client writes. The cluster
//! has no metrics-server: this test says what pods use, by objects of a CustomResourceDefinition of `metrics.k8s.io`.

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{Tenant, World, Writer, core, run, until};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[test]
#[ignore = "make test-all: usage has to last for more than a minute, and kubelets resize"]
fn requests_follow_usage() {
    run("sizes", |world| {
        world.install(&berth_e2e::operator::Options::default())?;
        let tenant = Tenant::ready(world, "sized", &json!({"apiServer": {"autoscaling": {"mode": "InPlace"}}}))?;
        tenant.wait_condition("Ready", "True", "SizeHeld")?;
        println!("    without metrics.k8s.io it says so");
        world.kube.create(CRDS, &metrics_crd())?;
        let outcome = follow(world, &tenant);
        world.kube.delete(&format!("{CRDS}/pods.metrics.k8s.io"))?;
        outcome?;
        tenant.delete()
    });
}

fn follow(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let max = json!({"autoscaling": {"mode": "InPlace", "max": {"cpu": "900m"}}});
    tenant.change(&json!({"apiServer": max}))?;
    let writer = Writer::start(&tenant.kubeconfig()?);
    let before = tenant.pod_identities()?;
    let first = size(tenant)?;
    use_cpu(world, tenant, "700m")?;
    until("requests to follow usage", || {
        // Samples are of the time at which they are read, so each counts.
        let now = size(tenant)?;
        ensure!(now.asked == "900m" && now.actual == "900m", "{now:?}");
        Ok(())
    })?;
    println!("    {first:?} became 900m");
    ensure!(tenant.pod_identities()? == before, "pods were made anew, or containers restarted");
    tenant.wait_condition("Ready", "True", "AsExpected")?;
    // More than the node has, and the most that writers may ask for: told, and what runs stays.
    tenant.change(
        &json!({"apiServer": {"autoscaling": {"mode": "InPlace", "min": {"cpu": "63"}, "max": {"cpu": "64"}}}}),
    )?;
    let said = tenant.wait_condition("Ready", "True", "SizeHeld")?;
    let is_told = ["Infeasible", "Deferred", "allocatable"].iter().any(|word| said.contains(word));
    ensure!(is_told, "{said}");
    println!("    {said}");
    tenant.change(
        &json!({"apiServer": {"autoscaling": {"mode": "InPlace", "min": {"cpu": "100m"}, "max": {"cpu": "200m"}}}}),
    )?;
    until("less at once where max says so", || {
        let now = size(tenant)?;
        ensure!(now.asked == "200m" && now.actual == "200m", "{now:?}");
        Ok(())
    })?;
    ensure!(tenant.pod_identities()? == before, "pods were made anew, or containers restarted");
    writer.nothing_was_lost(tenant)
}

/// CPU of the API server: what its pod asks for, and what kubelet gave it.
#[derive(Debug)]
struct Size {
    asked: String,
    actual: String,
}

fn size(tenant: &Tenant<'_>) -> Result<Size> {
    let pods = tenant.pods(Some("kube-apiserver"))?;
    let pod = pods.first().context("no pod of kube-apiserver")?;
    let of = |path: &str| {
        let all = pod.pointer(path).and_then(Value::as_array)?;
        let own = all.iter().find(|one| one["name"] == "kube-apiserver")?;
        own.pointer("/resources/requests/cpu")?.as_str().map(str::to_owned)
    };
    let (asked, actual) = (of("/spec/containers"), of("/status/containerStatuses"));
    Ok(Size { asked: asked.unwrap_or_default(), actual: actual.unwrap_or_default() })
}

/// Each API server uses that.
fn use_cpu(world: &World, tenant: &Tenant<'_>, cpu: &str) -> Result<()> {
    for pod in tenant.pods(Some("kube-apiserver"))? {
        let (name, labels) = (&pod["metadata"]["name"], &pod["metadata"]["labels"]);
        world.kube.create(
            &berth_e2e::kube_client::path("/apis/metrics.k8s.io/v1beta1", &tenant.cp_namespace, "pods"),
            &json!({
                "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": {"name": name, "labels": labels},
                "containers": [{"name": "kube-apiserver", "usage": {"cpu": cpu, "memory": "200Mi"}}],
            }),
        )?;
    }
    ensure!(!world.kube.list(&core(&tenant.cp_namespace, "pods"))?.is_empty());
    Ok(())
}

fn metrics_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pods.metrics.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"}},
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "podmetrics", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
