//! Values in ConfigMaps and Secrets.

use super::*;
use berth_api::app::{APP_SECRET, AppConfigMap, AppSecret, AppValues};
use berth_plan::SecretFacts;

pub(crate) fn values_from(app: &mut App) {
    let from = AppConfigMap { name: "web-values".into(), optional: false };
    app.spec.release.values_from =
        vec![AppValues { config_map_ref: Some(from), key: "values.yaml".into(), ..AppValues::default() }];
}

fn config_map() -> ObjectKey {
    ObjectKey::namespaced(Kind::ConfigMap, OPERATOR, "web-values")
}

pub(crate) fn hold(it: &mut Fixture, data: &Value, label: &str) {
    let metadata = json!({"name": "web-values", "namespace": OPERATOR, "labels": {labels::APP_VALUES: label}});
    it.observed.objects.insert(config_map(), json!({"metadata": metadata, "data": data}));
}

/// What each `Cluster` has of the ConfigMap.
fn told(it: &Fixture) -> Vec<(String, String)> {
    let all = it.observed.objects.iter().filter(|(key, _)| key.kind == Kind::AppInstallation);
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    all.map(|(_, of)| (text(&of["spec"]["cluster"]["name"]), text(&of["spec"]["configMaps"][0]["values"]))).collect()
}

