//! A tenant from one object: it works, it says so, it rests, and it goes without a trace.

use anyhow::{Result, ensure};
use berth_e2e::{NEWEST, PULL_SECRET, SYSTEM, Tenant, World, core, tenant::condition, until};
use serde_json::json;

#[test]
fn a_tenant_works_and_leaves_nothing() {
    berth_e2e::run("create", |world| {
        let tenant = Tenant::ready(world, "acme", &json!({}))?;
        status_says_what_is(&tenant)?;
        the_api_works(&tenant)?;
        pods_pull_with_the_platforms_secret(world, &tenant)?;
        tenant.nothing_restarted()?;
        tenant.rests()?;
        world.wait_alone(&tenant)?;
        a_second_reconcile_writes_nothing(world)?;
        tenant.delete()?;
        world.nothing_is_left()
    });
}

fn status_says_what_is(tenant: &Tenant<'_>) -> Result<()> {
    let cluster = tenant.cluster()?;
    let status = &cluster["status"];
    ensure!(status["version"] == NEWEST && status["phase"] == "Ready", "{status}");
    ensure!(status["controlPlaneNamespace"]["name"] == tenant.cp_namespace.as_str(), "{status}");
    ensure!(status["endpoints"][0]["name"] == "admin" && status["endpoints"][0]["port"] == 6443, "{status}");
    ensure!(status["kubeconfigs"] == json!([{"name": "admin", "secretRef": {"name": "acme-kubeconfig"}}]), "{status}");
    let components = status["components"].as_array().cloned().unwrap_or_default();
    ensure!(components.len() == 3, "{status}");
    for c in components {
        ensure!(c["version"] == NEWEST && c["ready"] == 1 && c["desired"] == 1, "{c}");
    }
    ensure!(status["certificates"]["nextExpiry"].is_string(), "{status}");
    for (type_, wanted) in [
        ("Ready", "True"),
        ("Available", "True"),
        ("Progressing", "False"),
        ("Degraded", "False"),
        ("PKIReady", "True"),
        ("EtcdAvailable", "True"),
        ("ControlPlaneAvailable", "True"),
        ("PodsReachAPI", "True"),
    ] {
        let found = condition(&cluster, type_)?;
        ensure!(found["status"] == wanted, "{found}");
        ensure!(found["observedGeneration"] == cluster["metadata"]["generation"], "{found}");
    }
    Ok(())
}

/// Those that were made first, too: what admission gave them is what Berth put there before.
fn pods_pull_with_the_platforms_secret(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let home = &tenant.cp_namespace;
    let named = json!([{"name": PULL_SECRET}]);
    let account = world.kube.get(&format!("{}/default", core(home, "serviceaccounts")))?;
    ensure!(account["imagePullSecrets"] == named, "{account}");
    let pods = world.kube.list(&core(home, "pods"))?;
    ensure!(pods.len() >= 4 && pods.iter().all(|pod| pod["spec"]["imagePullSecrets"] == named), "{pods:?}");
    let secret = |namespace: &str| world.kube.get(&format!("{}/{PULL_SECRET}", core(namespace, "secrets")));
    ensure!(secret(home)?["data"] == secret(SYSTEM)?["data"], "not the same");
    Ok(())
}

/// Every component does what it is there for: the API server and its etcd store, the controller-manager makes service
/// accounts and their tokens are good, the scheduler looks for a node.
fn the_api_works(tenant: &Tenant<'_>) -> Result<()> {
    let api = tenant.api()?;
    ensure!(api.get("/version")?["gitVersion"] == format!("v{NEWEST}"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"key": "value"}});
    api.create(&core("default", "configmaps"), &map)?;
    ensure!(api.get(&format!("{}/kept", core("default", "configmaps")))?["data"]["key"] == "value");

    let account = format!("{}/default", core("default", "serviceaccounts"));
    until("the service account of the namespace default", || api.get(&account))?;
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = api.create(&format!("{account}/token"), &asked)?["status"]["token"].clone();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let review = api.create("/apis/authentication.k8s.io/v1/tokenreviews", &review)?;
    ensure!(review["status"]["user"]["username"] == "system:serviceaccount:default:default", "{review}");

    // Nobody but berth-approve writes them again so soon.
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    for path in [slice, &format!("{}/kubernetes", core("default", "endpoints"))] {
        let before = api.get(path)?["metadata"]["uid"].clone();
        api.delete(path)?;
        until(&format!("{path} to be back"), || {
            let now = api.get(path)?;
            ensure!(now["metadata"]["uid"] != before, "{now}");
            Ok(())
        })?;
    }
    tenant.scheduler_works()?;
    until("the event that says so", || {
        let events = api.list(&core("default", "events"))?;
        ensure!(events.iter().any(|e| e["reason"] == "FailedScheduling"));
        Ok(())
    })
}

/// At rest nothing is written: another operator looks at everything, and finds nothing to do.
fn a_second_reconcile_writes_nothing(world: &World) -> Result<()> {
    let mark = world.audit_mark()?;
    world.restart_operator()?;
    world.operator_has_reconciled()?;
    let writes = world.writes_since(mark)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    Ok(())
}
