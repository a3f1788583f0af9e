//! What is not there when a tenant is made: an image, a storage class.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{binaries, versions};
use berth_e2e::{Options, Tenant, World, core};
use serde_json::json;

use super::away::without_operator;

/// A patch release that nobody has built.
const MISSING: &str = "1.36.98";

/// Both at once, and the operator is away while they are made, and while it comes.
pub(crate) fn missing(world: &World) -> Result<()> {
    let values = vec!["writers.storage.classes={nowhere}".to_owned()];
    world.install(&Options { values, ..Options::default() })?;
    let (mut image, mut class) = (None, None);
    without_operator(world, || {
        image = Some(Tenant::create(world, "imageless", &json!({"version": MISSING}))?);
        class = Some(Tenant::create(world, "classless", &json!({"etcd": {"storage": {"className": "nowhere"}}}))?);
        Ok(())
    })?;
    let (image, class) = (image.context("it was made")?, class.context("it was made")?);
    let said = image.wait_condition("Ready", "False", "ImageUnavailable")?;
    ensure!(said.contains("kube-apiserver") && said.contains(&format!(":v{MISSING}")), "{said}");
    let said = class.wait_condition("Ready", "False", "Unschedulable")?;
    ensure!(said.contains("etcd-0") && said.contains("nowhere"), "{said}");
    can_continue(&image, &["PKIReady", "EtcdAvailable"], "ImageUnavailable")?;
    can_continue(&class, &["PKIReady"], "Unschedulable")?;
    without_operator(world, || {
        tag_missing_images(world)?;
        offer_class(world, &class)
    })?;
    image.wait_ready()?;
    class.wait_ready()?;
    image.let_go()?;
    class.delete()?;
    world.kube.delete("/apis/storage.k8s.io/v1/storageclasses/nowhere")?;
    world.kube.delete(&format!("{}/nowhere", core("", "persistentvolumes")))?;
    world.install(&Options::default())
}

/// Other stages are done while one cannot be.
fn can_continue(tenant: &Tenant<'_>, done: &[&str], meanwhile: &str) -> Result<()> {
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
            "claimRef": {"namespace": tenant.cp_namespace, "name": "data-etcd-0"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [world.cluster.node()]},
            ]}]}},
        },
    });
    world.kube.ensure(&core("", "persistentvolumes"), &volume)
}
