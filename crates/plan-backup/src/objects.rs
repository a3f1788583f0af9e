//! Reads observed objects as their types, and makes those that more than one planner creates.

use berth_api::conditions::Reason;
use berth_api::restore::BackupOf;
use berth_plan::Observed;
use berth_plan::model::State;
use berth_render::{Kind, Object, ObjectKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An object that has to be there. Err: what is awaited.
pub(crate) fn require<T: DeserializeOwned>(observed: &Observed, key: &ObjectKey) -> Result<T, State> {
    let live = observed.get(key).ok_or_else(|| State::waiting(format!("{key}, which does not exist")))?;
    serde_json::from_value(live.clone())
        .map_err(|e| State::blocked(Reason::Error, format!("{key} cannot be read: {e}")))
}

/// An object, if it is there and can be read.
pub(crate) fn find<T: DeserializeOwned>(observed: &Observed, key: &ObjectKey) -> Option<T> {
    require(observed, key).ok()
}

/// Those of a kind in a namespace that can be read.
pub(crate) fn list<'a, T: DeserializeOwned>(
    observed: &'a Observed,
    kind: Kind,
    namespace: &'a str,
) -> impl Iterator<Item = T> + 'a {
    observed.of_kind(kind, namespace).filter_map(|(_, o)| serde_json::from_value(o.clone()).ok())
}

/// An `EtcdBackup` that Berth creates. `spec`: but for what it is of.
pub(crate) fn new_backup(
    key: &ObjectKey,
    labels: &BTreeMap<&str, &str>,
    of: &BackupOf,
    mut spec: Value,
) -> Result<Object, String> {
    for (field, of) in [("clusterRef", &of.cluster_ref), ("etcdClusterRef", &of.etcd_cluster_ref)] {
        if let Some(of) = of {
            spec[field] = json!(of);
        }
    }
    Object::new(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels}, "spec": spec,
    }))
}
