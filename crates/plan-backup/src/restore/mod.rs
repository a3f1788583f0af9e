//! The plan for an `EtcdRestore`: a Job finds out whether the backup is fit, before anything stops; then the `EtcdCluster` is asked, by an
//! annotation, to stop and to begin a new epoch; a second Job puts the backup onto the volume of its first member, and the `EtcdCluster` is
//! told so. Which step is next follows from what the `EtcdCluster` says of itself, so it goes on wherever the operator ended.

mod before;
mod damage;
mod deletion;
mod held;
mod job;
mod place;
mod ran;
pub(crate) mod source;
pub mod status;

#[cfg(test)]
pub(crate) mod tests;

use crate::backup::Owner;
use crate::backup::job::task_of;
use berth_api::backup::{At, EtcdBackup, Failure, Outcome};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{OperationKind, Phase};
use berth_api::restore::EtcdRestoreStatus;
use berth_api::restore::{EtcdRestore, FoundSnapshot, RestoreRequest, phase};
use berth_api::{EtcdCluster, labels, names};
use berth_plan::Input;
use berth_plan::Planner;
use berth_plan::etcd_home::Home;
use berth_plan::model::{Action, Plan, Stage, StageId, State};
use berth_plan::observed::{self, Observed, uid};
use berth_render::{Kind, Object, ObjectKey};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use place::Place;
use ran::{Ran, run};
use serde_json::{Value, json};
use std::ops::Deref;

pub use held::{Held, Intent, confirmation_id, gives_up, of_what_is_left};
pub use place::{Asks, answers, asks, claim, credentials};

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct RestorePlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// The phase for people.
    pub phase: &'static str,
    /// The backup that is restored: its name, and when it was taken.
    pub backup: Option<(String, Option<Time>)>,
    /// It was found fit.
    pub checked: bool,
    /// What the manifest says of a snapshot that has no `EtcdBackup`.
    pub found: Option<FoundSnapshot>,
    /// The epoch that begins with it, once it is on record.
    pub epoch: Option<i64>,
    /// etcd serves it.
    pub restored: bool,
    /// For how long what etcd held before stays on the volumes.
    pub keeps: Option<SignedDuration>,
    /// Why it failed, if it did just now.
    pub failed: Option<Failure>,
}

/// Something is about to be there, or to change without an event.
const SOON: SignedDuration = SignedDuration::from_secs(2);
/// What is awaited is not announced.
const WAITING: SignedDuration = SignedDuration::from_secs(15);
/// Nothing changes by itself.
const AT_REST: SignedDuration = SignedDuration::from_mins(10);

/// An `EtcdRestore` with what several steps need to know of it.
#[derive(Clone, Copy, Debug)]
struct RestoreInput<'a>(Input<'a, EtcdRestore>);

impl<'a> Deref for RestoreInput<'a> {
    type Target = Input<'a, EtcdRestore>;

    fn deref(&self) -> &Input<'a, EtcdRestore> {
        &self.0
    }
}

impl<'a> RestoreInput<'a> {
    /// What a person types to restore something else into the same etcd, but for the source.
    fn command(&self) -> String {
        let spec = &self.object.spec;
        let home = match (&spec.cluster_ref, &spec.etcd_cluster_ref) {
            (Some(of), _) => Home { namespace: self.namespace(), field: "clusterRef", name: &of.name },
            (None, of) => Home {
                namespace: self.namespace(),
                field: "etcdClusterRef",
                name: of.as_ref().map_or("", |of| &of.name),
            },
        };
        home.command("restore")
    }

