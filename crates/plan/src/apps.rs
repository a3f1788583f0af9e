//! What the planners of `App`s and of `Cluster`s agree on: which `Cluster`s an `App` is for, and how it is in one.

use crate::digest::sha256;
use crate::object_meta::deleting;
use berth_api::app::{AppRelease, AppState, phase};
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::{App, AppInstallation, labels};
use berth_render::{Kind, ObjectKey};
use kube_core::ResourceExt as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

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

/// Labels of an object.
pub fn labels_of(live: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(live["metadata"]["labels"].clone()).unwrap_or_default()
}

/// The `Cluster`s that it names.
fn named(app: &App) -> impl Iterator<Item = ObjectKey> + '_ {
    app.spec.cluster_refs.iter().map(|named| {
        let namespace = named.namespace.as_deref().or(app.metadata.namespace.as_deref()).unwrap_or_default();
        ObjectKey::namespaced(Kind::Cluster, namespace, &*named.name)
    })
}

/// Whether it is for a `Cluster` with these labels. `operator`: the operator's namespace.
pub fn is_for(app: &App, cluster: &ObjectKey, labels: &BTreeMap<String, String>, operator: &str) -> bool {
    let in_scope = scope(app, operator).is_none_or(|scope| cluster.namespace.as_deref() == Some(scope));
    let fits = match &app.spec.cluster_selector {
        Some(selector) => selector.fits(labels),
        None => named(app).any(|key| key == *cluster),
    };
    app.metadata.deletion_timestamp.is_none() && in_scope && fits
}

/// `Cluster`s among these objects that are to have it, and names of those that are not there. None of them is being deleted.
pub fn wanted<'a>(
    app: &App,
    objects: &'a BTreeMap<ObjectKey, Value>,
    operator: &str,
) -> (BTreeMap<ObjectKey, &'a Value>, Vec<ObjectKey>) {
    let clusters = objects.iter().filter(|(key, cluster)| key.kind == Kind::Cluster && !deleting(cluster));
    let found: BTreeMap<ObjectKey, &Value> = clusters
        .filter(|(key, cluster)| is_for(app, key, &labels_of(cluster), operator))
        .map(|(key, cluster)| (key.clone(), cluster))
        .collect();
    let is_named = app.metadata.deletion_timestamp.is_none() && app.spec.cluster_selector.is_none();
    let missing = named(app).filter(|key| is_named && !found.contains_key(key)).collect();
    (found, missing)
}

/// Digests of what is in the objects that `spec.valuesFrom` names. None: it names none of that kind. Empty: they never could be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValuesDigests {
    /// Of ConfigMaps.
    pub config_maps: Option<String>,
    /// Of Secrets.
    pub secrets: Option<String>,
}

