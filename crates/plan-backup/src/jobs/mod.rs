//! Jobs of backups and restores, made as all are ([`berth_plan::jobs`]): what they have of a store's.

mod template;

use crate::store::ResolvedStore;
use berth_api::backup::{At, Failure, Outcome, Task, keys};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::Input;
use berth_plan::backup_jobs::{self, DEADLINE};
use berth_plan::jobs::{self, JobKind};
use berth_plan::model::{SecretEntry, SecretPlan, Stage, State};
use berth_render::{Kind, ObjectKey};
use std::ops::Deref;

pub(crate) use berth_plan::jobs::Volume;
pub(crate) use template::{JobTemplate, task_of};

/// What became of a Job.
pub(crate) type JobStatus = jobs::JobStatus<Outcome>;

/// The container of a Job's pod.
const CONTAINER: &str = "backup";

/// The object that Jobs are made for. Pods of its Jobs are to NetworkPolicies what takes backups, whichever it is.
#[derive(Clone, Debug)]
pub(crate) struct JobOwner<'a>(jobs::JobOwner<'a>);

impl<'a> Deref for JobOwner<'a> {
    type Target = jobs::JobOwner<'a>;

    fn deref(&self) -> &jobs::JobOwner<'a> {
        &self.0
    }
}

impl<'a> JobOwner<'a> {
    pub(crate) fn new<K: kube_core::Resource>(input: Input<'a, K>, kind: Kind) -> Self {
        let kind = JobKind {
            container: CONTAINER,
            component: names::ETCD_BACKUP,
            known_by: backup_jobs::owner_labels(kind),
            deadline: DEADLINE,
            // One that writes to a member's volume may do so still, whoever gives it up.
            outlasts: |job| matches!(task_of(job), Some(Task::Restore(_))),
        };
        Self(jobs::JobOwner::new(input, kind))
    }

    /// Creates a Job, after the Secret beside it. Err: what is awaited.
    pub(crate) fn create(&self, stage: &mut Stage, key: &ObjectKey, job: &JobTemplate<'_>) -> Result<State, State> {
        let secret = self.credentials(job.store, key)?;
        let shape = job.shape(self, key).map_err(|error| State::blocked(Reason::Error, error))?;
        self.0.create(stage, shape, secret)
    }

    /// The Secret beside a Job, if it is not as it should be: a copy of the store's, since a pod takes only Secrets of its own namespace.
    pub(crate) fn credentials(&self, store: &ResolvedStore, job: &ObjectKey) -> Result<Option<SecretPlan>, State> {
        let Some(source) = &store.secret else { return Ok(None) };
        let missing = |what: String| State::Waiting {
            reason: Reason::StoreUnavailable,
            on: format!("{what}, with the credentials of {}", store.name),
        };
        let facts = self.observed.secrets.get(source).ok_or_else(|| missing(source.to_string()))?;
        let ca = store.store.endpoint.starts_with("https://").then_some(keys::CA);
        let mut wanted: Vec<&str> = [keys::ACCESS_KEY_ID, keys::SECRET_ACCESS_KEY].into_iter().chain(ca).collect();
        if let Some(lacks) = wanted.iter().find(|key| !facts.digests.contains_key(**key)) {
            return Err(missing(format!("key {lacks} of {source}")));
        }
        wanted.extend(Some(keys::SESSION_TOKEN).filter(|key| facts.digests.contains_key(*key)));
        let entry = |name: &&str| SecretEntry::copy(*name, source.clone());
        let plan = self.secret(job, wanted.iter().map(entry).collect())?;
        let has = self.observed.secrets.get(&plan.key);
        let same = |name: &&str| has.and_then(|h| h.digests.get(*name)) == facts.digests.get(*name);
        Ok((plan.existing.is_none() || !wanted.iter().all(same)).then_some(plan))
    }
}

/// The reason that a condition has for it.
pub(crate) fn reason(failure: &Failure) -> Reason {
    match failure.at {
        At::Store => Reason::StoreUnavailable,
        At::Proof | At::Damaged => Reason::BackupNotProven,
        At::Etcd | At::Other => Reason::BackupFailed,
    }
}
