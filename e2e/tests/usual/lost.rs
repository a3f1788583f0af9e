//! A control plane that is gone is not made anew by itself; one that outlived its `Cluster` is taken over when a person says so.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::{Options, Tenant, World, berth, core, stays, tenant::condition, until};
use serde_json::{Value, json};

#[test]
fn lost_control_planes_and_restored_clusters() {
    berth_e2e::run("lost", |world| {
        let kept = Tenant::create(world, "kept", &json!({}))?;
        let lost = Tenant::create(world, "lost", &json!({}))?;
        kept.wait_ready()?;
        lost.wait_ready()?;
        let kept_pods = kept.pod_identities()?;
        namespace_deleted_by_hand(world, &lost)?;
        ensure!(kept.pod_identities()? == kept_pods, "the other tenant saw nothing of it");
        restored_with_new_uids(world, &kept)
    });
}

fn namespace_deleted_by_hand(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let namespace = format!("{}/{}", core("", "namespaces"), tenant.cp_namespace);
    let uid = world.kube.get(&namespace)?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let refused = world.kube.delete(&namespace).err().map(|e| format!("{e:#}")).unwrap_or_default();
    ensure!(refused.contains("holds the keys and the data of a tenant"), "not refused: {refused:?}");
    world.allow_deletion(&namespace)?;
    world.kube.delete(&namespace)?;
    let message = tenant.wait_condition("Degraded", "True", "ControlPlaneLost")?;
    ensure!(message.contains(&tenant.cp_namespace) && message.contains(&uid), "{message}");
    let mut others = vec![];
    until("the namespace to be gone", || {
        let cluster = tenant.cluster()?;
        let degraded = condition(&cluster, "Degraded")?;
        if degraded["reason"] != "ControlPlaneLost" {
            others.push(degraded.clone());
        }
        ensure!(world.kube.find(&namespace)?.is_none(), "it is there");
        Ok(())
    })?;
    ensure!(others.is_empty(), "it is lost all the time, and said {others:?}");
    let message = tenant.wait_condition("Ready", "False", "ControlPlaneLost")?;
    ensure!(message.contains(&tenant.cp_namespace) && message.contains(&uid), "{message}");
    stays("nothing is made anew", Duration::from_secs(10), || {
        ensure!(world.kube.find(&namespace)?.is_none(), "the namespace is back");
        Ok(())
    })?;
    tenant.delete()
}

/// What a restore of the meta cluster's objects from a backup does: the same names, other UIDs, no status.
fn restored_with_new_uids(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let secrets = tenant.secrets()?;
    let pods = tenant.pod_identities()?;
    let old_uid = uid(&tenant.cluster()?);
    world.stop_operator()?;
    let etcd = format!("{}/etcd", berth(&tenant.cp_namespace, "etcdclusters"));
    // Both kinds: a backup has both.
    for path in [tenant.path(), etcd] {
        restore(world, &path)?;
    }
    world.install(&Options::default())?;
    let new_uid = uid(&tenant.cluster()?);
    ensure!(new_uid != old_uid);
    let message = tenant.wait_condition("Ready", "False", "AdoptionRequired")?;
    ensure!(message.contains(&format!("berth.dev/adopt={old_uid}")), "{message}");
    stays("it is left alone", Duration::from_secs(5), || {
        ensure!(tenant.pod_identities()? == pods, "pods changed");
        Ok(())
    })?;
    world.kube.merge(&tenant.path(), &json!({"metadata": {"annotations": {"berth.dev/adopt": old_uid}}}))?;
    tenant.wait_ready()?;
    let after = tenant.secrets()?;
    ensure!(after == secrets, "keys and certificates are as they were: {secrets:#?} became {after:#?}");
    ensure!(tenant.pod_identities()? == pods, "no pod was restarted");
    tenant.api()?.list(&core("", "namespaces"))?;
    let namespace = world.kube.get(&format!("{}/{}", core("", "namespaces"), tenant.cp_namespace))?;
    ensure!(namespace["metadata"]["labels"]["berth.dev/cluster-uid"] == new_uid.as_str(), "{}", namespace["metadata"]);
    Ok(())
}

fn restore(world: &World, path: &str) -> Result<()> {
    let mut object = world.kube.get(path)?;
    world.allow_deletion(path)?;
    world.kube.delete(path)?;
    world.kube.merge(path, &json!({"metadata": {"finalizers": null}}))?;
    until("the object to be gone", || {
        ensure!(world.kube.find(path)?.is_none());
        Ok(())
    })?;
    let meta = object["metadata"].as_object_mut().context("metadata")?;
    meta.retain(|k, _| ["name", "namespace", "labels", "annotations", "finalizers"].contains(&k.as_str()));
    object.as_object_mut().context("an object")?.remove("status");
    let collection = path.rsplit_once('/').context("a path")?.0;
    world.kube.create(collection, &object).map(|_| ())
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}
