//! Reads a `ClusterAccess`, holds it while it gives anything, and writes its status.

use crate::context::Context;
use berth_api::{ClusterAccess, labels};
use berth_kubeio::{IoError, ResourceRef, patch_finalizers, write_status};
use berth_plan_cluster::users::{self, refusal, status};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use kube::Resource as _;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// When one that is deleted is looked at again, while a tenant is being visited.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// Likewise, while a tenant is not known.
const LATER: SignedDuration = SignedDuration::from_secs(30);

/// Ok: when to look again, if nothing happens.
pub(super) async fn tend(ctx: &Context, key: &ObjectKey) -> Result<Option<SignedDuration>, IoError> {
    let Some(live) = ctx.io.get(key).await? else {
        ctx.users.table.lock().gone(key);
        return Ok(None);
    };
    let Some(mut access) = read(ctx, key, &live) else { return Ok(None) };
    let resource = ResourceRef::of(Kind::ClusterAccess, &access);
    let finalizers = access.metadata.finalizers.clone().unwrap_or_default();
    let is_held = finalizers.iter().any(|finalizer| finalizer == labels::FINALIZER);
    let is_deleted = access.metadata.deletion_timestamp.is_some();
    if !is_held && !is_deleted {
        let all = [finalizers.as_slice(), &[labels::FINALIZER.to_owned()]].concat();
        let written = patch_finalizers(&ctx.io, &resource, &all).await?;
        access = serde_json::from_value(written).unwrap_or(access);
    }
    if ctx.users.table.lock().read(key, Some(Arc::new(access.clone())), Instant::now()) {
        // Its tenants are visited first.
        return Ok(None);
    }
    let told = ctx.users.table.lock().told(key);
    if is_deleted && !told.is_held {
        if is_held {
            let left: Vec<String> = finalizers.into_iter().filter(|f| f != labels::FINALIZER).collect();
            patch_finalizers(&ctx.io, &resource, &left).await?;
        }
        return Ok(None);
    }
    let platform = ctx.settings.service_account.as_ref().map(|(namespace, _)| namespace.as_str());
    let refusal = refusal(&access, &ctx.settings.writers, platform);
    let new = status(&access, refusal, &told.all, &told.missing, ctx.now());
    let resource = ResourceRef::of(Kind::ClusterAccess, &access);
    if write_status(&ctx.io, &resource, access.status.as_ref(), &new).await? {
        let old = access.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        ctx.events.transitions(&access.object_ref(&()), old, &new.conditions).await;
    }
    let held_by = told.all.iter().any(|(_, outcome)| !outcome.message.is_empty());
    Ok(is_deleted.then_some(if told.settles { SOON } else { LATER }).filter(|_| told.settles || !held_by))
}

/// None: this build cannot read it. It stays as it is, and so does what it gave until it is deleted or over.
fn read(ctx: &Context, key: &ObjectKey, live: &Value) -> Option<ClusterAccess> {
    match users::read(live) {
        Ok(access) => Some(access),
        Err(error) => {
            tracing::warn!(%error, of = %key, "this version of Berth cannot read it, and changes nothing of what it gave until it is deleted or over");
            ctx.users.table.lock().read(key, None, Instant::now());
            None
        }
    }
}
