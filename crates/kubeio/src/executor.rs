//! Carrying out plans: every write to the meta cluster and inside a tenant is made here, behind the fence of its client.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::observe::{Snapshot, take_data};
use crate::secrets;
use base64::Engine;
use berth_api::labels;
use berth_pki::Clocks;
use berth_plan::objects::diff::drift;
use berth_plan::observed::{ApiProbe, Published, sha256, uid};
use berth_plan::{Action, Addition, EtcdAnswer, EtcdCall, EtcdCallResult, Plan, StageId};
use berth_render::{Kind, Object, ObjectKey};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a reconcile may wait for calls that fail: an API server that hangs costs no more than that. It is four deadlines of a write, so that a
/// webhook which hangs for all Deployments of a tenant holds up nothing else of it.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Waits for a right that was given a moment ago, one after the other; a reconcile makes them once (ADR 15).
const WAITS: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400)];

/// How far a plan was carried out.
#[derive(Debug, Default)]
pub struct Applied {
    /// Actions that were carried out.
    pub done: usize,
    /// The first failure, of this round or an earlier one of the reconcile.
    pub failure: Option<IoError>,
    /// What an action did shows only when everything is observed again.
    pub observe_again: bool,
    /// A failure ended the round before all stages were tried.
    ended: bool,
}

impl Applied {
    /// Whether another plan from the same snapshot can get further: what failed holds up nothing but its own stage.
    pub fn can_continue(&self) -> bool {
        !self.observe_again && (self.failure.is_none() || (self.done > 0 && !self.ended))
    }
}

/// Whether a failure is about its own object: by rights, admission, or a webhook that does not answer. Anything else is about the
/// whole reconcile: the lease is lost, or what was observed is no longer so. `waited`: how long it waited for what then failed so.
fn ends_its_stage_alone(kind: ErrorKind, waited: Duration) -> bool {
    match kind {
        ErrorKind::Forbidden | ErrorKind::Rejected => true,
        ErrorKind::Transient => waited < MAX_WAIT,
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Fenced | ErrorKind::Refused | ErrorKind::Other => false,
    }
}

/// It was not even sent.
fn is_fenced<T>(answer: &Result<T, IoError>) -> bool {
    answer.as_ref().is_err_and(|e| e.kind == ErrorKind::Fenced)
}

/// Calls an etcd, through the member of that name. The error says what etcd, or the network, said.
pub struct CallEtcd(pub CallThrough);

/// What [`CallEtcd`] calls.
pub type CallThrough = Box<dyn Fn(String, EtcdCall) -> BoxFuture<'static, Result<EtcdAnswer, String>> + Send + Sync>;

impl std::fmt::Debug for CallEtcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallEtcd")
    }
}

/// Carries out the plans of one reconcile, round after round, and remembers what it did meanwhile.
#[derive(Debug)]
pub struct Executor<'a> {
    meta: &'a Io,
    tenant: Option<&'a Io>,
    etcd: Option<&'a CallEtcd>,
    manager: &'static str,
    clocks: Clocks,
    /// What was applied, with digests: nothing of it is sent again.
    sent: BTreeSet<(ObjectKey, String)>,
    /// Stages that are not tried again, since a write of theirs failed, after so long. None: what is pruned.
    postponed: Vec<(Option<StageId>, IoError, Duration)>,
    waits: std::array::IntoIter<Duration, 4>,
    /// What was refused inside the tenant led to a read of what is there.
    found_obstacle: bool,
    wrote: bool,
    /// What was taken away from objects, for people.
    removed: Vec<String>,
}

impl<'a> Executor<'a> {
    /// For one reconcile. `tenant`: the connection to the tenant's API, if it answered; `manager`: the field manager.
    pub fn new(meta: &'a Io, tenant: Option<&'a Io>, manager: &'static str, clocks: Clocks) -> Self {
        let (sent, postponed, waits) = (BTreeSet::new(), vec![], WAITS.into_iter());
        Self {
            meta,
            tenant,
            etcd: None,
            manager,
            clocks,
            sent,
            postponed,
            waits,
            found_obstacle: false,
            wrote: false,
            removed: vec![],
        }
    }

    /// With what calls an etcd, if that can be asked.
    #[must_use]
    pub fn with_etcd(self, etcd: Option<&'a CallEtcd>) -> Self {
        Self { etcd, ..self }
    }

    /// Whether anything was written.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// What was taken away that others had added to objects, in sentences.
    pub fn removed(self) -> Vec<String> {
        self.removed
    }

