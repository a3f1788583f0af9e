//! What a plan is made from, and what comes of it.

use crate::jobs::JobOwner;
use crate::requeue::{SOON, WAITING};
use crate::store::{self, ResolvedStore, StoreUser};
use crate::target::Target;
use berth_api::backup::{Outcome, phase};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::{EtcdBackup, labels};
use berth_plan::backup_jobs::age;
use berth_plan::object_meta::label;
use berth_plan::{Input, Plan, State};
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use std::ops::Deref;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct BackupPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// How its Job ended, if it did.
    pub outcome: Option<Outcome>,
    /// The phase for people.
    pub phase: &'static str,
}

/// A Job that is young may find out soon why it has no pod.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);
/// A Job's end is announced.
pub(super) const RUNNING: SignedDuration = SignedDuration::from_mins(1);

/// An `EtcdBackup` with what several steps need to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackupInput<'a>(pub(crate) Input<'a, EtcdBackup>);

impl<'a> Deref for BackupInput<'a> {
    type Target = Input<'a, EtcdBackup>;

    fn deref(&self) -> &Input<'a, EtcdBackup> {
        &self.0
    }
}

impl<'a> BackupInput<'a> {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(Kind::EtcdBackup, self.namespace(), self.name())
    }

    pub(super) fn target(&self) -> Target {
        self.object.into()
    }

    /// What its Jobs are made for.
    pub(super) fn owner(&self) -> JobOwner<'a> {
        JobOwner::new(self.0, Kind::EtcdBackup)
    }

    /// The store that the spec names.
    pub(super) fn store(&self) -> Result<ResolvedStore, State> {
        let cluster = self.object.spec.cluster_ref.as_ref();
        let user = StoreUser { at: "spec", namespace: self.namespace(), cluster, stands_alone: cluster.is_none() };
        store::resolve(&self.object.spec.store, user, self.observed, self.settings)
    }

    /// Whether a Job was made for an `EtcdBackup` that had this name before: what it says is of other data.
    pub(super) fn is_earlier(&self, job: &ObjectKey) -> bool {
        let of = self.owner().get(job).and_then(|job| label(job, labels::ETCD_BACKUP_UID));
        of.is_some_and(|uid| uid != self.uid())
    }

    /// Whether Kubernetes made no pod for its Job, so that it has none any more and comes after others.
    pub(super) fn was_refused(&self) -> bool {
        let phase = self.object.phase();
        let ready = conditions::find(self.object.conditions(), ConditionType::Ready);
        matches!(phase, Some(phase::RUNNING | phase::QUEUED))
            && ready.is_some_and(|c| c.reason == Reason::Rejected.as_str())
    }

    /// When to look again at a Job that is there.
    pub(super) fn look_at(&self, key: &ObjectKey) -> SignedDuration {
        match self.observed.get(key).filter(|job| self.owner().is_starting(job)) {
            Some(job) if age(job, self.now) < YOUNG => SOON,
            Some(_) => WAITING,
            None => RUNNING,
        }
    }
}

pub(super) fn was_verified(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().is_some_and(|s| s.verified_at.is_some())
}
