//! What was given in a tenant: kept in the meta cluster, in the tenant's control-plane namespace, and written before anything is in the tenant.

use berth_api::ClusterAccess;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How names of bindings begin.
pub(super) const BINDINGS: &str = "berth:access:";

/// So many are remembered of what was taken back; fewer where the record would be longer than [`LONGEST`].
const MOST_REVOKED: usize = 2000;

/// So many objects are in a tenant at the most: the record of them fits into a ConfigMap, however long their names are.
pub(super) const MOST: usize = 1000;

/// So many of them by `ClusterAccess`es of one namespace: the team's and the platform's take no place from each other.
pub(super) const SHARE: usize = MOST / 2;

/// The record in bytes. A ConfigMap has a mebibyte, and one that is longer cannot be written: then nothing is given or taken back any more.
pub(super) const LONGEST: usize = 900_000;

/// What becomes known of an object after it was written, in bytes: its UID and a digest.
const UNKNOWN: usize = 140;

/// A `ClusterAccess`. One of the same name with another UID is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccessId {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl AccessId {
    /// Of an object as it was read.
    pub fn of(access: &ClusterAccess) -> Self {
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        let meta = &access.metadata;
        Self { namespace: of(&meta.namespace), name: of(&meta.name), uid: of(&meta.uid) }
    }
}

/// An object in the tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    /// Its UID, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Digest of what was written, once it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When it began to be written, as long as nobody knows whether it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// The epoch of the tenant's etcd in which it was last looked for: a restore may bring another state of it, in another epoch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: i64,
    /// Which `ClusterAccess` gave it. None: a role, which gives nothing by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<AccessId>,
}

impl Entry {
    /// One that is about to be written.
    pub fn new(key: &ObjectKey, of: Option<AccessId>) -> Self {
        let ObjectKey { kind, namespace, name } = key.clone();
        Self { kind: kind.name().into(), namespace, name, uid: None, digest: None, begun: None, epoch: 0, of }
    }

    /// Which object. None: of a kind that this build does not know; [`Record::read`] lets none in.
    pub fn key(&self) -> Option<ObjectKey> {
        let group = Kind::ClusterRole;
        let kind = Kind::from_gvk(group.group(), group.version(), &self.kind)?;
        Some(ObjectKey { kind, namespace: self.namespace.clone(), name: self.name.clone() })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(epoch: &i64) -> bool {
    *epoch == 0
}

/// All of them, of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Since when it woke, of the last wake after which all that had ended was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woke: Option<Timestamp>,
    /// What is there, or may be.
    #[serde(default)]
    pub objects: Vec<Entry>,
    /// What was taken back, the newest last.
    #[serde(default)]
    pub revoked: Vec<Entry>,
}

impl Record {
    /// As it is stored. Empty: nothing was given yet. What cannot be read is not written over.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let record: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        for entry in record.objects.iter().chain(&record.revoked) {
            if entry.key().is_none() {
                return Err(format!("kind {} is of a newer Berth", entry.kind));
            }
            // Whoever may write it makes Berth delete nothing else in the tenant.
            let begins = if entry.kind == Kind::ClusterRole.name() { "berth:" } else { BINDINGS };
            if !entry.name.starts_with(begins) {
                return Err(format!("{} {} is no name of Berth's", entry.kind, entry.name));
            }
        }
        Ok(record)
    }

    /// Forgets what is too much: of the namespace whose `ClusterAccess`es left most, what was taken back longest ago. So nobody makes Berth forget
    /// what another namespace gave.
    pub(super) fn forget_the_oldest(&mut self) {
        let length = |entry: &Entry| serde_json::to_string(entry).unwrap_or_default().len() + 1;
        let of = |entry: &Entry| entry.of.as_ref().map(|of| of.namespace.clone()).unwrap_or_default();
        let room = LONGEST.saturating_sub(self.objects.iter().map(|entry| length(entry) + UNKNOWN).sum());
        let mut queues: BTreeMap<String, VecDeque<(usize, usize)>> = BTreeMap::new();
        for (at, entry) in self.revoked.iter().enumerate() {
            queues.entry(of(entry)).or_default().push_back((at, length(entry)));
        }
        let mut sizes: BTreeMap<String, usize> =
            queues.iter().map(|(name, queue)| (name.clone(), queue.iter().map(|(_, length)| length).sum())).collect();
        let mut forgotten = BTreeSet::new();
        while self.revoked.len() - forgotten.len() > MOST_REVOKED || sizes.values().sum::<usize>() > room {
            let most = sizes.iter_mut().max_by_key(|(_, size)| **size);
            let Some((size, oldest)) = most.and_then(|(name, size)| Some((size, queues.get_mut(name)?.pop_front()?)))
            else {
                break;
            };
            *size -= oldest.1;
            forgotten.insert(oldest.0);
        }
        let mut at = 0..;
        self.revoked.retain(|_| at.next().is_none_or(|at| !forgotten.contains(&at)));
    }

    /// For storing.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// By which `ClusterAccess`es something is there, or may be.
    pub fn given_by(&self) -> BTreeSet<AccessId> {
        self.objects.iter().filter_map(|entry| entry.of.clone()).collect()
    }

    /// What is, or may be, in the tenant by that `ClusterAccess`.
    pub(super) fn of<'a>(&'a self, id: &'a AccessId) -> impl Iterator<Item = &'a Entry> {
        self.objects.iter().filter(move |entry| entry.of.as_ref() == Some(id))
    }

    /// Objects whose state in the tenant is to be known before anything is decided. `epoch`: that of the tenant's etcd now.
    pub fn looked_for(&self, epoch: i64) -> BTreeSet<ObjectKey> {
        let back = self.revoked.iter().filter(|entry| entry.epoch != epoch);
        self.objects.iter().chain(back).filter_map(Entry::key).collect()
    }

    /// Whether all of it was looked for in that epoch of the tenant's etcd.
    pub fn was_looked_for(&self, epoch: i64) -> bool {
        self.objects.iter().chain(&self.revoked).all(|entry| entry.epoch == epoch)
    }
}
