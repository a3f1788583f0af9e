//! Garbage collection by owner references: background, foreground and orphan.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;

use super::context::{Context, terminating};
use super::store::kind_name;

type Owned = (String, Arc<DynamicObject>);

pub(super) async fn reconcile(context: &Context) -> bool {
    let all = context.store.all();
    let by_uid: BTreeMap<String, Arc<DynamicObject>> =
        all.iter().filter_map(|(_, o)| Some((o.uid()?, o.clone()))).collect();
    let covered = |o: &DynamicObject| o.namespace().is_some_and(|ns| context.covers(&ns));
    let mut dependents = BTreeMap::<String, Vec<Owned>>::new();
    let mut busy = false;
    for (kind, object) in all.iter().filter(|(_, o)| covered(o)) {
        let owners = object.owner_references();
        for owner in owners {
            dependents.entry(owner.uid.clone()).or_default().push((kind.clone(), object.clone()));
        }
        if owners.is_empty() || terminating(object) {
            continue;
        }
        let mut alive = false;
        for owner in owners {
            alive |= exists(context, &by_uid, object, owner).await;
        }
        if !alive {
            context.delete(kind, object, None).await;
            busy = true;
        }
    }
    for (kind, owner) in all.iter().filter(|(_, o)| covered(o) && terminating(o)) {
        let owned = owner.uid().and_then(|uid| dependents.get(&uid)).map_or(&[][..], Vec::as_slice);
        busy |= release(context, kind, owner, owned).await;
    }
    busy
}

/// Whether the owner is there: what the store does not know (yet) is asked for. An owner in another namespace counts as
/// absent, as it does for the real collector.
async fn exists(
    context: &Context,
    by_uid: &BTreeMap<String, Arc<DynamicObject>>,
    object: &DynamicObject,
    owner: &OwnerReference,
) -> bool {
    if let Some(known) = by_uid.get(&owner.uid) {
        return known.namespace().is_none() || known.namespace() == object.namespace();
    }
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = kind_name(group, &owner.kind);
    if context.store.resource(&kind).is_none() {
        // A kind that the world does not follow: never take what it may own.
        return true;
    }
    let namespace = if kind == "Namespace" { String::new() } else { object.namespace().unwrap_or_default() };
    match context.api(&kind, &namespace).get_opt(&owner.name).await {
        Ok(found) => found.is_some_and(|found| found.uid().as_deref() == Some(&owner.uid)),
        Err(_) => true,
    }
}

/// The two finalizers of the collector on a terminating owner.
async fn release(context: &Context, kind: &str, owner: &DynamicObject, dependents: &[Owned]) -> bool {
    let has = |finalizer: &str| owner.finalizers().iter().any(|f| f == finalizer);
    let without = |finalizer: &str| owner.finalizers().iter().filter(|f| *f != finalizer).cloned().collect::<Vec<_>>();
    if has("foregroundDeletion") {
        for (kind, object) in dependents.iter().filter(|(_, o)| !terminating(o)) {
            context.delete(kind, object, None).await;
        }
        let blocks = |o: &DynamicObject| {
            let mine = |r: &OwnerReference| Some(&r.uid) == owner.metadata.uid.as_ref();
            o.owner_references().iter().any(|r| mine(r) && r.block_owner_deletion == Some(true))
        };
        if !dependents.iter().any(|(_, o)| blocks(o)) {
            context.patch(kind, owner, json!({"metadata": {"finalizers": without("foregroundDeletion")}})).await;
        }
        return true;
    }
    if has("orphan") {
        for (kind, object) in dependents {
            let mine = |r: &&OwnerReference| Some(&r.uid) != owner.metadata.uid.as_ref();
            let rest: Vec<_> = object.owner_references().iter().filter(mine).collect();
            context.patch(kind, object, json!({"metadata": {"ownerReferences": rest}})).await;
        }
        if dependents.is_empty() {
            context.patch(kind, owner, json!({"metadata": {"finalizers": without("orphan")}})).await;
        }
        return true;
    }
    false
}