    /// What its Jobs are made for.
    fn owner(&self) -> Owner<'a> {
        let own = [
            (labels::ETCD_RESTORE, self.name().to_owned()),
            (labels::ETCD_RESTORE_NAMESPACE, self.namespace().to_owned()),
        ];
        Owner::new(self.observed, self.settings, own)
    }

    fn has_ended(&self) -> bool {
        has_ended(self.object)
    }

    /// The command that sets fields of its spec.
    fn patch(&self, spec: &Value) -> String {
        let patch = json!({"spec": spec});
        format!("kubectl -n {} patch etcdrestore {} --type=merge -p '{patch}'", self.namespace(), self.name())
    }

    /// What it asks of the etcd, if that was told.
    fn request(&self) -> Option<RestoreRequest> {
        let etcd = self.observed.get(&asks(self.object).etcd)?;
        let text = observed::annotation(etcd, labels::RESTORE_REQUEST)?;
        serde_json::from_str(text).ok().filter(|request: &RestoreRequest| request.uid == self.uid())
    }

    /// Whether etcd has stopped for it, and cannot go on as it was.
    fn has_stopped_it(&self) -> bool {
        self.etcd_is_past(&["WaitingForClients", "Stop"])
    }

    /// The etcd's pods end, or have ended, for a restore.
    fn stops_it(&self) -> bool {
        self.etcd_is_past(&["WaitingForClients"])
    }

    /// The etcd does what this asks for, and is in none of these phases any more.
    fn etcd_is_past(&self, phases: &[&str]) -> bool {
        let phase = |etcd: &'a Value| etcd.pointer("/status/operation/phase").and_then(Value::as_str);
        let at = self.observed.get(&asks(self.object).etcd).and_then(phase);
        self.request().is_some() && at.is_some_and(|at| !phases.contains(&at))
    }

    /// Asks for it no more. What another one asks for stays.
    fn withdraw(&self, stage: &mut Stage) -> bool {
        let key = asks(self.object).etcd;
        let Some(etcd) = self.observed.get(&key).filter(|_| self.request().is_some()) else { return true };
        let version = etcd["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let object = annotated(&key, uid(etcd), None).map(|o| o.with_resource_version(version));
        stage.actions.extend(object.ok().map(Action::Apply));
        false
    }
}

/// Whether it says that Berth created it by itself, and nobody says that what etcd holds may be lost.
fn claims_automatic(restore: &EtcdRestore) -> bool {
    restore.spec.confirm.is_none()
        && restore.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::RECOVERY))
}

/// Whether Berth created it by itself: anybody may write its label, and only Berth the status of the etcd.
fn is_automatic(input: RestoreInput<'_>) -> bool {
    let own = format!("{}/{}", input.namespace(), input.name());
    let named = |etcd: &Value| etcd.pointer("/status/recovery/restore").and_then(Value::as_str) == Some(own.as_str());
    claims_automatic(input.object) && input.observed.get(&asks(input.object).etcd).is_some_and(named)
}

/// Why one that Berth created by itself restores nothing, as long as etcd has not stopped: it answers again, or did so since.
fn answers_again(input: RestoreInput<'_>) -> Option<String> {
    let key = asks(input.object).etcd;
    let etcd = input.observed.get(&key).filter(|_| is_automatic(input))?;
    let etcd: EtcdCluster = serde_json::from_value(etcd.clone()).ok()?;
    let status = etcd.status.as_ref()?;
    let operation = status.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    if operation.is_some_and(|o| o.phase != Phase::WaitingForClients) {
        return None;
    }
    let own = format!("{}/{}", input.namespace(), input.name());
    let is_given_up = status.recovery.as_ref().is_some_and(|r| r.has_given_up(&own));
    if is_given_up || place::answers(&etcd) {
        return Some(format!(
            "{key} answers again, or did since this was created, so Berth restores nothing by itself; if it is to be restored all the same, create another EtcdRestore"
        ));
    }
    // Whoever has its data again may hold more than the backup. Not one that is only about to join, which is never left.
    let left: Vec<&str> = status.recovery.iter().flat_map(|r| &r.left).map(|endpoint| endpoint.name.as_str()).collect();
    (input.object.spec.source.survivors.is_none() && !left.is_empty()).then(|| {
        format!(
            "{} of {key} has its data again, which may be more than the backup has, so this one ends, and Berth goes on with what is left",
            left.join(", ")
        )
    })
}

