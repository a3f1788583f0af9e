//! What Jobs beside an etcd are made for: an `EtcdBackup`, or an `EtcdRestore`.

use super::store::Kept;
use berth_api::backup::keys;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::{Action, SecretEntry, SecretPlan, Stage, State};
use berth_plan::observed::{self, Observed, label, uid};
use berth_plan::secrets::foreign;
use berth_plan::settings::Settings;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::Value;
use std::collections::BTreeMap;

/// The object that they are made for.
#[derive(Clone, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) observed: &'a Observed,
    pub(crate) settings: &'a Settings,
    /// Labels of everything that is made for it.
    pub(crate) labels: BTreeMap<String, String>,
    /// Those by which it is known.
    pub(crate) own: [(&'static str, String); 2],
}

impl<'a> Owner<'a> {
    /// Pods of its Jobs are to NetworkPolicies what takes backups, whichever it is.
    pub(crate) fn new(observed: &'a Observed, settings: &'a Settings, own: [(&'static str, String); 2]) -> Self {
        let common = [(labels::MANAGED_BY, labels::MANAGED_BY_VALUE), (labels::COMPONENT, names::ETCD_BACKUP)];
        let common = common.map(|(key, value)| (key, value.to_owned()));
        let labels = common.iter().chain(&own).map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        Self { observed, settings, labels, own }
    }

    /// Creates a Job, after the Secret beside it.
    pub(crate) fn begin(stage: &mut Stage, secret: Option<SecretPlan>, job: Object) -> State {
        let on = format!("{} to be created", job.key());
        stage.actions.extend(secret.map(Action::Secret));
        stage.actions.push(Action::Create(job));
        State::waiting(on)
    }

    pub(crate) fn is_ours(&self, object: &Value) -> bool {
        self.own.iter().all(|(name, value)| label(object, name) == Some(value))
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&'a Value> {
        self.observed.get(key).filter(|o| self.is_ours(o))
    }

    /// Deletes a Job and, before it, the Secret beside it: it is found by the Job, and has nobody else. True: both are gone.
    pub(crate) fn clean(&self, stage: &mut Stage, job: &str, namespace: &str) -> bool {
        let secret = self.clean_secret(stage, job, namespace);
        self.delete(stage, &ObjectKey::namespaced(Kind::Job, namespace, job)) && secret
    }

    /// Deletes the Secret beside a Job. True: it is gone.
    pub(crate) fn clean_secret(&self, stage: &mut Stage, job: &str, namespace: &str) -> bool {
        self.delete(stage, &ObjectKey::namespaced(Kind::Secret, namespace, job))
    }

    fn delete(&self, stage: &mut Stage, key: &ObjectKey) -> bool {
        let Some(live) = self.get(key) else { return true };
        if !observed::deleting(live) {
            stage.actions.push(Action::delete(key, live, None));
        }
        false
    }

    /// The Secret beside a Job, if it is not as it should be: a copy of the store's, since a pod takes only Secrets of its own namespace.
    pub(crate) fn credentials(&self, store: &Kept, job: &ObjectKey) -> Result<Option<SecretPlan>, State> {
        let Some(source) = store.secret.clone() else { return Ok(None) };
        let missing = |what: String| State::Waiting {
            reason: Reason::StoreUnavailable,
            on: format!("{what}, with the credentials of {}", store.name),
        };
        let facts = self.observed.secrets.get(&source).ok_or_else(|| missing(source.to_string()))?;
        let ca = store.store.endpoint.starts_with("https://").then_some(keys::CA);
        let wanted: Vec<&str> = [keys::ACCESS_KEY_ID, keys::SECRET_ACCESS_KEY].into_iter().chain(ca).collect();
        if let Some(lacks) = wanted.iter().find(|key| !facts.digests.contains_key(**key)) {
            return Err(missing(format!("key {lacks} of {source}")));
        }
        let key = ObjectKey { kind: Kind::Secret, ..job.clone() };
        let live = self.observed.get(&key);
        if live.is_some_and(|o| !self.is_ours(o)) {
            return Err(foreign(&key));
        }
        let has = self.observed.secrets.get(&key);
        let same = |name: &&str| has.and_then(|h| h.digests.get(*name)) == facts.digests.get(*name);
        if live.is_some() && wanted.iter().all(same) {
            return Ok(None);
        }
        let version =
            |o: &Value| o.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let entry = |name: &&str| SecretEntry::Copy { name: (*name).to_owned(), source: source.clone() };
        Ok(Some(SecretPlan {
            key,
            type_: "Opaque".into(),
            labels: self.labels.clone(),
            existing: live.map(|o| (uid(o).to_owned(), version(o))),
            entries: wanted.iter().map(entry).collect(),
        }))
    }
}
