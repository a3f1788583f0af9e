//! The plan for an `EtcdBackupSchedule`: one `EtcdBackup` for each time, never two at once, and away with those that are not kept once a
//! newer one is proven.

mod keep;
mod read;
pub mod ready;
pub mod status;

#[cfg(test)]
pub(crate) mod tests;

use crate::backup::proven::{self, Wanted};
use crate::objects::{find, list, new_backup};
use crate::restore;
use crate::target::Target;
use berth_api::backup::{EtcdBackup, phase};
use berth_api::backup_schedule::{EtcdBackupSchedule, EtcdBackupScheduleStatus};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::restore::BackupOf;
use berth_api::{EtcdCluster, labels};
use berth_plan::model::{Action, Plan, Stage, StageId, State};
use berth_plan::object_meta;
use berth_plan::requeue::SOON;
use berth_plan::times::Times;
use berth_plan::{Input, Planner};
use berth_render::{Kind, ObjectKey};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt;
use serde_json::json;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct SchedulePlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// The time that the newest backup is for.
    pub scheduled: Option<Timestamp>,
    /// Its backups, from the oldest.
    pub backups: Vec<EtcdBackup>,
}

/// Failed backups that are kept, for people to read.
const FAILED: usize = 3;
/// An hour has no more news than a minute of it, but a spec may be mended.
const SLOW: SignedDuration = SignedDuration::from_mins(10);

/// An `EtcdBackupSchedule`, and what its plan is made from.
type ScheduleInput<'a> = Input<'a, EtcdBackupSchedule>;

/// Its backups, from the oldest.
fn own_backups(input: ScheduleInput<'_>) -> Vec<EtcdBackup> {
    let all = list::<EtcdBackup>(input.observed, Kind::EtcdBackup, input.namespace());
    let is_own = |b: &EtcdBackup| b.labels().get(labels::ETCD_BACKUP_SCHEDULE).is_some_and(|of| of == input.name());
    let mut own: Vec<EtcdBackup> = all.filter(is_own).collect();
    own.sort_by_key(|b| (b.creation_timestamp(), taken(b), b.name_any()));
    own
}

/// Decides for an `EtcdBackupSchedule`.
#[derive(Clone, Copy, Debug)]
pub struct SchedulePlanner;

impl Planner for SchedulePlanner {
    type Object = EtcdBackupSchedule;
    type Planned = SchedulePlan;
    type Status = EtcdBackupScheduleStatus;

    /// Its backups stay when it is deleted.
    fn plan(input: Input<'_, EtcdBackupSchedule>) -> SchedulePlan {
        let mut out = SchedulePlan { backups: own_backups(input), ..SchedulePlan::default() };
        if input.is_deleted() {
            out.plan.finished = true;
            return out;
        }
        let mut stage = Stage::new(StageId::Backup, State::Ready);
        let spec = &input.object.spec;
        let seed = format!("{}/{}", input.namespace(), input.name());
        match Times::read(&spec.schedule, &spec.time_zone, &seed, input.now) {
            Err(message) => {
                stage.state = State::blocked(Reason::InvalidSpec, message);
                out.requeue_after = Some(SLOW);
            }
            Ok(_) if spec.suspend => out.requeue_after = Some(SLOW),
            Ok(times) => {
                create(input, &times, &mut stage, &mut out);
                stage.actions.extend(superseded(input, &out.backups, &times.zone));
                let again = if stage.actions.is_empty() { times.wait(input.now) } else { SOON };
                // A turn that was missed comes when the one before has ended, which is announced.
                out.requeue_after = Some(again.clamp(SOON, SLOW));
            }
        }
        out.plan.stages.push(stage);
        out
    }