/// The `EtcdRestore` that restores a backup: it needs it until its end.
pub(crate) fn restoring(observed: &Observed, backup: &EtcdBackup) -> Option<ObjectKey> {
    let meta = &backup.metadata;
    let needs = |restore: &EtcdRestore| {
        restore.metadata.deletion_timestamp.is_none()
            && !has_ended(restore)
            && restore.status.as_ref().is_some_and(|s| s.backup.is_some() && s.backup == meta.name)
    };
    let all = observed.of_kind(Kind::EtcdRestore, meta.namespace.as_deref().unwrap_or_default());
    let mut all = all.filter_map(|(key, o)| Some((key, serde_json::from_value::<EtcdRestore>(o.clone()).ok()?)));
    all.find(|(_, restore)| needs(restore)).map(|(key, _)| key.clone())
}

pub fn has_ended(restore: &EtcdRestore) -> bool {
    let phase = restore.status.as_ref().and_then(|s| s.phase.as_deref());
    [Some(phase::RESTORED), Some(phase::FAILED)].contains(&phase)
}

/// The annotation of an `EtcdCluster`, which is all that is applied of it.
fn annotated(key: &ObjectKey, uid: &str, request: Option<&RestoreRequest>) -> Result<Object, String> {
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": key.name, "namespace": key.namespace},
    });
    if let Some(request) = request {
        let text = serde_json::to_string(request).map_err(|e| e.to_string())?;
        object["metadata"]["annotations"] = json!({(labels::RESTORE_REQUEST): text});
    }
    Object::new(object).map(|o| o.with_uid(uid))
}

/// Decides for an `EtcdRestore`.
#[derive(Clone, Copy, Debug)]
pub struct RestorePlanner;

impl Planner for RestorePlanner {
    type Object = EtcdRestore;
    type Planned = RestorePlan;
    type Status = EtcdRestoreStatus;

    fn plan(input: Input<'_, EtcdRestore>) -> RestorePlan {
        plan(input)
    }

