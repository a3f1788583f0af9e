//! Carrying out plans: every write to the meta cluster and inside a tenant is made here, behind the fence of its client.

mod in_tenant;

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::observe::ours;
use crate::registration;
use crate::secrets;
use crate::snapshot::Snapshot;
use crate::tenant::told;
use base64::Engine;
use berth_api::labels;
use berth_pki::Clocks;
use berth_plan::object_meta::uid;
use berth_plan::objects::changed::Admission;
use berth_plan::objects::service_address::RefusedAddress;
use berth_plan::objects::{changed, diff};
use berth_plan::observed::{ApiProbe, Published, Registered};
use berth_plan::settings::MayChange;
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

/// Waits for the address of a Service that was deleted a moment ago, one after the other.
const RELEASED: [Duration; 3] = [Duration::from_millis(300), Duration::from_millis(700), Duration::from_secs(2)];

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

/// A stage, the same from round to round. None: what is pruned.
type StageOf = Option<(StageId, Option<ObjectKey>)>;

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
    /// Stages that are not tried again, since a write of theirs failed, after so long.
    postponed: Vec<(StageOf, IoError, Duration)>,
    waits: std::array::IntoIter<Duration, 4>,
    /// What was refused inside the tenant led to a read of what is there.
    found_obstacle: bool,
    /// An Event in the tenant failed.
    takes_no_events: bool,
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
            takes_no_events: false,
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
        let stages = plan.stages.iter().map(|s| (Some((s.id, s.of.clone())), &s.actions));
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
                        self.failed(stage.clone(), error, began.elapsed(), &mut applied);
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
    fn failed(&mut self, stage: StageOf, error: IoError, took: Duration, applied: &mut Applied) {
        let is_namespace = stage.as_ref().is_some_and(|(id, _)| *id == StageId::Namespace);
        if error.kind == ErrorKind::Transient {
            self.postponed.push((stage, error.clone(), took));
        }
        let waited = self.postponed.iter().map(|(_, _, took)| *took).sum();
        applied.ended = is_namespace || !ends_its_stage_alone(error.kind, waited);
        applied.failure.get_or_insert(error);
    }

    /// One action, again while it needs a right that was given a moment ago, and that the API server does not know yet.
    async fn apply_once_granted(&mut self, snapshot: &mut Snapshot, action: &Action) -> Result<(), IoError> {
        let in_tenant = action.is_in_tenant();
        let elsewhere = in_tenant || matches!(action, Action::PublishKubeconfig { .. } | Action::Register(_));
        loop {
            let result = self.apply_action(snapshot, action).await.map_err(|e| IoError { in_tenant, ..e });
            let forbidden = result.as_ref().is_err_and(|e| e.kind == ErrorKind::Forbidden);
            let may_pass = forbidden && !elsewhere && snapshot.rights_are_recent(self.clocks.now);
            if !once_more(may_pass, &mut self.waits).await {
                return result;
            }
        }
    }

    async fn apply_action(&mut self, snapshot: &mut Snapshot, action: &Action) -> Result<(), IoError> {
        let (io, manager) = (self.meta, self.manager);
        match action {
            Action::Apply(object) => {
                let by = (Admission::Platform, &*snapshot.observed.meta.may_change);
                if self.was_applied(object, snapshot.observed.get(object.key()), by)? {
                    return Ok(());
                }
                match self.applied(object).await {
                    Ok(live) => {
                        self.sent.insert(sent(object));
                        snapshot.put(object.key().kind, live);
                    }
                    // The next plan does without.
                    Err(e) => {
                        let refused = refused_address(&e, object).ok_or(e)?;
                        snapshot.observed.refused_addresses.entry(object.key().clone()).or_default().and(refused);
                    }
                }
            }
            Action::RemoveAdditions { object, uid, resource_version, managed_fields, additions } => {
                let key = object.key();
                if snapshot.observed.get(key).is_none_or(|live| live["metadata"]["managedFields"] != *managed_fields) {
                    let owned =
                        json!({"uid": uid, "resourceVersion": resource_version, "managedFields": managed_fields});
                    self.merge(key, &json!({"metadata": owned})).await?;
                }
                let live = io.apply(object, manager).await?;
                self.sent.insert(sent(object));
                snapshot.put(key.kind, live);
                let what = Addition::list(additions);
                self.removed.push(format!("Berth removed from {key} what it does not set: {what}"));
            }
            Action::Create(object) => {
                snapshot.put(object.key().kind, io.create(object.key(), object.value(), manager).await?);
            }
            Action::Secret(plan) => {
                snapshot.put(Kind::Secret, secrets::write(io, snapshot, plan, manager, self.clocks).await?);
            }
            Action::Delete { key, uid, grace } => io.delete(key, uid, *grace).await?,
            Action::Scale { key, uid, replicas } => {
                let patch = json!({"metadata": {"uid": uid}, "spec": {"replicas": replicas}});
                match self.merge(key, &patch).await {
                    Ok(live) => snapshot.put(key.kind, live),
                    Err(e) if e.kind == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            Action::MarkDamaged { key, uid, resource_version, status } => {
                let patch = json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status});
                snapshot.put(key.kind, io.merge(key, "/status", "fieldManager=berth-status", &patch).await?);
            }
            Action::GrowVolume { key, uid, size } => {
                let patch = json!({"metadata": {"uid": uid}, "spec": {"resources": {"requests": {"storage": size}}}});
                snapshot.put(key.kind, self.merge(key, &patch).await?);
            }
            Action::ClearOwnerReferences { key, uid } => {
                let patch = json!({"metadata": {"uid": uid, "ownerReferences": null}});
                snapshot.put(key.kind, self.merge(key, &patch).await?);
            }
            Action::TenantApply(object) => self.apply_in_tenant(snapshot, action, object, None).await?,
            Action::TenantApplyUnscaled { object, replicas } => {
                self.apply_in_tenant(snapshot, action, object, Some(*replicas)).await?;
            }
            Action::TenantDelete { key, uid } => {
                self.tenant(action)?.delete(key, uid, None).await?;
                in_tenant::put(snapshot, key, None);
            }
            Action::TenantTell { object, note } => self.tell(snapshot, action, (object, note)).await?,
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
                let live = match &snapshot.observed.published {
                    Published::Ours { uid, .. } => {
                        let patch = json!({"metadata": {"uid": uid, "labels": labels}, "data": secret["data"]});
                        self.merge(key, &patch).await?
                    }
                    _ => io.create(key, &secret, manager).await?,
                };
                snapshot.observed.published = ours(live, labels.clone());
            }
            Action::Register(plan) => {
                // Written once more it would be no other: it is not as it was sent.
                let is_new = self.sent.insert((plan.key.clone(), format!("{plan:?}")));
                snapshot.observed.registered = if is_new {
                    registration::write(io, snapshot, plan, manager).await?
                } else {
                    let why = "a mutating webhook or policy of the meta cluster changes what Berth writes";
                    Registered::Failed(format!("register by {}: {why}. Exempt it from that", plan.key))
                };
            }
        }
        Ok(())
    }

    /// Says in the tenant that an edit was set back, if it was. In one that takes no Events others are not tried: each would cost its deadline.
    async fn tell(
        &mut self,
        snapshot: &Snapshot,
        action: &Action,
        (object, note): (&Object, &str),
    ) -> Result<(), IoError> {
        let tenant = self.tenant(action)?;
        let ApiProbe::Answered { read, .. } = &snapshot.observed.api else { return Ok(()) };
        let live = read.get(object.key()).flatten().filter(|live| diff::contains(live, object.value()));
        if let Some(live) = live.filter(|_| !self.takes_no_events)
            && let Err(error) = told::tell(tenant, object.key(), uid(live), note, self.clocks.now).await
        {
            tracing::debug!(%error, "not told in the tenant");
            self.takes_no_events = true;
        }
        Ok(())
    }

    /// Applies it. An API server tells the deletion of a Service before it gives its address back: the address is asked for again.
    async fn applied(&self, object: &Object) -> Result<Value, IoError> {
        let mut waits = RELEASED.into_iter();
        loop {
            let result = self.meta.apply(object, self.manager).await;
            let is_taken = result.as_ref().is_err_and(|e| {
                e.message.contains("already allocated") && refused_address(e, object).is_some_and(|r| r.cluster_ip)
            });
            if !once_more(is_taken, &mut waits).await {
                return result;
            }
        }
    }

    async fn merge(&self, key: &ObjectKey, patch: &Value) -> Result<Value, IoError> {
        self.meta.merge(key, "", &format!("fieldManager={}", self.manager), patch).await
    }

    async fn call_etcd(&self, action: &Action, via: &str, call: EtcdCall) -> Result<EtcdAnswer, IoError> {
        let failed = |kind, message| IoError::new(kind, action.describe(), message);
        let etcd = self.etcd.ok_or_else(|| failed(ErrorKind::Other, "no connection to etcd".to_owned()))?;
        self.meta.client().fence().check().map_err(|closed| failed(ErrorKind::Fenced, closed.to_string()))?;
        (etcd.0)(via.to_owned(), call).await.map_err(|why| failed(ErrorKind::Transient, why))
    }

    /// Whether it was applied in this reconcile. `by`: whose admission it came through, and what that may change. Err: the live object differs
    /// from what was sent, so sending it again cannot help.
    fn was_applied(
        &self,
        object: &Object,
        live: Option<&Value>,
        (by, may): (Admission, &MayChange),
    ) -> Result<bool, IoError> {
        let Some(live) = live.filter(|_| self.sent.contains(&sent(object))) else { return Ok(false) };
        let drift = diff::compare(live, object, may).drift;
        if drift.is_empty() {
            return Ok(true);
        }
        let what = changed::describe(object.key(), &drift, by);
        let why = format!("a mutating webhook or policy changes what Berth writes: {what}");
        Err(IoError::new(ErrorKind::Rejected, format!("apply {}", object.key()), why))
    }

    fn tenant(&self, action: &Action) -> Result<&'a Io, IoError> {
        self.tenant.ok_or_else(|| IoError::new(ErrorKind::Other, action.describe(), "no connection to the tenant"))
    }
}

/// Waits for what may pass, if there is a wait left for it. False: it is as it is.
async fn once_more(may_pass: bool, waits: &mut impl Iterator<Item = Duration>) -> bool {
    let Some(wait) = may_pass.then(|| waits.next()).flatten() else { return false };
    tokio::time::sleep(wait).await;
    true
}

/// What of the address or the port of nodes that a Service asks for is not to be had: it has another owner by now, or lies in no range.
fn refused_address(error: &IoError, service: &Object) -> Option<RefusedAddress> {
    let rejected = service.key().kind == Kind::Service && error.kind == ErrorKind::Rejected;
    RefusedAddress::told(service, &error.message).filter(|_| rejected)
}

fn sent(object: &Object) -> (ObjectKey, String) {
    (object.key().clone(), object.digest())
}

#[cfg(test)]
mod tests;