impl ValuesDigests {
    /// As the status has them: the controller of `App`s alone reads what they are of.
    pub fn recorded(app: &App) -> Self {
        let (release, status) = (&app.spec.release, app.status.clone().unwrap_or_default());
        Self {
            config_maps: release.config_maps().next().map(|_| status.values_digest.unwrap_or_default()),
            secrets: release.value_secrets().next().map(|_| status.secrets_digest.unwrap_or_default()),
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// By this it is known whether an installation has the newest spec: what an API server makes of values, such as of a null in them, is its own.
pub fn digest(release: &AppRelease, values: &ValuesDigests) -> String {
    let mut all = serde_json::to_vec(release).unwrap_or_default();
    all.extend([&values.config_maps, &values.secrets].into_iter().flatten().flat_map(|digest| digest.bytes()));
    let mut digest = sha256(&all);
    digest.truncate(40);
    digest
}

/// The digest of what an `App` says now.
pub fn newest(app: &App, values: &ValuesDigests) -> String {
    digest(&app.spec.release_of(&app.name_any()), values)
}

/// Whether an installation has what its `App` says now.
pub fn is_newest(app: &App, there: &AppInstallation) -> bool {
    there.spec.digest == newest(app, &ValuesDigests::recorded(app))
}

/// Whether its status is of its spec.
pub fn is_observed(there: &AppInstallation) -> bool {
    there.status.as_ref().and_then(|s| s.observed_generation) == there.metadata.generation
}

/// Whether it failed since its spec was changed last, and has not succeeded since.
pub fn has_failed(there: &AppInstallation) -> bool {
    is_observed(there) && there.status.as_ref().is_some_and(|s| s.failures.is_some_and(|failures| failures > 0))
}

/// What an installation says.
pub fn state(there: &AppInstallation) -> AppState {
    if there.metadata.deletion_timestamp.is_some() {
        return AppState::Deleting;
    }
    let status = there.status.as_ref().filter(|_| is_observed(there));
    match status.and_then(|s| s.phase.as_deref()) {
        Some(phase::DEPLOYED) => AppState::Deployed,
        Some(phase::FAILED) => AppState::Failed,
        Some(_) if has_failed(there) => AppState::Failed,
        Some(phase::WAITING) => AppState::Waiting,
        // None is a status of an earlier spec: it is about to begin.
        Some(_) | None => AppState::Running,
    }
}

/// Whether its Job is at work, or about to be: also one that is tried again.
pub fn runs(there: &AppInstallation) -> bool {
    let phase = there.status.as_ref().filter(|_| is_observed(there)).and_then(|s| s.phase.as_deref());
    there.metadata.deletion_timestamp.is_none() && phase.is_none_or(|phase| phase == phase::RUNNING)
}

/// What is wrong with an `App` itself, as its status says it.
pub fn refusal(app: &App) -> Option<&str> {
    let status = app.status.as_ref().filter(|s| s.observed_generation == app.metadata.generation)?;
    let ready = find(&status.conditions, ConditionType::Ready)?;
    let reason = ready.reason.parse().ok();
    matches!(reason, Some(Reason::NotAllowed | Reason::InvalidSpec)).then_some(&*ready.message)
}

/// The [`fingerprint`] of what is nobody's business.
pub const NOTHING: u64 = 0;

/// What a `Cluster` takes from an `App` or an `AppInstallation`, as one number. [`NOTHING`]: nothing, as from an App that is not required.
pub fn fingerprint(live: &Value) -> u64 {
    let mut hash = DefaultHasher::new();
    let meta = &live["metadata"];
    (&meta["uid"], &meta["generation"], &meta["deletionTimestamp"], &meta["labels"]).hash(&mut hash);
    if live["kind"] == "App" {
        if live["spec"]["required"] != true {
            return NOTHING;
        }
        let app = serde_json::from_value::<App>(live.clone()).ok();
        (app.as_ref().and_then(refusal), app.as_ref().map(ValuesDigests::recorded)).hash(&mut hash);
    } else {
        let there = serde_json::from_value::<AppInstallation>(live.clone()).ok();
        there.map(|there| state(&there) as u8).hash(&mut hash);
    }
    hash.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn installation(phase: &str, failures: i64, observed: i64) -> Value {
        let release = json!({"chart": {"oci": "oci://reg/web", "version": "1.0.0"}});
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation", "metadata": {"name": "web", "generation": 2},
            "spec": {
                "app": {"namespace": "n", "name": "web", "uid": "u"}, "cluster": {"name": "acme", "uid": "u"},
                "release": release, "digest": "d",
            },
            "status": {"observedGeneration": observed, "phase": phase, "failures": failures, "message": phase},
        })
    }

    #[test]
    fn one_that_is_tried_again_runs_and_counts_as_failed() {
        let of = |phase: &str, failures, observed| {
            let there: AppInstallation = serde_json::from_value(installation(phase, failures, observed)).unwrap();
            (state(&there), runs(&there))
        };
        assert_eq!(of(phase::RUNNING, 1, 2), (AppState::Failed, true));
        assert_eq!(of(phase::FAILED, 1, 2), (AppState::Failed, false));
        assert_eq!(of(phase::RUNNING, 0, 2), (AppState::Running, true));
        assert_eq!(of(phase::WAITING, 0, 2), (AppState::Waiting, false));
        assert_eq!(of(phase::DEPLOYED, 0, 2), (AppState::Deployed, false));
        assert_eq!(of(phase::FAILED, 3, 1), (AppState::Running, true), "that was an earlier spec");
    }

    #[test]
    fn only_what_a_cluster_says_of_apps_is_news_to_it() {
        let of = |phase, failures| fingerprint(&installation(phase, failures, 2));
        assert_eq!(of(phase::FAILED, 1), of(phase::RUNNING, 2), "it failed, and has not succeeded since");
        assert_ne!(of(phase::RUNNING, 0), of(phase::DEPLOYED, 0));
        let app = |required: bool, generation: i64, reason: &str| {
            let ready = json!({
                "type": "Ready", "status": "False", "reason": reason, "message": reason, "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let chart = json!({"oci": "oci://reg/web", "version": "1.0.0"});
            fingerprint(&json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "generation": generation},
                "spec": {"clusterSelector": {}, "chart": chart, "required": required},
                "status": {"observedGeneration": generation, "conditions": [ready]},
            }))
        };
        assert_eq!((app(false, 1, "Waiting"), app(false, 2, "NotAllowed")), (NOTHING, NOTHING));
        assert_ne!(app(true, 1, "Waiting"), app(true, 2, "Waiting"));
        assert_eq!(app(true, 1, "Waiting"), app(true, 1, "AppFailed"), "how it is elsewhere");
        assert_ne!(app(true, 1, "Waiting"), app(true, 1, "NotAllowed"));
    }