    fn outcome(planned: &RestorePlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn status(
        input: Input<'_, EtcdRestore>,
        planned: &RestorePlan,
        failure: Option<&berth_plan::Failure>,
    ) -> EtcdRestoreStatus {
        status::status(input, planned, failure)
    }
}

/// The plan for an `EtcdRestore`.
pub fn plan(input: Input<'_, EtcdRestore>) -> RestorePlan {
    let input = RestoreInput(input);
    if input.object.metadata.deletion_timestamp.is_some() {
        return deletion::plan(input);
    }
    let mut out = RestorePlan::default();
    let mut stage = Stage::new(StageId::Restore, State::Ready);
    if input.has_ended() {
        let done = input.object.status.as_ref().is_some_and(|s| s.restored_at.is_some());
        out.phase = if done { phase::RESTORED } else { phase::FAILED };
        let clean = clean(input, &mut stage) & input.withdraw(&mut stage);
        out.requeue_after = Some(if clean { AT_REST } else { SOON });
    } else {
        (out.phase, stage.state) = step(input, &mut stage, &mut out);
        out.requeue_after = Some(if out.phase == phase::WAITING { WAITING } else { SOON });
    }
    out.plan.stages.push(stage);
    out
}

fn step(input: RestoreInput<'_>, stage: &mut Stage, out: &mut RestorePlan) -> (&'static str, State) {
    if claims_automatic(input.object) && !is_automatic(input) {
        let etcd = asks(input.object).etcd;
        return (
            phase::WAITING,
            State::waiting(format!("{etcd} to say that it created this (status.recovery.restore)")),
        );
    }
    if let Some(why) = answers_again(input) {
        return fails(out, why);
    }
    match before::survivors(input, stage) {
        Err(why) => return fails(out, why),
        Ok(Some(state)) => return (phase::WAITING, state),
        Ok(None) => {}
    }
    match place::find(input) {
        Ok(place) => go_on(input, &place, stage, out),
        Err(State::Blocked { reason: Reason::BackupDamaged, message }) => {
            ends(out, Failure { at: At::Damaged, message })
        }
        Err(State::Blocked { reason: Reason::BackupFailed, message }) => fails(out, message),
        // Nobody corrects it, and what else could be restored waits for it.
        Err(State::Blocked { reason: Reason::RestoreFailed, message }) if is_automatic(input) => fails(out, message),
        Err(state) => (phase::WAITING, state),
    }
}

/// It ends here.
fn fails(out: &mut RestorePlan, message: String) -> (&'static str, State) {
    ends(out, Failure { at: At::Other, message })
}

fn ends(out: &mut RestorePlan, failure: Failure) -> (&'static str, State) {
    out.failed = Some(failure);
    (phase::FAILED, State::waiting("Berth to record why it failed"))
}

/// Deletes both Jobs, each with its Secret.
fn clean(input: RestoreInput<'_>, stage: &mut Stage) -> bool {
    let (namespace, owner) = (asks(input.object).namespace, input.owner());
    let jobs = [names::restore_check(input.name()), names::restore(input.name())];
    let left = jobs.iter().filter(|job| !owner.clean(stage, job, &namespace)).count();
    left == 0
}

/// One that has not ended: its phase and state.
fn go_on(
    input: RestoreInput<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
) -> (&'static str, State) {
    let taken = place.backup.status.as_ref().and_then(|s| s.taken_at.clone());
    out.backup = Some((place.backup.metadata.name.clone().unwrap_or_default(), taken));
    if input.object.status.as_ref().is_none_or(|s| s.checked_at.is_none()) {
        let key = job::key(place, names::restore_check(input.name()));
        return match run(input, place, stage, &key, "its Job to check the backup", |owner, secret| {
            job::check(owner, place, secret)
        }) {
            Ran::Not(state) => (phase::WAITING, state),
            Ran::Runs(state) => (phase::CHECKING, state),
            Ran::Done(said) => {
                out.checked = true;
                if let (Outcome::Checked(manifest), true) = (&*said, input.object.spec.source.key.is_some()) {
                    (out.found, out.backup) = source::found(manifest);
                }
                (phase::CHECKED, State::waiting("Berth to record what its Job found"))
            }
            Ran::Failed(failure) => damage::failed(input, place, stage, out, (&key, failure), phase::CHECKING),
        };
    }
    input.owner().clean(stage, &names::restore_check(input.name()), &place.asks.namespace);
    let request = input.request();
    let instead = || {
        let delete = format!("kubectl -n {} delete etcdrestores.berth.dev {}", input.namespace(), input.name());
        format!("{delete} && {} --survivors {}", input.command(), held::flags(&place.store.spec))
    };
    let is_unsure = request.as_ref().is_some_and(|r| r.unconfirmed) && !is_automatic(input) && !input.has_stopped_it();
    // Once its pods end, nobody knows what they hold.
    let holds = || {
        let is_own = input.object.spec.source.of.is_none() && !input.stops_it();
        is_own && gives_up(&place.etcd, intent(input, place, "")).is_some()
    };
    if is_unsure && (place::answers(&place.etcd) || holds()) {
        // Nobody said that what it holds may be lost. It held nothing when this began.
        input.withdraw(stage);
        return (phase::CHECKED, State::waiting(format!("{} to go on: it has data again", place.asks.etcd)));
    }
    if request.is_none() {
        let given_up = if is_automatic(input) { None } else { gives_up(&place.etcd, intent(input, place, &instead())) };
        if let Some(given_up) = given_up
            && let Some(state) = unconfirmed(input, place, &given_up).or_else(|| before::backup(input, place, stage))
        {
            return (phase::CHECKED, state);
        }
        ask(input, place, stage, None);
        return (phase::STOPPING, State::waiting(format!("Berth to hand the restore to {}", place.asks.etcd)));
    }
    answer(input, place, stage, out, request.and_then(|r| r.restored))
}

/// Tells the etcd.
fn ask(input: RestoreInput<'_>, place: &Place<'_>, stage: &mut Stage, restored: Option<i64>) {
    let (namespace, name) = (input.namespace().to_owned(), input.name().to_owned());
    let was = place.backup.status.as_ref().and_then(|s| s.epoch);
    let after = was.filter(|_| place.is_anothers);
    let unconfirmed = !is_confirmed(input, place);
    let request = RestoreRequest { namespace, name, uid: input.uid().to_owned(), restored, unconfirmed, after };
    let uid = place.etcd.metadata.uid.as_deref().unwrap_or_default();
    stage.actions.extend(annotated(&place.asks.etcd, uid, Some(&request)).ok().map(Action::Apply));
}

/// Somebody said that what this etcd holds may be lost.
fn is_confirmed(input: RestoreInput<'_>, place: &Place<'_>) -> bool {
    confirmation_id(&place.etcd).is_some_and(|id| input.object.spec.confirm.as_deref() == Some(&id))
}

fn intent<'a>(input: RestoreInput<'a>, place: &Place<'_>, instead: &'a str) -> Intent<'a> {
    let spec = &input.object.spec;
    let taken = place.backup.status.as_ref().and_then(|s| Some(s.taken_at.as_ref()?.0));
    Intent { source: &spec.source, without: &spec.without_members, taken, instead }
}

