//! Bad surroundings: each is named by a condition, other tenants go on, and it heals without a touch on the `Cluster`.

use std::{
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use berth_devcluster::{binaries, versions};
use berth_e2e::{Tenant, World, apps, core, until};
use serde_json::json;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
/// What refuses and hangs.
const REFUSERS: [&str; 3] = [
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/no-deployments",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/no-deployments",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hangs",
];

/// A patch release that nobody has built.
const MISSING: &str = "1.36.98";

#[test]
fn what_is_missing_at_birth_is_named_and_awaited() {
    // Where names do not resolve, each pull takes half a minute to fail, and kubelet pulls one after the other.
    if !berth_e2e::run::all() {
        return;
    }
    berth_e2e::run("surroundings", |world| {
        let image = Tenant::create(world, "imageless", &json!({"version": MISSING}))?;
        let class = Tenant::create(world, "classless", &json!({"etcd": {"storage": {"className": "nowhere"}}}))?;
        let said = image.wait_condition("Ready", "False", "ImageUnavailable")?;
        ensure!(said.contains("kube-apiserver") && said.contains(&format!(":v{MISSING}")), "{said}");
        let said = class.wait_condition("Ready", "False", "Unschedulable")?;
        ensure!(said.contains("etcd-0") && said.contains("nowhere"), "{said}");
        goes_on(&image, &["PKIReady", "EtcdAvailable"], "ImageUnavailable")?;
        goes_on(&class, &["PKIReady"], "Unschedulable")?;
        tag_missing_images(world)?;
        offer_class(world, &class)?;
        image.wait_ready()?;
        class.wait_ready()?;
        image.let_go()?;
        class.delete()?;
        world.kube.delete("/apis/storage.k8s.io/v1/storageclasses/nowhere")?;
        world.kube.delete(&format!("{}/nowhere", core("", "persistentvolumes")))?;
        Ok(())
    });
}

#[test]
fn what_is_refused_later_is_named_and_tried_again() {
    berth_e2e::run("surroundings", |world| {
        // A run that was cut off may have left them, and they would refuse this one's tenants.
        for left in REFUSERS {
            if world.kube.find(left)?.is_some() {
                world.kube.delete(left)?;
            }
        }
        let tenant = Tenant::create(world, "refused", &json!({}))?;
        let other = Tenant::create(world, "untroubled", &json!({}))?;
        tenant.wait_ready()?;
        other.wait_ready()?;
        no_node_takes_it(world, &tenant)?;
        a_quota(world, &tenant)?;
        a_policy_that_refuses(world, &tenant)?;
        a_webhook_that_hangs(world, &tenant, &other)?;
        other.let_go()?;
        tenant.delete()
    });
}

/// Other stages are done while one cannot be.
fn goes_on(tenant: &Tenant<'_>, done: &[&str], meanwhile: &str) -> Result<()> {
    for type_ in done {
        tenant.wait_condition(type_, "True", "AsExpected")?;
    }
    tenant.wait_condition("Ready", "False", meanwhile).map(drop)
}

/// The images get the missing version's names, as if they had been published by now.
fn tag_missing_images(world: &World) -> Result<()> {
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let image = |version: &str| format!("registry.k8s.io/{name}:v{version}");
        let output = Command::new(binaries::path("containerd", versions::CONTAINERD, "ctr")?)
            .arg("--address")
            .arg(world.cluster.containerd_socket())
            .args(["-n", "k8s.io", "images", "tag", "--force", &image(berth_e2e::NEWEST), &image(MISSING)])
            .output()?;
        ensure!(output.status.success(), "ctr: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The class, and one volume of it.
fn offer_class(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let directory = world.cluster.dir().join("e2e-nowhere");
    std::fs::create_dir_all(&directory)?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "nowhere"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    world.kube.ensure("/apis/storage.k8s.io/v1/storageclasses", &class)?;
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "nowhere"},
        "spec": {
            "storageClassName": "nowhere", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": directory},
            "claimRef": {"namespace": tenant.home, "name": "data-etcd-0"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [world.cluster.node()]},
            ]}]}},
        },
    });
    world.kube.ensure(&core("", "persistentvolumes"), &volume)
}

fn scheduler(tenant: &Tenant<'_>) -> String {
    format!("{}/kube-scheduler", apps(&tenant.home, "deployments"))
}

fn delete_pods(world: &World, tenant: &Tenant<'_>, component: &str) -> Result<()> {
    let selector = format!("app.kubernetes.io/component={component}");
    world.kubectl(&["-n", &tenant.home, "delete", "pod", "-l", &selector, "--wait=false"]).map(drop)
}