#[test]
fn a_change_of_a_config_map_goes_wave_by_wave_and_what_cannot_be_used_changes_nothing() {
    type Break = fn(&mut Fixture);
    let mut it = Fixture::new(OPERATOR);
    in_waves(&mut it.app);
    values_from(&mut it.app);
    for (name, of) in [("canary", "canary"), ("rest", "none")] {
        it.cluster("team-a", name);
        tier(&mut it, name, of);
    }
    let planned = it.reconcile();
    assert!(it.installed().is_empty() && planned.requeue_after == Some(WAITING));
    let missing = "False Waiting: waiting for key values.yaml of ConfigMap berth-system/web-values, which spec.valuesFrom names: create it, with the label berth.dev/app-values=true, or correct the name. What is deployed stays as it is";
    assert_eq!(it.ready(), missing);

    let is = |it: &Fixture, canary: &str, rest: &str| {
        assert_eq!(told(it), [("canary".to_owned(), canary.to_owned()), ("rest".to_owned(), rest.to_owned())]);
    };
    let (one, two) = (r#"{"size":1}"#, r#"{"size":2}"#);
    let through = |it: &mut Fixture| {
        for name in ["canary", "rest"] {
            it.reconcile();
            it.says(name, phase::DEPLOYED, 0);
        }
        it.reconcile();
    };
    hold(&mut it, &json!({"values.yaml": "size: 1"}), "true");
    through(&mut it);
    is(&it, one, one);
    assert_eq!(it.ready(), "True AsExpected: deployed in 2 Clusters");
    let planned = it.reconcile();
    assert!(planned.plan.is_empty() && planned.requeue_after == Some(SLOW) && planned.due.is_none(), "{planned:?}");
    let digest = it.app.status.clone().unwrap().values_digest.unwrap();
    hold(&mut it, &json!({"values.yaml": "size: 1 # a comment"}), "true");
    assert!(it.reconcile().plan.is_empty());

    hold(&mut it, &json!({"values.yaml": "size: 2"}), "true");
    assert!(it.reconcile().due.is_some());
    is(&it, two, one);
    assert!(it.ready().contains("at wave 1 of 3 (canary)"), "{}", it.ready());
    it.says("canary", phase::DEPLOYED, 0);

    // Nothing comes or goes while it cannot be used, amid a rollout or at rest.
    let broken: [(&str, Break); 4] = [
        ("False Waiting: waiting for key values.yaml of ConfigMap", |it| {
            it.observed.objects.remove(&config_map());
        }),
        ("False Waiting: waiting for key values.yaml of ConfigMap", |it| hold(it, &json!({}), "true")),
        ("False InvalidSpec: spec.valuesFrom: key values.yaml of ConfigMap", |it| {
            hold(it, &json!({"values.yaml": "a: ["}), "true");
        }),
        ("False InvalidSpec: spec.valuesFrom: ConfigMap berth-system/web-values lacks the label", |it| {
            hold(it, &json!({"values.yaml": "size: 3"}), "");
        }),
    ];
    for (says, break_it) in broken {
        break_it(&mut it);
        assert!(it.reconcile().plan.is_empty(), "{says}");
        is(&it, two, one);
        assert!(it.ready().starts_with(says), "{}", it.ready());
        assert_eq!(it.app.status.as_ref().unwrap().selected, Some(2));
    }
    hold(&mut it, &json!({"values.yaml": "size: 2"}), "true");
    it.reconcile();
    is(&it, two, two);
    through(&mut it);
    let now = it.app.status.clone().unwrap().values_digest.unwrap();
    assert_ne!(digest, now);
    it.observed.objects.remove(&config_map());
    assert!(it.reconcile().plan.is_empty());
    let status = it.app.status.clone().unwrap();
    assert_eq!((status.deployed, status.values_digest), (Some(2), Some(now)), "what is there counts as it did");

    it.app.spec.release.values_from[0].config_map_ref.as_mut().unwrap().optional = true;
    through(&mut it);
    is(&it, "", "");
    it.app.spec.release.values_from.clear();
    through(&mut it);
    assert_eq!(it.app.status.as_ref().unwrap().values_digest, None);
    assert_eq!(it.ready(), "True AsExpected: deployed in 2 Clusters");
}

pub(crate) fn values_from_secret(app: &mut App) {
    let secret_ref = Some(AppSecret { name: "passwords".into() });
    app.spec.release.values_from = vec![AppValues { secret_ref, key: "values.yaml".into(), ..AppValues::default() }];
}

fn hold_secret(it: &mut Fixture, value: &str) {
    let secret = ObjectKey::namespaced(Kind::Secret, OPERATOR, "passwords");
    let data = BTreeMap::from([("values.yaml".to_owned(), value.as_bytes().to_vec())]);
    it.observed.objects.insert(secret.clone(), json!({"metadata": {"uid": "secret-uid"}}));
    it.observed.secrets.insert(secret, SecretFacts::read(APP_SECRET, &data).into());
}

#[test]
fn a_change_of_a_secret_goes_wave_by_wave_and_what_cannot_be_used_changes_nothing() {
    let mut it = Fixture::new(OPERATOR);
    in_waves(&mut it.app);
    values_from_secret(&mut it.app);
    for (name, of) in [("canary", "canary"), ("rest", "none")] {
        it.cluster("team-a", name);
        tier(&mut it, name, of);
    }
    it.reconcile();
    let missing = "False Waiting: waiting for Secret berth-system/passwords, which spec.valuesFrom names: create it with type berth.dev/app, or correct the name. What is deployed stays as it is";
    assert_eq!((it.installed().len(), it.ready()), (0, missing.to_owned()));
    let told = |it: &Fixture| -> Vec<String> {
        let all = it.observed.objects.iter().filter(|(key, _)| key.kind == Kind::AppInstallation);
        all.map(|(_, of)| of["spec"]["secrets"][0]["digest"].as_str().unwrap_or_default().to_owned()).collect()
    };
    hold_secret(&mut it, "a: 1");
    for name in ["canary", "rest"] {
        it.reconcile();
        it.says(name, phase::DEPLOYED, 0);
    }
    let planned = it.reconcile();
    assert!(planned.plan.is_empty() && planned.requeue_after == Some(SLOW) && planned.due.is_none(), "{planned:?}");
    assert_eq!(it.ready(), "True AsExpected: deployed in 2 Clusters");
    let first = told(&it);
    assert!(first[0] == first[1] && first[0].len() == 40, "{first:?}");

    hold_secret(&mut it, "a: 2");
    it.reconcile();
    let now = told(&it);
    assert!(now[0] != first[0] && now[1] == first[1], "{now:?}");
    assert!(it.ready().contains("at wave 1 of 3 (canary)"), "{}", it.ready());
    it.says("canary", phase::DEPLOYED, 0);
    let secrets = std::mem::take(&mut it.observed.secrets);
    assert!(it.reconcile().plan.is_empty() && it.ready() == missing, "{}", it.ready());
    assert_eq!((told(&it), it.app.status.as_ref().unwrap().selected), (now.clone(), Some(2)));
    it.observed.secrets = secrets;
    it.reconcile();
    assert_eq!(told(&it), [&*now[0], &*now[0]]);
    it.says("rest", phase::DEPLOYED, 0);
    it.reconcile();
    assert_eq!(it.ready(), "True AsExpected: deployed in 2 Clusters");
    let status = serde_json::to_string(&it.app.status).unwrap();
    assert!(status.contains("secretsDigest") && !status.contains("valuesDigest"), "{status}");
}

#[test]
fn one_that_is_deleted_is_uninstalled_though_its_config_map_is_gone() {
    let mut it = Fixture::new(OPERATOR);
    values_from(&mut it.app);
    hold(&mut it, &json!({"values.yaml": "size: 1"}), "true");
    it.cluster("team-a", "acme");
    it.reconcile();
    it.observed.objects.remove(&config_map());
    it.app.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap());
    it.reconcile();
    assert!(it.installed().is_empty() && it.reconcile().plan.finished);
}