    fn outcome(planned: &SchedulePlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn status(
        input: Input<'_, EtcdBackupSchedule>,
        planned: &SchedulePlan,
        failure: Option<&berth_plan::Failure>,
    ) -> EtcdBackupScheduleStatus {
        status::status(input, planned, failure)
    }
}

/// The backup that is due, unless one is under way.
fn create(input: ScheduleInput<'_>, times: &Times, stage: &mut Stage, out: &mut SchedulePlan) {
    let last = last_time(input).or_else(|| {
        // It is from a time at which the operator's clock was ahead. The API server's tells when the newest one was created.
        input.object.status.as_ref()?.last_schedule_time.as_ref()?;
        out.backups.last()?.metadata.creation_timestamp.as_ref().map(|t| t.0)
    });
    let made = input.object.metadata.creation_timestamp.as_ref().map_or(input.now, |t| t.0);
    let Some(at) = times.due(last.unwrap_or(made), input.now) else { return };
    // Nothing is written to it: the newest backup has all there is. The turn that was missed comes once it is awake.
    if sleeps(input) {
        return;
    }
    let name = format!("{}-{}", input.name(), at.strftime("%Y%m%d%H%M"));
    let key = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), &*name);
    if input.observed.get(&key).is_some() {
        out.scheduled = Some(at);
        return;
    }
    if let Some(busy) = out.backups.iter().find(|b| b.metadata.deletion_timestamp.is_none() && !b.has_ended()) {
        let ready = conditions::find(busy.conditions(), ConditionType::Ready);
        let reason = ready.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::Waiting);
        let (name, why) = (busy.name_any(), ready.map_or("", |c| &c.message));
        let message = format!("the backup of {at} was missed, since EtcdBackup {name} has not ended: {why}");
        stage.state = State::blocked(reason, message);
        return;
    }
    let spec = &input.object.spec;
    let labels = [(labels::MANAGED_BY, labels::MANAGED_BY_VALUE), (labels::ETCD_BACKUP_SCHEDULE, input.name())];
    let mut wanted = json!(spec.store);
    wanted["deletionPolicy"] = "Delete".into();
    let of = BackupOf { cluster_ref: spec.cluster_ref.clone(), etcd_cluster_ref: spec.etcd_cluster_ref.clone() };
    let object = new_backup(&key, &labels.into(), &of, wanted);
    match object {
        Ok(object) => stage.actions.push(Action::Create(object)),
        Err(why) => stage.state = State::blocked(Reason::Error, why),
    }
}

/// Whether the etcd that is backed up has no pods.
fn sleeps(input: ScheduleInput<'_>) -> bool {
    let etcd: Option<EtcdCluster> = find(input.observed, &Target::from(input.object).etcd);
    etcd.and_then(|etcd| etcd.status).is_some_and(|status| status.sleep().is_some())
}

/// What clocks may differ by.
const CLOCKS: SignedDuration = SignedDuration::from_mins(1);

/// The time of the last one, unless that is still to come.
fn last_time(input: ScheduleInput<'_>) -> Option<Timestamp> {
    let last = input.object.status.as_ref()?.last_schedule_time.as_ref()?.0;
    Some(last).filter(|last| *last <= input.now + CLOCKS)
}

/// When its snapshot was taken, for hours, days and weeks: not more than a Job lasts after the `EtcdBackup` was created.
fn taken(backup: &EtcdBackup) -> Option<Timestamp> {
    let at = proven::taken(backup)?;
    Some(backup.creation_timestamp().map_or(at, |created| at.min(created.0 + proven::LONGEST)))
}

/// The newest one that counts. Whose data it is, is said by the one that was created last.
fn newest(backups: &[EtcdBackup]) -> Option<&EtcdBackup> {
    let of = proven::subject(backups.last()?);
    proven::newest(backups, &Wanted { of: &of, identity: None, until: None })
}

/// Proven backups that nobody asked to keep, and failed ones that are old news. What is deleted has a newer one that was proven. One that is
/// damaged counts for nothing, and stays until a person has looked: something may be saved of it, and it says what the store did.
fn superseded(input: ScheduleInput<'_>, backups: &[EtcdBackup], zone: &TimeZone) -> Vec<Action> {
    let staying = || backups.iter().filter(|b| b.metadata.deletion_timestamp.is_none());
    // One that is being restored may be found damaged, and needs no deletion meanwhile.
    let is_restored = |b: &EtcdBackup| restore::restoring(input.observed, b).is_some();
    let proven: Vec<_> = staying().filter(|b| proven::is_good(b) && taken(b).is_some() && !is_restored(b)).collect();
    let times: Vec<Timestamp> = proven.iter().filter_map(|b| taken(b)).collect();
    let mut kept = keep::kept(&times, &input.object.spec.keep, zone);
    let newest = newest(backups).map(|b| &b.metadata.name);
    kept.extend(proven.iter().position(|b| Some(&b.metadata.name) == newest));
    let old = proven.iter().enumerate().filter(|(place, _)| !kept.contains(place)).map(|(_, backup)| *backup);
    let failed: Vec<_> = staying().filter(|b| b.phase() == Some(phase::FAILED) && !proven::is_damaged(b)).collect();
    let stale = failed.iter().take(failed.len().saturating_sub(FAILED)).copied();
    let delete = |backup: &EtcdBackup| {
        let key = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), backup.metadata.name.clone()?);
        let live = input.observed.get(&key).filter(|o| !object_meta::deleting(o))?;
        Some(Action::delete(&key, live, None))
    };
    old.chain(stale).filter_map(delete).collect()
}
