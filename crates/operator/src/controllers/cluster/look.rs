//! Looks into a tenant for what stands in the way of its next minor, and at the answers of its API servers while a canary serves.

use crate::context::Context;
use crate::memory;
use berth_api::cluster::Cluster;
use berth_kubeio::{Io, Snapshot, TenantTarget, answers, look as look_into};
use berth_plan::asked::Look;
use berth_plan_cluster::{AdmissionLook, Input, admission_look, answers_request, falls_asleep, look_request};
use jiff::Timestamp;
use std::sync::Arc;

/// Puts what it finds into the snapshot; what was found before is there already.
pub(super) async fn look(
    ctx: &Context,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    (target, tenant): (&TenantTarget, &Io),
    now: Timestamp,
) {
    let input = Input { object: cluster, observed: &snapshot.observed, settings: &ctx.settings, now };
    if let Some(asked) = answers_request(input) {
        snapshot.observed.answers = answers(&ctx.connect, target, &asked, &ctx.tenant_calls).await;
        return;
    }
    let Some(asked) = look_request(input) else { return };
    if ctx.looks.is_fresh(&snapshot.observed.look, asked.begins, now) {
        return;
    }
    let facts = Arc::new(look_into(&ctx.connect, target, tenant, &asked, &ctx.tenant_calls, now).await);
    ctx.looks.put(cluster, facts.clone());
    snapshot.observed.look = Look::Taken(facts);
}

/// Looks at webhooks that hold up the wake, where it is about to sleep. What is not known then holds up nothing.
pub(super) async fn look_at_webhooks(
    ctx: &Context,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    tenant: &Io,
    now: Timestamp,
) {
    if falls_asleep(Input { object: cluster, observed: &snapshot.observed, settings: &ctx.settings, now }) {
        snapshot.observed.webhooks = berth_kubeio::all_webhooks(tenant).await.unwrap_or_default();
    }
}

/// Looks at what keeps writes in the tenant from going through, where something is wrong there.
pub(super) async fn look_at_admission(
    ctx: &Context,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    tenant: &Io,
    now: Timestamp,
) {
    let uid = memory::uid(cluster);
    snapshot.observed.admission = ctx.admission.get(uid);
    let input = Input { object: cluster, observed: &snapshot.observed, settings: &ctx.settings, now };
    match admission_look(input) {
        AdmissionLook::Known => {}
        AdmissionLook::Not => {
            ctx.admission.forget(uid);
            snapshot.observed.admission = None;
        }
        AdmissionLook::Due => {
            let before = snapshot.observed.admission.take();
            let found = Arc::new(berth_kubeio::look_at_admission(tenant, before.as_deref(), now).await);
            ctx.admission.put(uid, found.clone(), now);
            snapshot.observed.admission = Some(found);
        }
    }
}
