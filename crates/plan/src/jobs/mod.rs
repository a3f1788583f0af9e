//! Tasks that run as Jobs beside a control plane or an etcd, for an object of Berth's: [`JobShape`] describes one, [`JobOwner`] looks after
//! it and deletes it, and [`JobStatus`] says how it goes.

mod proxy;
mod shape;
mod status;

use crate::Input;
use crate::model::{Action, SecretEntry, SecretPlan, Stage, State};
use crate::object_meta::{self, label, version_of};
use crate::objects::foreign;
use crate::observed::Observed;
use crate::settings::Settings;
use berth_api::labels;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

pub use proxy::variables;
pub use shape::{JobShape, Volume, env_of, pod_security, restricted};
pub use status::JobStatus;

/// What the Jobs of a kind have in common.
#[derive(Clone, Copy, Debug)]
pub struct JobKind {
    /// The container of a pod.
    pub container: &'static str,
    /// Label value of their pods, by which NetworkPolicies know them.
    pub component: &'static str,
    /// Labels by which one is known: of its owner's name and its namespace.
    pub known_by: [&'static str; 2],
    /// How long one may take with all its tries, in seconds.
    pub deadline: i64,
    /// Whether one may still work after its deadline, whoever gives it up.
    pub outlasts: fn(&Value) -> bool,
}

/// The object that Jobs are made for.
#[derive(Clone, Debug)]
pub struct JobOwner<'a> {
    /// What was observed.
    pub observed: &'a Observed,
    /// The operator's configuration.
    pub settings: &'a Settings,
    now: Timestamp,
    /// Labels of everything that is made for it.
    pub labels: BTreeMap<&'static str, &'a str>,
    kind: JobKind,
}

impl<'a> JobOwner<'a> {
    /// Of an object.
    pub fn new<K: kube_core::Resource>(input: Input<'a, K>, kind: JobKind) -> Self {
        let [by_name, by_namespace] = kind.known_by;
        let labels = [
            (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
            (labels::COMPONENT, kind.component),
            (by_name, input.name()),
            (by_namespace, input.namespace()),
        ];
        let Input { observed, settings, now, .. } = input;
        Self { observed, settings, now, labels: labels.into(), kind }
    }

    /// Whether an object is made for it, by its labels.
    pub fn is_ours(&self, object: &Value) -> bool {
        self.kind.known_by.iter().all(|name| label(object, name) == self.labels.get(name).copied())
    }

    /// An object that is made for it, if it is there.
    pub fn get(&self, key: &ObjectKey) -> Option<&'a Value> {
        self.observed.get(key).filter(|o| self.is_ours(o))
    }

    /// Creates a Job, after the Secret beside it. Err: what is awaited.
    ///
    /// # Errors
    ///
    /// The Job is none that can be written: there is a bug in Berth.
    pub fn create(&self, stage: &mut Stage, job: JobShape<'_>, secret: Option<SecretPlan>) -> Result<State, State> {
        let key = job.key.clone();
        let object =
            job.object(self, self.kind).map_err(|error| State::blocked(berth_api::conditions::Reason::Error, error))?;
        stage.actions.extend(secret.map(Action::Secret));
        stage.actions.push(Action::Create(object));
        Ok(State::waiting(format!("{key} to be created")))
    }

    /// Deletes a Job and, before it, the Secret beside it: it is found by the Job, and has nobody else. True: both are gone.
    pub fn clean(&self, stage: &mut Stage, job: &ObjectKey) -> bool {
        let secret = self.clean_secret(stage, job);
        self.delete(stage, job) && secret
    }

    /// Deletes the Secret beside a Job. True: it is gone.
    pub fn clean_secret(&self, stage: &mut Stage, job: &ObjectKey) -> bool {
        self.delete(stage, &secret_beside(job))
    }

    fn delete(&self, stage: &mut Stage, key: &ObjectKey) -> bool {
        let Some(live) = self.get(key) else { return true };
        if !object_meta::deleting(live) {
            stage.actions.push(Action::delete(key, live, None));
        }
        false
    }

    /// The Secret beside a Job with these entries. Err: somebody else's has its name.
    ///
    /// # Errors
    ///
    /// What is in the way.
    pub fn secret(&self, job: &ObjectKey, entries: Vec<SecretEntry>) -> Result<SecretPlan, State> {
        let key = secret_beside(job);
        let live = self.observed.get(&key);
        if live.is_some_and(|o| !self.is_ours(o)) {
            return Err(foreign(&key));
        }
        Ok(SecretPlan {
            key,
            type_: "Opaque".into(),
            labels: self.labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            existing: live.map(version_of),
            entries,
        })
    }
}

/// The Secret beside a Job: it has its name.
pub fn secret_beside(job: &ObjectKey) -> ObjectKey {
    ObjectKey { kind: Kind::Secret, ..job.clone() }
}
