//! Tasks that run as Jobs beside an etcd, for an object of Berth's: [`JobTemplate`] describes one, [`JobOwner`] makes it, looks after it and
//! deletes it, and [`JobStatus`] says how it goes.

mod proxy;
mod status;
mod template;

use crate::store::ResolvedStore;
use berth_api::backup::keys;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::{Action, SecretEntry, SecretPlan, Stage, State};
use berth_plan::object_meta::{self, label, version_of};
use berth_plan::objects::foreign;
use berth_plan::observed::Observed;
use berth_plan::settings::Settings;
use berth_plan::{Input, backup_jobs};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) use status::{JobStatus, reason};
pub(crate) use template::{JobTemplate, Volume, task_of};

/// The object that Jobs are made for.
#[derive(Clone, Debug)]
pub(crate) struct JobOwner<'a> {
    observed: &'a Observed,
    settings: &'a Settings,
    now: Timestamp,
    /// Labels of everything that is made for it.
    pub(crate) labels: BTreeMap<&'static str, &'a str>,
    /// Those by which it is known: of its name and its namespace.
    known_by: [&'static str; 2],
}

impl<'a> JobOwner<'a> {
    /// Pods of its Jobs are to NetworkPolicies what takes backups, whichever it is.
    pub(crate) fn new<K: kube_core::Resource>(input: Input<'a, K>, kind: Kind) -> Self {
        let known_by = backup_jobs::owner_labels(kind);
        let labels = [
            (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
            (labels::COMPONENT, names::ETCD_BACKUP),
            (known_by[0], input.name()),
            (known_by[1], input.namespace()),
        ];
        let Input { observed, settings, now, .. } = input;
        Self { observed, settings, now, labels: labels.into(), known_by }
    }

    pub(crate) fn is_ours(&self, object: &Value) -> bool {
        self.known_by.iter().all(|name| label(object, name) == self.labels.get(name).copied())
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&'a Value> {
        self.observed.get(key).filter(|o| self.is_ours(o))
    }

    /// Creates a Job, after the Secret beside it. Err: what is awaited.
    pub(crate) fn create(&self, stage: &mut Stage, key: &ObjectKey, job: &JobTemplate<'_>) -> Result<State, State> {
        let secret = self.credentials(job.store, key)?;
        let object = job.object(self, key).map_err(|error| State::blocked(Reason::Error, error))?;
        stage.actions.extend(secret.map(Action::Secret));
        stage.actions.push(Action::Create(object));
        Ok(State::waiting(format!("{key} to be created")))
    }

    /// Deletes a Job and, before it, the Secret beside it: it is found by the Job, and has nobody else. True: both are gone.
    pub(crate) fn clean(&self, stage: &mut Stage, job: &ObjectKey) -> bool {
        let secret = self.clean_secret(stage, job);
        self.delete(stage, job) && secret
    }

    /// Deletes the Secret beside a Job. True: it is gone.
    pub(crate) fn clean_secret(&self, stage: &mut Stage, job: &ObjectKey) -> bool {
        self.delete(stage, &backup_jobs::secret_beside(job))
    }

    fn delete(&self, stage: &mut Stage, key: &ObjectKey) -> bool {
        let Some(live) = self.get(key) else { return true };
        if !object_meta::deleting(live) {
            stage.actions.push(Action::delete(key, live, None));
        }
        false
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
        let key = backup_jobs::secret_beside(job);
        let live = self.observed.get(&key);
        if live.is_some_and(|o| !self.is_ours(o)) {
            return Err(foreign(&key));
        }
        let has = self.observed.secrets.get(&key);
        let same = |name: &&str| has.and_then(|h| h.digests.get(*name)) == facts.digests.get(*name);
        if live.is_some() && wanted.iter().all(same) {
            return Ok(None);
        }
        let entry = |name: &&str| SecretEntry::Copy { name: (*name).to_owned(), source: source.clone() };
        Ok(Some(SecretPlan {
            key,
            type_: "Opaque".into(),
            labels: self.labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            existing: live.map(version_of),
            entries: wanted.iter().map(entry).collect(),
        }))
    }
}
