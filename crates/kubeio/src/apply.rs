//! Carrying out a plan's actions, in their order, and taking in what the API server answers.

use crate::calls::Io;
use crate::error::{IoError, Kindred};
use crate::observe::{Postponed, Snapshot, take_data};
use crate::secrets;
use base64::Engine;
use berth_api::labels;
use berth_pki::Clocks;
use berth_plan::diff::drift;
use berth_plan::observed::{ApiProbe, Published, sha256, uid};
use berth_plan::{Action, Plan, StageId};
use berth_render::{Kind, Object, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How far a plan was carried out.
#[derive(Debug, Default)]
pub struct Carried {
    /// Writes that were made.
    pub done: usize,
    /// The first that failed, in this round or an earlier one of the pass.
    pub failure: Option<IoError>,
    /// A failure ended the round before all stages were tried.
    ended: bool,
}

/// How long a pass may wait in vain: an API server that hangs costs no more than that. It is four deadlines of a write, so that a webhook which
/// hangs for all Deployments of a tenant holds up nothing else of it.
const IN_VAIN: Duration = Duration::from_secs(20);

impl Carried {
    /// Whether another round can get further: what failed holds up nothing but its own stage.
    pub fn goes_on(&self) -> bool {
        self.failure.is_none() || (self.done > 0 && !self.ended)
    }

    /// Takes in what ended a stage, after so long. What is transient postpones it: in another round it would cost its deadline again.
    fn failed(&mut self, stage: Option<StageId>, error: IoError, took: Duration, postponed: &mut Postponed) {
        if error.kind == Kindred::Transient {
            postponed.push((stage, error.clone(), took));
        }
        let in_vain = postponed.iter().map(|(_, _, took)| *took).sum();
        self.ended = stage == Some(StageId::Namespace) || !ends_its_stage_alone(error.kind, in_vain);
        self.failure.get_or_insert(error);
    }
}

/// Whether a failure is about its own object: by rights, admission, or a webhook that does not answer. Anything else is about the
/// whole pass: the lease is lost, or what was observed is no longer so. `in_vain`: how long the pass waited for what then failed so.
fn ends_its_stage_alone(kind: Kindred, in_vain: Duration) -> bool {
    match kind {
        Kindred::Forbidden | Kindred::Rejected => true,
        Kindred::Transient => in_vain < IN_VAIN,
        Kindred::NotFound | Kindred::Conflict | Kindred::Fenced | Kindred::Other => false,
    }
}

/// Carries out what the plan says. The answers are put into the snapshot, so that the next plan builds on them without
/// another read.
///
/// What fails ends its stage, since later actions of it may build on the one that failed, and other stages go on where
/// it is about its own object: a plan is made from what was observed, so no stage builds on what another one writes in the same
/// round. Only on the namespace, with the tenant's isolation, everything builds. A right that was given a moment ago is waited for,
/// less than a second in a pass (ADR 15).
pub async fn carry_out(
    io: &Io,
    tenant: Option<&Io>,
    snapshot: &mut Snapshot,
    plan: &Plan,
    manager: &str,
    clocks: Clocks,
) -> Carried {
    let mut carried = Carried::default();
    let stages = plan.stages.iter().map(|s| (Some(s.id), &s.actions));
    for (stage, actions) in stages.chain([(None, &plan.prune)]) {
        if let Some((_, error, _)) = snapshot.postponed.iter().find(|(postponed, ..)| *postponed == stage) {
            carried.failure.get_or_insert_with(|| error.clone());
            continue;
        }
        for action in actions {
            tracing::debug!(action = action.describe(), "carry out");
            let began = Instant::now();
            match patiently(io, tenant, snapshot, action, manager, clocks).await {
                Ok(()) => {
                    carried.done += 1;
                    snapshot.wrote = true;
                }
                Err(error) => {
                    // What was in the way is seen by now: the next round can get further.
                    carried.done += usize::from(std::mem::take(&mut snapshot.learnt));
                    carried.failed(stage, error, began.elapsed(), &mut snapshot.postponed);
                    break;
                }
            }
        }
        if carried.ended {
            break;
        }
    }
    carried
}

/// One action, again while it needs a right that is on its way.
async fn patiently(
    io: &Io,
    tenant: Option<&Io>,
    snapshot: &mut Snapshot,
    action: &Action,
    manager: &str,
    clocks: Clocks,
) -> Result<(), IoError> {
    loop {
        let result = one(io, tenant, snapshot, action, manager, clocks).await;
        if !result.as_ref().is_err_and(|e| on_its_way(e, action, snapshot, clocks.now)) {
            return result;
        }
        let Some(wait) = snapshot.next_wait() else { return result };
        tokio::time::sleep(wait).await;
    }
}

/// A right that was given a moment ago, and that the API server does not know yet.
fn on_its_way(error: &IoError, action: &Action, snapshot: &Snapshot, now: Timestamp) -> bool {
    let elsewhere =
        matches!(action, Action::TenantApply(_) | Action::TenantDelete { .. } | Action::PublishKubeconfig { .. });
    error.kind == Kindred::Forbidden && !elsewhere && snapshot.rights_are_young(now)
}

async fn one(
    io: &Io,
    tenant: Option<&Io>,
    snapshot: &mut Snapshot,
    action: &Action,
    manager: &str,
    clocks: Clocks,
) -> Result<(), IoError> {
    match action {
        Action::Apply(object) => {
            if was_applied(snapshot, object, snapshot.observed.get(object.key()))? {
                return Ok(());
            }
            let live = io.apply(object, manager).await?;
            snapshot.sent.insert(sent(object));
            snapshot.put(object.key().kind, live);
        }
        Action::Create(object) => {
            let live = io.create(object.key(), object.value(), manager).await?;
            snapshot.put(object.key().kind, live);
        }
        Action::Secret(plan) => {
            let live = secrets::write(io, snapshot, plan, manager, clocks).await?;
            snapshot.put(Kind::Secret, live);
        }
        Action::Delete { key, uid, grace } => {
            // It is gone, or on its way; the next pass sees which.
            let this = (key.clone(), uid.clone());
            if !snapshot.sent.contains(&this) {
                io.delete(key, uid, *grace).await?;
                snapshot.sent.insert(this);
            }
        }
        Action::Scale { key, uid, replicas } => {
            let patch = json!({"metadata": {"uid": uid}, "spec": {"replicas": replicas}});
            match io.merge(key, "", &format!("fieldManager={manager}"), &patch).await {
                Ok(live) => snapshot.put(key.kind, live),
                Err(e) if e.kind == Kindred::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Action::Disown { key, uid } => {
            let patch = json!({"metadata": {"uid": uid, "ownerReferences": null}});
            let live = io.merge(key, "", &format!("fieldManager={manager}"), &patch).await?;
            snapshot.put(key.kind, live);
        }
        Action::TenantApply(object) => {
            let tenant = way_in(tenant, action)?;
            if let ApiProbe::Answered { read, .. } = &snapshot.observed.api
                && was_applied(snapshot, object, read.get(object.key()).and_then(Option::as_ref))?
            {
                return Ok(());
            }
            let applied = tenant.apply(object, labels::MANAGER_CLUSTER).await;
            // What is there may be in its way, and of most that is inside a plan sees nothing: the next one sees this.
            if applied.as_ref().is_err_and(|e| e.kind == Kindred::Rejected)
                && let Ok(live) = tenant.get(object.key()).await
            {
                snapshot.learnt = found_inside(snapshot, object.key(), live);
            }
            let live = applied?;
            snapshot.sent.insert(sent(object));
            found_inside(snapshot, object.key(), Some(live));
        }
        Action::TenantDelete { key, uid } => {
            way_in(tenant, action)?.delete(key, uid, None).await?;
            found_inside(snapshot, key, None);
        }
        Action::PublishKubeconfig { key, source, labels } => {
            let value = snapshot.secret(source, "value").unwrap_or_default().to_vec();
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": labels::CAPI_SECRET_TYPE,
                "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
                "data": {"value": base64::engine::general_purpose::STANDARD.encode(&value)},
            });
            let mut live = match &snapshot.observed.published {
                Published::Ours { uid, .. } => {
                    let patch = json!({"metadata": {"uid": uid, "labels": labels}, "data": secret["data"]});
                    io.merge(key, "", &format!("fieldManager={manager}"), &patch).await?
                }
                _ => io.create(key, &secret, manager).await?,
            };
            let written = take_data(&mut live);
            snapshot.observed.published = Published::Ours {
                uid: uid(&live).to_owned(),
                value_sha256: written.get("value").map(|v| sha256(v)).unwrap_or_default(),
                labels: labels.clone(),
            };
        }
    }
    Ok(())
}

fn sent(object: &Object) -> (ObjectKey, String) {
    (object.key().clone(), object.digest())
}

/// Whether it was applied in this pass. Err: what is there since is not that; again and again it would be the same.
fn was_applied(snapshot: &Snapshot, object: &Object, live: Option<&Value>) -> Result<bool, IoError> {
    let Some(live) = live.filter(|_| snapshot.sent.contains(&sent(object))) else { return Ok(false) };
    let Some(difference) = drift(live, object) else { return Ok(true) };
    let why = format!("something changes it on its way, such as a mutating webhook or policy: {difference}");
    Err(IoError::new(Kindred::Rejected, format!("apply {}", object.key()), why))
}

fn way_in<'a>(tenant: Option<&'a Io>, action: &Action) -> Result<&'a Io, IoError> {
    tenant.ok_or_else(|| IoError::new(Kindred::Other, action.describe(), "no connection to the tenant"))
}

/// Takes in what is inside the tenant under that key. True if nothing was known of it.
fn found_inside(snapshot: &mut Snapshot, key: &ObjectKey, live: Option<Value>) -> bool {
    match &mut snapshot.observed.api {
        ApiProbe::Answered { read, .. } => read.insert(key.clone(), live).is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