/// Why it does not begin: what members hold would be lost, and nobody said that it may be.
fn unconfirmed(input: RestoreInput<'_>, place: &Place<'_>, given_up: &str) -> Option<State> {
    if is_confirmed(input, place) {
        return None;
    }
    let id = confirmation_id(&place.etcd)?;
    let command = input.patch(&json!({"confirm": id}));
    let on = format!("spec.confirm: {given_up}. To give that up, confirm it with etcd's cluster ID: {command}");
    Some(State::Waiting { reason: Reason::ConfirmationRequired, on })
}

/// What the etcd is at by now.
fn answer(
    input: RestoreInput<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    told: Option<i64>,
) -> (&'static str, State) {
    let status = place.etcd.status.clone().unwrap_or_default();
    let operation = status.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    let epoch = status.epoch.unwrap_or_default();
    let restoring = |on: String| State::Waiting { reason: Reason::Restoring, on };
    match operation.map(|o| o.phase) {
        Some(Phase::Restore) => {
            out.epoch = Some(epoch);
            if told == Some(epoch) {
                return (phase::RESTORING, restoring(format!("{} to go on", place.asks.etcd)));
            }
            restore(input, place, stage, out, epoch)
        }
        Some(Phase::Start) => {
            (phase::STARTING, restoring(format!("member {} to serve what was restored", place.member)))
        }
        Some(Phase::Done) if told == Some(epoch) => {
            (out.restored, out.epoch) = (true, Some(epoch));
            out.keeps = Some(berth_plan::etcd_home::keep_old_data(&place.etcd.spec));
            (phase::RESTORED, State::waiting("Berth to record that it is restored"))
        }
        _ => (phase::STOPPING, place.says()),
    }
}

/// A Job puts the backup onto the volume.
fn restore(
    input: RestoreInput<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    epoch: i64,
) -> (&'static str, State) {
    let key = job::key(place, names::restore(input.name()));
    let stale = input.owner().get(&key).filter(|live| job::epoch(live) != Some(epoch));
    if stale.is_some() {
        input.owner().clean(stage, &key.name, &place.asks.namespace);
        return (phase::RESTORING, State::waiting(format!("{key} of an earlier epoch to be gone")));
    }
    match run(input, place, stage, &key, "its Job to put the backup onto the member's volume", |owner, secret| {
        job::restore(owner, place, secret, epoch)
    }) {
        Ran::Not(state) | Ran::Runs(state) => (phase::RESTORING, state),
        Ran::Done(_) => {
            ask(input, place, stage, Some(epoch));
            (phase::RESTORING, State::waiting(format!("Berth to tell {} that its data is restored", place.asks.etcd)))
        }
        Ran::Failed(failure) => damage::failed(input, place, stage, out, (&key, failure), phase::RESTORING),
    }
}

/// An `EtcdBackup` that is there.
fn backups<'a>(observed: &'a Observed, namespace: &'a str) -> impl Iterator<Item = EtcdBackup> + 'a {
    observed.of_kind(Kind::EtcdBackup, namespace).filter_map(|(_, o)| serde_json::from_value(o.clone()).ok())
}
