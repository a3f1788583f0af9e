//! The pool of local volumes: directories that are offered as PersistentVolumes, wiped after use and offered again.
//!
//! kubelet applies `fsGroup` to `local` volumes and not to hostPath, and etcd runs as non-root: hence `local`.

use std::{
    collections::BTreeMap,
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use serde_json::json;

use super::Next;
use crate::{addons::STORAGE_CLASS, files, layout::Layout, mounts, node::FIRST, state::State};

/// What to do with one volume of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Keep,
    /// Released: wipe it, then delete the object. The next reconcile finds it absent.
    Recycle,
    /// Absent: wipe it again (nobody knows at which step the last supervisor was killed), then offer it.
    Offer,
}

/// Brings every volume of the pool one step on.
pub(super) async fn reconcile(client: &Client, layout: &Layout, state: &State) -> Result<Next> {
    let api = Api::<PersistentVolume>::all(client.clone());
    let existing: BTreeMap<String, PersistentVolume> =
        api.list(&ListParams::default()).await?.items.into_iter().map(|pv| (pv.name_any(), pv)).collect();
    let mut next = Next::OnChange;
    for number in 1..=state.volumes {
        let name = format!("local-{number:02}");
        let pv = existing.get(&name);
        let step = step(pv);
        if step == Step::Keep {
            continue;
        }
        // A pod that was deleted by force may still run; its volume is wiped when kubelet has let go of it.
        if mounts::is_source(&layout.volume(&name))? {
            next = Next::Soon;
            continue;
        }
        wipe(layout, &name)?;
        match (step, pv) {
            (Step::Recycle, Some(pv)) => delete(&api, pv).await?,
            (Step::Offer, _) => create(&api, layout, &name, node_of(number, state.nodes)).await?,
            _ => {}
        }
    }
    files::remove(&trash(layout))?;
    Ok(next)
}

/// The node on which a volume is: they take turns.
fn node_of(volume: u16, nodes: u8) -> u8 {
    let turn = volume.saturating_sub(1) % u16::from(nodes.max(1));
    FIRST + u8::try_from(turn).unwrap_or(0)
}

fn step(pv: Option<&PersistentVolume>) -> Step {
    let Some(pv) = pv else { return Step::Offer };
    let phase = pv.status.as_ref().and_then(|status| status.phase.as_deref());
    // Whoever sets Retain on a volume wants to look at the data, as with any other driver.
    let retained = pv.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()) == Some("Retain");
    let being_deleted = pv.metadata.deletion_timestamp.is_some();
    match phase {
        Some("Released" | "Failed") if !retained && !being_deleted => Step::Recycle,
        _ => Step::Keep,
    }
}

async fn delete(api: &Api<PersistentVolume>, pv: &PersistentVolume) -> Result<()> {
    let preconditions = Preconditions { uid: pv.uid(), resource_version: pv.resource_version() };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&pv.name_any(), &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(e)) if e.is_not_found() || e.is_conflict() => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot delete the volume {}", pv.name_any())),
    }
}

async fn create(api: &Api<PersistentVolume>, layout: &Layout, name: &str, node: u8) -> Result<()> {
    let pv: PersistentVolume = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            // Says that somebody else carries out the policy Delete; without it the volume would be marked Failed.
            "annotations": {"pv.kubernetes.io/provisioned-by": "devcluster"}
        },
        "spec": {
            "storageClassName": STORAGE_CLASS,
            // Nominal: it is a directory of the machine's disk.
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": layout.volume(name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{
                "key": "kubernetes.io/hostname", "operator": "In", "values": [layout.node(node).name()]
            }]}]}}
        }
    }))?;
    match api.create(&PostParams::default(), &pv).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(e)) if e.is_already_exists() => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot offer the volume {name}")),
    }
}

/// Replaces the directory by an empty one; what was in it is moved aside, so that it takes no time, and removed later.
fn wipe(layout: &Layout, name: &str) -> Result<()> {
    let directory = layout.volume(name);
    if directory.exists() {
        let unique = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        files::create_dir(&trash(layout))?;
        let aside = trash(layout).join(format!("{name}-{unique}"));
        fs::rename(&directory, &aside).with_context(|| format!("cannot move {} aside", directory.display()))?;
    }
    files::create_dir(&directory)
}

fn trash(layout: &Layout) -> std::path::PathBuf {
    layout.dir.join("trash")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pv: &serde_json::Value, expected: Step) {
        let pv: PersistentVolume = serde_json::from_value(pv.clone()).unwrap();
        assert_eq!(step(Some(&pv)), expected, "{pv:?}");
    }

    #[test]
    fn nodes_take_turns() {
        let nodes = |count| (1..=5).map(|volume| node_of(volume, count)).collect::<Vec<_>>();
        assert_eq!(nodes(1), [1, 1, 1, 1, 1]);
        assert_eq!(nodes(3), [1, 2, 3, 1, 2]);
    }

    #[test]
    fn only_released_volumes_are_recycled() {
        assert_eq!(step(None), Step::Offer);
        let pv = |phase: &str, policy: &str| json!({"metadata": {"name": "x"}, "spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase}});
        check(&pv("Available", "Delete"), Step::Keep);
        check(&pv("Bound", "Delete"), Step::Keep);
        check(&pv("Released", "Delete"), Step::Recycle);
        check(&pv("Failed", "Delete"), Step::Recycle);
        check(&pv("Released", "Retain"), Step::Keep);
        let mut deleting = pv("Released", "Delete");
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        check(&deleting, Step::Keep);
    }
}