    /// Carries out what the plan says. The answers are put into the snapshot, so that the next plan builds on them without another
    /// read.
    ///
    /// What fails ends its stage: later actions of it may build on the one that failed, so a record that has to be there before a
    /// call that cannot be repeated is an action before it in the same stage. Other stages go on where the failure is about its own
    /// object: a plan is made from what was observed, so no stage builds on what another one writes in the same round. Only on the
    /// namespace, with the tenant's isolation, everything builds. A right that was given a moment ago is waited for, less than a
    /// second in a reconcile (ADR 15).
    pub async fn apply(&mut self, snapshot: &mut Snapshot, plan: &Plan) -> Applied {
        let mut applied = Applied::default();
        let stages = plan.stages.iter().map(|s| (Some(s.id), &s.actions));
        for (stage, actions) in stages.chain([(None, &plan.prune)]) {
            if let Some((_, error, _)) = self.postponed.iter().find(|(postponed, ..)| *postponed == stage) {
                applied.failure.get_or_insert_with(|| error.clone());
                continue;
            }
            for action in actions {
                tracing::debug!(action = action.describe(), "carry out");
                let began = Instant::now();
                match self.apply_once_granted(snapshot, action).await {
                    Ok(()) => {
                        applied.done += 1;
                        applied.observe_again |= action.shows_later();
                        self.wrote = true;
                    }
                    Err(error) => {
                        // What was in the way is seen by now: the next round can get further.
                        applied.done += usize::from(std::mem::take(&mut self.found_obstacle));
                        self.failed(stage, error, began.elapsed(), &mut applied);
                        break;
                    }
                }
            }
            if applied.ended {
                break;
            }
        }
        applied
    }

    /// Takes in what ended a stage, after so long. What is transient postpones it: in another round it would cost its deadline again.
    fn failed(&mut self, stage: Option<StageId>, error: IoError, took: Duration, applied: &mut Applied) {
        if error.kind == ErrorKind::Transient {
            self.postponed.push((stage, error.clone(), took));
        }
        let waited = self.postponed.iter().map(|(_, _, took)| *took).sum();
        applied.ended = stage == Some(StageId::Namespace) || !ends_its_stage_alone(error.kind, waited);
        applied.failure.get_or_insert(error);
    }

    /// One action, again while it needs a right that was given a moment ago, and that the API server does not know yet.
    async fn apply_once_granted(&mut self, snapshot: &mut Snapshot, action: &Action) -> Result<(), IoError> {
        let elsewhere =
            matches!(action, Action::TenantApply(_) | Action::TenantDelete { .. } | Action::PublishKubeconfig { .. });
        loop {
            let result = self.apply_action(snapshot, action).await;
            let forbidden = result.as_ref().is_err_and(|e| e.kind == ErrorKind::Forbidden);
            if !forbidden || elsewhere || !snapshot.rights_are_recent(self.clocks.now) {
                return result;
            }
            let Some(wait) = self.waits.next() else { return result };
            tokio::time::sleep(wait).await;
        }
    }