fn no_node_takes_it(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    world.kubectl(&["cordon", &world.cluster.node()])?;
    delete_pods(world, tenant, "kube-scheduler")?;
    let said = tenant.wait_condition("Ready", "False", "Unschedulable");
    world.kubectl(&["uncordon", &world.cluster.node()])?;
    let said = said?;
    ensure!(said.contains("kube-scheduler-") && said.contains("has no node"), "{said}");
    tenant.wait_ready().map(drop)
}

fn a_quota(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    world.kube.ensure(&core(&tenant.home, "resourcequotas"), &quota)?;
    delete_pods(world, tenant, "kube-scheduler")?;
    let said = tenant.wait_condition("Ready", "False", "Rejected")?;
    ensure!(said.contains("kube-scheduler") && said.contains("exceeded quota: none"), "{said}");
    // A StatefulSet has no condition for that.
    delete_pods(world, tenant, "etcd")?;
    until("it says what refuses etcd's pod", || {
        let said = tenant.wait_condition("Degraded", "True", "QuorumLost")?;
        ensure!(said.contains("etcd-0 is not there") && said.contains("exceeded quota: none"), "{said}");
        Ok(())
    })?;
    world.kube.delete(&format!("{}/none", core(&tenant.home, "resourcequotas")))?;
    tenant.wait_ready().map(drop)
}

fn a_policy_that_refuses(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let rules =
        json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-deployments"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "false", "message": "no Deployments on Saturdays"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-deployments"},
        "spec": {
            "policyName": "no-deployments", "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.home}}},
        },
    });
    world.kube.ensure(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy)?;
    world.kube.ensure(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding)?;
    // Policies count a moment after they were made.
    std::thread::sleep(Duration::from_secs(3));
    world.kube.delete(&scheduler(tenant))?;
    let said = tenant.wait_condition("Ready", "False", "Rejected")?;
    ensure!(said.contains("kube-scheduler") && said.contains("no Deployments on Saturdays"), "{said}");
    tenant.api()?.get("/version")?;
    world.kube.delete(&format!("{ADMISSION}/validatingadmissionpolicybindings/no-deployments"))?;
    world.kube.delete(&format!("{ADMISSION}/validatingadmissionpolicies/no-deployments"))?;
    tenant.wait_ready().map(drop)
}

/// A webhook that takes connections and never answers: the write is given up, said, and tried again; another tenant does not notice.
fn a_webhook_that_hangs(world: &World, tenant: &Tenant<'_>, other: &Tenant<'_>) -> Result<()> {
    let address = world.cluster.host_address();
    let listener = TcpListener::bind((address, 0)).context("a port for the webhook")?;
    let port = listener.local_addr()?.port();
    let held = std::thread::spawn(move || listener.incoming().take(1000).collect::<Vec<_>>());
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hangs"},
        "webhooks": [{
            "name": "hangs.test.berth.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
            "clientConfig": {"url": format!("https://{address}:{port}/")},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.home}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}],
        }],
    });
    world.kube.ensure(&format!("{ADMISSION}/validatingwebhookconfigurations"), &webhook)?;
    std::thread::sleep(Duration::from_secs(3));
    world.kube.delete(&scheduler(tenant))?;
    let said = tenant.wait_condition("Ready", "False", "Error")?;
    ensure!(said.contains("kube-scheduler") && said.contains("no answer within"), "{said}");
    is_repaired(world, other)?;
    // All that while the webhook did not answer, and nothing came past it.
    tenant.wait_condition("Ready", "False", "Error")?;
    ensure!(world.kube.find(&scheduler(tenant))?.is_none(), "the webhook let a Deployment pass");
    world.kube.delete(&format!("{ADMISSION}/validatingwebhookconfigurations/hangs"))?;
    tenant.wait_ready()?;
    drop(held);
    Ok(())
}

/// What goes missing of a tenant comes back, and it is ready again.
fn is_repaired(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let before = world.kube.get(&scheduler(tenant))?["metadata"]["uid"].clone();
    let started = Instant::now();
    world.kube.delete(&scheduler(tenant))?;
    // A condition may be from before: that the new one's pod is ready is not.
    until("the other tenant's scheduler to be back", || {
        let scheduler = world.kube.get(&scheduler(tenant))?;
        ensure!(scheduler["metadata"]["uid"] != before && scheduler["status"]["availableReplicas"] == 1);
        Ok(())
    })?;
    tenant.wait_ready()?;
    println!("    repaired meanwhile in {:.1?}", started.elapsed());
    Ok(())
}
