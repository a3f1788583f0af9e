//! Which `Cluster`s an `App` is for.

use berth_api::{App, labels};
use berth_plan::object_meta::deleting;
use berth_render::{Kind, ObjectKey};
use kube_core::ResourceExt;
use serde_json::Value;
use std::collections::BTreeMap;

/// Labels by which the installations of an `App` are found.
pub fn selector(app: &App) -> String {
    selector_of(&app.namespace().unwrap_or_default(), &app.name_any())
}

/// Likewise, of an `App` by its name.
pub fn selector_of(namespace: &str, name: &str) -> String {
    format!("{}={name},{}={namespace}", labels::APP, labels::APP_NAMESPACE)
}

/// The namespace whose `Cluster`s it may be for. None: all.
pub fn scope<'a>(app: &'a App, operator: &str) -> Option<&'a str> {
    app.metadata.namespace.as_deref().filter(|namespace| *namespace != operator)
}

/// `Cluster`s among these objects that are to have it, and names of those that are not there. None of them is being deleted. `operator`: the
/// operator's namespace.
pub fn wanted<'a>(
    app: &App,
    objects: &'a BTreeMap<ObjectKey, Value>,
    operator: &str,
) -> (BTreeMap<ObjectKey, &'a Value>, Vec<ObjectKey>) {
    if app.metadata.deletion_timestamp.is_some() {
        return (BTreeMap::new(), vec![]);
    }
    let (spec, scope) = (&app.spec, scope(app, operator));
    let in_scope = |key: &ObjectKey| scope.is_none_or(|scope| key.namespace.as_deref() == Some(scope));
    let there =
        |(key, cluster): &(&ObjectKey, &Value)| key.kind == Kind::Cluster && in_scope(key) && !deleting(cluster);
    let clusters = objects.iter().filter(there);
    if let Some(selector) = &spec.cluster_selector {
        let fits = |cluster: &Value| {
            let labels = serde_json::from_value(cluster["metadata"]["labels"].clone()).unwrap_or_default();
            selector.fits(&labels)
        };
        return (
            clusters.filter(|(_, cluster)| fits(cluster)).map(|(key, cluster)| (key.clone(), cluster)).collect(),
            vec![],
        );
    }
    let named = |named: &berth_api::selector::NamedCluster| {
        let namespace = named.namespace.as_deref().or(app.metadata.namespace.as_deref()).unwrap_or_default();
        ObjectKey::namespaced(Kind::Cluster, namespace, &*named.name)
    };
    let clusters: BTreeMap<_, _> = clusters.collect();
    let (mut found, mut missing) = (BTreeMap::new(), vec![]);
    for key in spec.cluster_refs.iter().map(named) {
        match clusters.get(&key) {
            Some(cluster) => drop(found.insert(key, *cluster)),
            None => missing.push(key),
        }
    }
    (found, missing)
}
