//! Carrying out a plan's actions, in their order, and taking in what the API server answers.

use crate::calls::Io;
use crate::error::{IoError, Kindred};
use crate::observe::{Snapshot, take_data};
use crate::secrets;
use base64::Engine;
use berth_api::labels;
use berth_plan::observed::{ApiProbe, Published, sha256, uid};
use berth_plan::{Action, Component, Plan};
use berth_render::Kind;
use jiff::Timestamp;
use serde_json::json;

/// How far a plan was carried out.
#[derive(Debug, Default)]
pub struct Carried {
    /// Writes that were made.
    pub done: usize,
    /// The first that failed.
    pub failure: Option<IoError>,
}

impl Carried {
    /// Whether another round can get further: what failed was refused, and holds up nothing but its own stage.
    pub fn goes_on(&self) -> bool {
        self.failure.as_ref().is_none_or(|e| self.done > 0 && refused(e))
    }
}

/// Carries out what the plan says. The answers are put into the snapshot, so that the next plan builds on them without
/// another read.
///
/// What is refused ends its stage, since later actions of it may build on the one that failed, and other stages go on. Only on the
/// namespace, with the tenant's isolation, everything builds. Any other failure ends it all. A right that was given a moment ago is
/// waited for, less than a second in a pass (ADR 15).
pub async fn carry_out(
    io: &Io,
    tenant: Option<&Io>,
    snapshot: &mut Snapshot,
    plan: &Plan,
    manager: &str,
    now: Timestamp,
) -> Carried {
    let mut carried = Carried::default();
    let stages = plan.stages.iter().map(|s| (s.component != Component::Namespace, &s.actions));
    for (apart, actions) in stages.chain([(true, &plan.prune)]) {
        for action in actions {
            tracing::debug!(action = action.describe(), "carry out");
            let mut result = one(io, tenant, snapshot, action, manager, now).await;
            while result.as_ref().is_err_and(|e| on_its_way(e, action, snapshot, now)) {
                let Some(wait) = snapshot.next_wait() else { break };
                io.patiently(tokio::time::sleep(wait)).await;
                result = one(io, tenant, snapshot, action, manager, now).await;
            }
            let Err(error) = result else {
                carried.done += 1;
                continue;
            };
            let ends_all = !apart || !refused(&error);
            carried.failure.get_or_insert(error);
            if ends_all {
                return carried;
            }
            break;
        }
    }
    carried
}

/// A right that was given a moment ago, and that the API server does not know yet.
fn on_its_way(error: &IoError, action: &Action, snapshot: &Snapshot, now: Timestamp) -> bool {
    let elsewhere = matches!(action, Action::TenantApply(_) | Action::PublishKubeconfig { .. });
    error.kind == Kindred::Forbidden && !elsewhere && snapshot.rights_are_young(now)
}

/// By rights or admission: about this object, and nothing that waiting helps.
fn refused(error: &IoError) -> bool {
    matches!(error.kind, Kindred::Forbidden | Kindred::Rejected)
}

async fn one(
    io: &Io,
    tenant: Option<&Io>,
    snapshot: &mut Snapshot,
    action: &Action,
    manager: &str,
    now: Timestamp,
) -> Result<(), IoError> {
    match action {
        Action::Apply(object) => {
            let live = io.apply(object, manager).await?;
            snapshot.put(object.key().kind, live);
        }
        Action::Create(object) => {
            let live = io.create(object.key(), object.value(), manager).await?;
            snapshot.put(object.key().kind, live);
        }
        Action::Secret(plan) => {
            let live = secrets::write(io, snapshot, plan, manager, now).await?;
            snapshot.put(Kind::Secret, live);
        }
        Action::Delete { key, uid, grace } => {
            io.delete(key, uid, *grace).await?;
            // It is gone, or on its way; the next pass sees which.
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
            let Some(tenant) = tenant else {
                return Err(IoError::new(Kindred::Other, action.describe(), "no connection to the tenant"));
            };
            let live = tenant.apply(object, labels::MANAGER_CLUSTER).await?;
            if let ApiProbe::Answered { read, .. } = &mut snapshot.observed.api {
                read.insert(object.key().clone(), Some(live));
            }
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
