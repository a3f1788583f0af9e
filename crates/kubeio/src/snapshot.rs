//! What was read, and the bytes of Secrets beside it.

use crate::calls::Io;
use crate::error::IoError;
use crate::facts;
use crate::lists::{name_kind, version};
use base64::Engine;
use berth_api::{labels, names};
use berth_plan::object_meta::label;
use berth_plan::{MetaCluster, Observed};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What was observed, with the bytes of Secrets beside it.
#[derive(Default)]
pub struct Snapshot {
    /// What plans see.
    pub observed: Observed,
    /// Data of Secrets. Never printed.
    pub(crate) raw: BTreeMap<ObjectKey, BTreeMap<String, Vec<u8>>>,
    /// What names of Secrets begin with. In a namespace that is full of other people's, those are not looked into.
    pub(crate) secrets: String,
    /// What is in the namespace could not be read: the operator's rights there are not there (yet).
    pub denied: Option<IoError>,
    /// What else could not be read, and holds up nothing but its own stage.
    pub unread: Option<IoError>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("objects", &self.observed.objects.len()).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn of(meta: &Arc<MetaCluster>) -> Self {
        let observed = Observed { meta: meta.clone(), ..Observed::default() };
        Self { observed, ..Self::default() }
    }

    /// Takes in an object as the API server answered it. A Secret's data turns into facts.
    pub(crate) fn put(&mut self, kind: Kind, mut object: Value) {
        let key = ObjectKey::of(kind, &object);
        name_kind(&mut object, kind);
        // Without any, nobody's fields are known. In a simulation it is left out.
        if matches!(kind, Kind::Deployment | Kind::StatefulSet) && object["metadata"]["managedFields"].is_null() {
            object["metadata"]["managedFields"] = json!([]);
        }
        if kind == Kind::Secret && !(key.name.starts_with(&self.secrets) || labelled(&object)) {
            object.as_object_mut().and_then(|o| o.remove("data"));
        } else if kind == Kind::Secret {
            let data = take_data(&mut object);
            let type_ = object["type"].as_str().unwrap_or_default().to_owned();
            self.put_data(key.clone(), &type_, data);
        }
        self.observed.put(key, object);
    }

    /// Takes in what a Secret holds.
    pub(crate) fn put_data(&mut self, key: ObjectKey, type_: &str, data: BTreeMap<String, Vec<u8>>) {
        self.observed.secrets.insert(key.clone(), facts::of(type_, &data));
        self.raw.insert(key, data);
    }

    /// Takes in objects of a kind.
    pub(crate) fn put_all(&mut self, kind: Kind, objects: impl IntoIterator<Item = Value>) {
        for object in objects {
            self.put(kind, object);
        }
    }

    /// The binding that gives the operator its rights in the namespace was made a moment ago: API servers take one up with a
    /// delay.
    pub fn rights_are_recent(&self, now: Timestamp) -> bool {
        const DELAY: SignedDuration = SignedDuration::from_secs(10);
        let ours = |key: &ObjectKey| key.kind == Kind::RoleBinding && key.name == names::OPERATOR_ROLE_BINDING;
        let binding = self.observed.objects.iter().find(|(key, _)| ours(key)).map(|(_, binding)| binding);
        let made = binding.and_then(|b| b.pointer("/metadata/creationTimestamp")?.as_str()?.parse().ok());
        made.is_some_and(|made: Timestamp| now.duration_since(made).abs() < DELAY)
    }

    /// The [`fingerprint`] of what was read.
    pub fn fingerprint(&self, namespace: &str) -> u64 {
        let all = UNWATCHED.iter().flat_map(|kind| self.observed.of_kind(*kind, namespace));
        hash(all.map(|(_, object)| version(object)).collect())
    }

    /// Bytes of one key of a Secret.
    pub fn secret(&self, key: &ObjectKey, name: &str) -> Option<&[u8]> {
        self.raw.get(key)?.get(name).map(Vec::as_slice)
    }
}

/// Kinds that no watch tells of: Berth may read them only in namespaces that it made or was given.
const UNWATCHED: [Kind; 2] = [Kind::Secret, Kind::ConfigMap];

/// What of a namespace no watch tells, as one number: as long as that is the same, nothing of it was changed.
pub async fn fingerprint(io: &Io, namespace: &str) -> Result<u64, IoError> {
    let [secrets, maps] = UNWATCHED.map(|kind| io.versions(kind, namespace));
    let (secrets, maps) = futures::try_join!(secrets, maps)?;
    Ok(hash([secrets, maps].concat()))
}

fn hash(mut versions: Vec<[String; 3]>) -> u64 {
    versions.sort_unstable();
    let mut state = DefaultHasher::new();
    versions.hash(&mut state);
    state.finish()
}

/// Whether it carries what Berth's Secrets do.
fn labelled(object: &Value) -> bool {
    label(object, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE) || label(object, labels::ETCD_CLUSTER).is_some()
}

/// Removes and decodes `data`.
pub(crate) fn take_data(secret: &mut Value) -> BTreeMap<String, Vec<u8>> {
    let data = secret.as_object_mut().and_then(|o| o.remove("data"));
    let Some(Value::Object(data)) = data else { return BTreeMap::new() };
    data.into_iter()
        .filter_map(|(k, v)| Some((k, base64::engine::general_purpose::STANDARD.decode(v.as_str()?).ok()?)))
        .collect()
}