    #[test]
    fn what_is_in_its_config_maps_and_secrets_is_a_part_of_what_it_says() {
        let app = |from: Value, values: Value| -> App {
            let chart = json!({"oci": "oci://reg/web", "version": "1.0.0"});
            serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"},
                "spec": {"clusterSelector": {}, "chart": chart, "required": true, "valuesFrom": from}, "status": values,
            }))
            .unwrap()
        };
        let of = |from: &Value, values: Value| {
            let app = app(from.clone(), values);
            (newest(&app, &ValuesDigests::recorded(&app)), fingerprint(&json!(app)))
        };
        let (secret, map) = (json!([{"secretRef": {"name": "s"}}]), json!([{"configMapRef": {"name": "m"}}]));
        for (from, field, others) in
            [(&map, "valuesDigest", "secretsDigest"), (&secret, "secretsDigest", "valuesDigest")]
        {
            let without = app(from.clone(), json!({})).spec.release_of("web");
            assert_ne!(of(from, json!({field: "a"})).0, digest(&without, &ValuesDigests::default()));
            let (one, other) = (of(from, json!({field: "a"})), of(from, json!({field: "b"})));
            assert!(one.0 != other.0 && one.1 != other.1);
            assert_eq!(of(from, json!({field: "a", others: "a"})), one, "it names none of these any more");
        }
    }

    #[test]
    fn one_in_a_teams_namespace_is_for_clusters_there() {
        let app = |namespace: &str, spec: Value| -> App {
            let mut all = json!({"chart": {"oci": "oci://reg/web", "version": "1.0.0"}});
            all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web", "namespace": namespace}, "spec": all,
            }))
            .unwrap()
        };
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let cluster = ObjectKey::namespaced(Kind::Cluster, "team-a", "acme");
        let is_for = |app: &App| is_for(app, &cluster, &labels, "berth-system");
        let by = |env: &str| json!({"clusterSelector": {"matchLabels": {"env": env}}});
        assert!(is_for(&app("team-a", by("prod"))) && is_for(&app("berth-system", by("prod"))));
        assert!(!is_for(&app("team-b", by("prod"))) && !is_for(&app("team-a", by("test"))));
        let refs = |namespace: &str| json!({"clusterRefs": [{"name": "acme", "namespace": namespace}]});
        assert!(is_for(&app("berth-system", refs("team-a"))) && !is_for(&app("berth-system", refs("team-b"))));
        assert!(!is_for(&app("team-b", refs("team-a"))), "out of its scope");
    }
}