    async fn apply_action(&mut self, snapshot: &mut Snapshot, action: &Action) -> Result<(), IoError> {
        let (io, manager) = (self.meta, self.manager);
        match action {
            Action::Apply(object) => {
                if self.was_applied(object, snapshot.observed.get(object.key()))? {
                    return Ok(());
                }
                match io.apply(object, manager).await {
                    Ok(live) => {
                        self.sent.insert(sent(object));
                        snapshot.put(object.key().kind, live);
                    }
                    // The next plan does without.
                    Err(e) if refuses_address(&e, object) => {
                        snapshot.observed.refused_addresses.insert(object.key().clone());
                    }
                    Err(e) => return Err(e),
                }
            }
            Action::RemoveAdditions { object, uid, resource_version, managed_fields, additions } => {
                let key = object.key();
                if snapshot.observed.get(key).is_none_or(|live| live["metadata"]["managedFields"] != *managed_fields) {
                    let owned =
                        json!({"uid": uid, "resourceVersion": resource_version, "managedFields": managed_fields});
                    io.merge(key, "", &format!("fieldManager={manager}"), &json!({"metadata": owned})).await?;
                }
                let live = io.apply(object, manager).await?;
                self.sent.insert(sent(object));
                snapshot.put(key.kind, live);
                let what = Addition::list(additions);
                self.removed.push(format!("Berth removed from {key} what it does not set: {what}"));
            }
            Action::Create(object) => {
                let live = io.create(object.key(), object.value(), manager).await?;
                snapshot.put(object.key().kind, live);
            }
            Action::Secret(plan) => {
                let live = secrets::write(io, snapshot, plan, manager, self.clocks).await?;
                snapshot.put(Kind::Secret, live);
            }
            Action::Delete { key, uid, grace } => {
                io.delete(key, uid, *grace).await?;
            }
            Action::Scale { key, uid, replicas } => {
                let patch = json!({"metadata": {"uid": uid}, "spec": {"replicas": replicas}});
                match io.merge(key, "", &format!("fieldManager={manager}"), &patch).await {
                    Ok(live) => snapshot.put(key.kind, live),
                    Err(e) if e.kind == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            Action::MarkDamaged { key, uid, resource_version, status } => {
                let patch = json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status});
                let live = io.merge(key, "/status", "fieldManager=berth-status", &patch).await?;
                snapshot.put(key.kind, live);
            }
            Action::GrowVolume { key, uid, size } => {
                let patch = json!({"metadata": {"uid": uid}, "spec": {"resources": {"requests": {"storage": size}}}});
                let live = io.merge(key, "", &format!("fieldManager={manager}"), &patch).await?;
                snapshot.put(key.kind, live);
            }
            Action::ClearOwnerReferences { key, uid } => {
                let patch = json!({"metadata": {"uid": uid, "ownerReferences": null}});
                let live = io.merge(key, "", &format!("fieldManager={manager}"), &patch).await?;
                snapshot.put(key.kind, live);
            }
            Action::TenantApply(object) => {
                let tenant = self.tenant(action)?;
                if let ApiProbe::Answered { read, .. } = &snapshot.observed.api
                    && self.was_applied(object, read.get(object.key()).flatten())?
                {
                    return Ok(());
                }
                let applied = tenant.apply(object, labels::MANAGER_CLUSTER).await;
                // What is there may be in its way, and of most that is inside a plan sees nothing: the next one sees this.
                if applied.as_ref().is_err_and(|e| e.kind == ErrorKind::Rejected)
                    && let Ok(live) = tenant.get(object.key()).await
                {
                    self.found_obstacle = put_tenant_object(snapshot, object.key(), live);
                }
                let live = applied?;
                self.sent.insert(sent(object));
                put_tenant_object(snapshot, object.key(), Some(live));
            }
            Action::TenantDelete { key, uid } => {
                self.tenant(action)?.delete(key, uid, None).await?;
                put_tenant_object(snapshot, key, None);
            }
            Action::ChangeMembers { via, change, .. } => {
                self.call_etcd(action, via, EtcdCall::Change(change.clone())).await?;
            }
            Action::Maintain { via, what, .. } => {
                let call = EtcdCall::Maintain(what.clone());
                let answer = self.call_etcd(action, via, call.clone()).await;
                let told = EtcdCallResult::new(via, call, &answer);
                snapshot.observed.told.extend(Some(told).filter(|_| !is_fenced(&answer)));
                answer?;
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

    async fn call_etcd(&self, action: &Action, via: &str, call: EtcdCall) -> Result<EtcdAnswer, IoError> {
        let failed = |kind, message| IoError::new(kind, action.describe(), message);
        let etcd = self.etcd.ok_or_else(|| failed(ErrorKind::Other, "no connection to etcd".to_owned()))?;
        self.meta.client().fence().check().map_err(|closed| failed(ErrorKind::Fenced, closed.to_string()))?;
        (etcd.0)(via.to_owned(), call).await.map_err(|why| failed(ErrorKind::Transient, why))
    }

    /// Whether it was applied in this reconcile. Err: the live object differs from what was sent, so sending it again cannot help.
    fn was_applied(&self, object: &Object, live: Option<&Value>) -> Result<bool, IoError> {
        let Some(live) = live.filter(|_| self.sent.contains(&sent(object))) else { return Ok(false) };
        let Some(difference) = drift(live, object) else { return Ok(true) };
        let why = format!("a mutating webhook or policy changes what Berth writes: {difference}");
        Err(IoError::new(ErrorKind::Rejected, format!("apply {}", object.key()), why))
    }

    fn tenant(&self, action: &Action) -> Result<&'a Io, IoError> {
        self.tenant.ok_or_else(|| IoError::new(ErrorKind::Other, action.describe(), "no connection to the tenant"))
    }
}

/// Whether the address or the port of nodes that a Service asks for is not to be had: it has another owner by now, or lies in no range.
fn refuses_address(error: &IoError, service: &Object) -> bool {
    let asked = service.key().kind == Kind::Service
        && (service.value()["spec"]["clusterIP"].is_string() || service.get("/spec/ports/0/nodePort").is_some());
    let about = ["spec.clusterIP", "nodePort"].iter().any(|field| error.message.contains(field));
    asked && error.kind == ErrorKind::Rejected && about
}

fn sent(object: &Object) -> (ObjectKey, String) {
    (object.key().clone(), object.digest())
}

/// Takes in what is inside the tenant under that key. True if it is something that was not known.
fn put_tenant_object(snapshot: &mut Snapshot, key: &ObjectKey, live: Option<Value>) -> bool {
    let ApiProbe::Answered { read, .. } = &mut snapshot.observed.api else { return false };
    let is_there = live.is_some();
    let was_known = matches!(read.insert(key.clone(), live), Some(Some(_)));
    is_there && !was_known
}

#[cfg(test)]
mod tests;
