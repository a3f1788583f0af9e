//! Values in ConfigMaps that an `App` names. The `App`'s own planner reads them, and an installation has them in its spec: so a change of them gets to
//! tenants as any change of the `App` does, and one that is gone is missed by nobody who has its values.

use super::language::LONGEST;
use super::{Problem, yaml};
use berth_api::app::{AppRelease, ReadValues};
use berth_api::{App, labels};
use berth_plan::digest::sha256;
use berth_plan::object_meta::label;
use berth_render::{Kind, ObjectKey, merge_fields};
use kube_core::ResourceExt as _;
use serde_json::{Map, Value};

/// What messages call it.
const FIELD: &str = "spec.valuesFrom";

/// The ConfigMaps that it names, each with a key of it.
pub fn sources(app: &App) -> impl Iterator<Item = (ObjectKey, &str)> {
    let namespace = app.namespace().unwrap_or_default();
    let key = move |name: &str| ObjectKey::namespaced(Kind::ConfigMap, &*namespace, name);
    app.spec.release.config_maps().map(move |(map, of)| (key(&map.name), of))
}

/// Whether its owner lets Berth read it for values.
pub fn consents(live: &Value) -> bool {
    label(live, labels::APP_VALUES) == Some("true")
}

/// What is in those that it names, without those that are optional and not there. `live`: a ConfigMap as it was read.
pub fn read<'a>(app: &App, live: impl Fn(&ObjectKey) -> Option<&'a Value>) -> Result<Vec<ReadValues>, Problem> {
    let optional = app.spec.release.config_maps().map(|(map, _)| map.optional);
    let one = |((map, key), optional): ((ObjectKey, &str), bool)| {
        let values = values_in(&map, key, live(&map))?;
        if values.is_none() && !optional {
            return Err(Problem::Waits(format!(
                "key {key} of {map}, which {FIELD} names: create it, with the label {}=true, or correct the name. What is deployed stays as it is",
                labels::APP_VALUES
            )));
        }
        Ok(values.map(|values| ReadValues { name: map.name, key: key.to_owned(), values }))
    };
    let all: Vec<Option<ReadValues>> = sources(app).zip(optional).map(one).collect::<Result<_, _>>()?;
    let all: Vec<ReadValues> = all.into_iter().flatten().collect();
    match size(&all) {
        size if size > LONGEST => Err(Problem::Wrong(format!(
            "{FIELD}: the values of all ConfigMaps together have {size} bytes as JSON, more than {LONGEST}: shorten them, or put some into a Secret. What is deployed stays as it is"
        ))),
        _ => Ok(all),
    }
}

/// Values of a key, as JSON. None: it is not there.
fn values_in(map: &ObjectKey, key: &str, live: Option<&Value>) -> Result<Option<String>, Problem> {
    let Some(live) = live else { return Ok(None) };
    let stays = "What is deployed stays as it is";
    if !consents(live) {
        let (name, namespace, label) = (&map.name, map.namespace.as_deref().unwrap_or_default(), labels::APP_VALUES);
        return Err(Problem::Wrong(format!(
            "{FIELD}: {map} lacks the label {label}, by which its owner says that Berth may read it: kubectl -n {namespace} label configmap {name} {label}=true. {stays}"
        )));
    }
    let Some(text) = live["data"][key].as_str() else { return Ok(None) };
    let wrong = |why: String| Problem::Wrong(format!("{FIELD}: key {key} of {map} {why}. {stays}"));
    if text.len() > LONGEST {
        return Err(wrong(format!(
            "has {} bytes, more than {LONGEST}: shorten it, or put it into a Secret",
            text.len()
        )));
    }
    let values = yaml(text).map_err(|why| wrong(format!("is not YAML of an object: {why}. Correct it")))?;
    Ok(Some(Value::from(values).to_string()))
}

/// Bytes of all of them.
pub(super) fn size(read: &[ReadValues]) -> usize {
    read.iter().map(|one| one.values.len()).sum()
}

/// Digest of them. None: the release names no ConfigMap.
pub fn digest(release: &AppRelease, read: &[ReadValues]) -> Option<String> {
    release.config_maps().next()?;
    let mut digest = sha256(&serde_json::to_vec(read).unwrap_or_default());
    digest.truncate(40);
    Some(digest)
}

/// Values of an entry that names a ConfigMap, as they were read. None: they were not read, and are not optional.
pub fn find(read: &[ReadValues], name: &str, key: &str, optional: bool) -> Option<Map<String, Value>> {
    match read.iter().find(|one| one.name == name && one.key == key) {
        Some(one) => serde_json::from_str(&one.values).ok(),
        None => optional.then(Map::new),
    }
}

/// All values but those of Secrets. `own`: those of [`super::of`].
pub fn with_own(read: &[ReadValues], own: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for one in read {
        merge_fields(&mut all, serde_json::from_str(&one.values).unwrap_or_default());
    }
    merge_fields(&mut all, own);
    all
}
