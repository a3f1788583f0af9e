//! What a plan is made from, and what comes of it.

use super::{Owner, outcome};
use berth_api::backup::{Outcome, phase};
use berth_api::{EtcdBackup, labels};
use berth_plan::observed::label;
use berth_plan::{Input, Plan, Stage};
use berth_render::ObjectKey;
use jiff::SignedDuration;
use serde_json::Value;
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

/// Something is about to be there.
pub(super) const SOON: SignedDuration = SignedDuration::from_secs(2);
/// What is awaited is not announced.
pub(super) const WAITING: SignedDuration = SignedDuration::from_secs(15);
/// A Job that is young may find out soon why it has no pod.
pub(super) const YOUNG: SignedDuration = SignedDuration::from_mins(1);
/// A Job's end is announced.
pub(super) const RUNNING: SignedDuration = SignedDuration::from_mins(1);
/// Nothing changes by itself.
pub(super) const AT_REST: SignedDuration = SignedDuration::from_mins(10);

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
    pub(super) fn has_ended(&self) -> bool {
        let phase = self.object.status.as_ref().and_then(|s| s.phase.as_deref());
        [Some(phase::VERIFIED), Some(phase::FAILED)].contains(&phase)
    }

    /// What its Jobs are made for.
    pub(super) fn owner(&self) -> Owner<'a> {
        let own = [
            (labels::ETCD_BACKUP, self.name().to_owned()),
            (labels::ETCD_BACKUP_NAMESPACE, self.namespace().to_owned()),
        ];
        Owner::new(self.observed, self.settings, own)
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&'a Value> {
        self.owner().get(key)
    }

    pub(super) fn clean(&self, stage: &mut Stage, job: &str, namespace: &str) -> bool {
        self.owner().clean(stage, job, namespace)
    }

    /// Whether a Job was made for an `EtcdBackup` that had this name before: what it says is of other data.
    pub(super) fn is_earlier(&self, job: &Value) -> bool {
        label(job, labels::ETCD_BACKUP_UID).is_some_and(|uid| uid != self.uid())
    }

    /// When to look again at a Job that is there.
    pub(super) fn look_at(&self, key: &ObjectKey) -> SignedDuration {
        match self.observed.get(key) {
            Some(job) if outcome::is_starting(&self.owner(), job) => {
                if outcome::age(job, self.now) < YOUNG {
                    SOON
                } else {
                    WAITING
                }
            }
            _ => RUNNING,
        }
    }
}

pub(super) fn was_verified(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().is_some_and(|s| s.verified_at.is_some())
}
