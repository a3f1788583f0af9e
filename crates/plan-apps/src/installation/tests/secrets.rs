//! Values, a login and a CA in Secrets: an installation takes the values that its `App` saw, at its turn, and the others as they are.

use super::*;
use crate::values::secrets::digest_of;

/// The Secret with values.
pub(super) fn named() -> ObjectKey {
    ObjectKey::namespaced(Kind::Secret, "berth-system", "passwords")
}

/// What names it.
pub(super) fn from() -> AppValues {
    let secret_ref = Some(AppSecret { name: named().name });
    AppValues { secret_ref, key: "values.yaml".into(), ..AppValues::default() }
}

/// A Secret holds that in a key.
pub(super) fn hold(it: &mut Fixture, secret: &ObjectKey, key: &str, value: &str) {
    let data = BTreeMap::from([(key.to_owned(), value.as_bytes().to_vec())]);
    it.observed.secrets.insert(secret.clone(), SecretFacts::read(APP_SECRET, &data).into());
    it.put(secret, json!({"metadata": {"uid": "secret-uid"}}));
}

/// The `App` says what is in it by now.
pub(super) fn say(it: &mut Fixture) {
    let digest = digest_of(&it.observed, "f", &named(), "values.yaml").unwrap();
    it.object.spec.secrets = vec![ReadSecret { name: named().name, key: "values.yaml".into(), digest }];
    it.change(|_| {});
}

fn with_values() -> Fixture {
    let mut it = Fixture::new();
    it.change(|release| release.values_from = vec![from()]);
    it
}

#[test]
fn values_are_taken_at_its_turn_and_no_others() {
    let mut it = with_values();
    it.settle();
    let untold =
        "Waiting False Waiting: waiting for App berth-system/web to say what is in key values.yaml of Secret passwords";
    assert_eq!(it.says(), untold);
    hold(&mut it, &named(), "values.yaml", "a: 1");
    it.settle();
    assert_eq!(it.says(), untold);
    say(&mut it);
    it.settle();
    it.deployed(1);
    it.settle();
    let first = "Deployed True AsExpected: revision 1 of release shop/web has chart web 1.0.0";
    assert_eq!(it.says(), first);

    hold(&mut it, &named(), "values.yaml", "a: 2");
    it.settle();
    assert!(it.job().is_none() && it.says() == first, "it is not its turn: {}", it.says());
    // What needs a Job for another reason would get what is not its turn, or what is there no more.
    it.epoch(2);
    it.settle();
    let turn = "Waiting False Waiting: waiting for its turn to get what key values.yaml of Secret berth-system/passwords holds by now: App berth-system/web says whose turn it is, and why nobody's";
    assert_eq!((it.job(), it.says()), (None, turn.to_owned()));
    say(&mut it);
    it.settle();
    it.deployed(2);
    it.settle();
    assert!(it.says().starts_with("Deployed True AsExpected: revision 2"), "{}", it.says());
    it.observed.secrets.remove(&named());
    it.settle();
    assert!(it.says().starts_with("Deployed True AsExpected: revision 2"), "what is there stays: {}", it.says());
    it.change(|release| release.chart.version = Some("2.0.0".into()));
    it.settle();
    assert!(
        it.says().contains("Secret berth-system/passwords, which spec.valuesFrom of the App names"),
        "{}",
        it.says()
    );
    // Whoever sees it cannot try what it is of.
    let text = serde_json::to_string(&it.object).unwrap();
    for value in ["a: 1", "a: 2"] {
        let digest = berth_plan::digest::sha256(value.as_bytes());
        assert!(!text.contains(value) && !text.contains(&digest[..20]), "{text}");
    }
    hold(&mut it, &named(), "values.yaml", "a: 2");
    let digest = |it: &Fixture| digest_of(&it.observed, "f", &named(), "values.yaml");
    let before = digest(&it).unwrap();
    it.put(&named(), json!({"metadata": {"uid": "another"}}));
    assert_ne!(digest(&it).unwrap(), before, "its UID is a part of it");
    it.observed.objects.remove(&named());
    assert!(digest(&it).is_err());
}

#[test]
fn nobody_looks_for_drift_with_values_that_are_not_deployed() {
    let mut it = with_values();
    it.change(|release| release.drift.mode = berth_api::app::DriftMode::Report);
    hold(&mut it, &named(), "values.yaml", "a: 1");
    say(&mut it);
    it.settle();
    it.deployed(1);
    it.settle();
    hold(&mut it, &named(), "values.yaml", "a: 2");
    let looks = |it: &mut Fixture| {
        (0..50).any(|_| {
            let after = it.settle().requeue_after.unwrap();
            it.now += after;
            it.settle();
            matches!(it.task(), Some(Task::Check(_)))
        })
    };
    assert!(!looks(&mut it));
    hold(&mut it, &named(), "values.yaml", "a: 1");
    assert!(looks(&mut it));
}

#[test]
fn a_new_login_is_no_change_and_what_failed_is_tried_again_with_it_at_once() {
    let login = ObjectKey::namespaced(Kind::Secret, "berth-system", "login");
    let mut it = Fixture::new();
    it.change(|release| release.chart.pull_secret_ref = Some(AppSecret { name: "login".into() }));
    it.settle();
    let missing = "Waiting False Waiting: waiting for Secret berth-system/login, which spec.chart.pullSecretRef of the App names: create it with type berth.dev/app, or correct the name";
    assert_eq!(it.says(), missing);
    let hold = |it: &mut Fixture, value: &str| hold(it, &login, ".dockerconfigjson", value);
    hold(&mut it, "one");
    it.settle();
    it.deployed(1);
    it.settle();
    hold(&mut it, "two");
    it.settle();
    assert!(it.job().is_none(), "what is deployed needs no chart");
    it.change(|release| release.chart.version = Some("2.0.0".into()));
    it.settle();
    it.fails();
    it.settle();
    assert!(it.job().is_none() && it.says().starts_with("Failed"), "{}", it.says());
    hold(&mut it, "three");
    it.settle();
    assert!(it.job().is_some(), "{}", it.says());
    assert_eq!(it.object.status.as_ref().unwrap().failures, Some(1), "it has not succeeded since");
    it.fails();
    it.settle();
    assert!(it.job().is_none(), "that was the one with it: {}", it.says());
    // By its name it is another spec, which nobody has tried.
    let other = ObjectKey::namespaced(Kind::Secret, "berth-system", "other");
    super::secrets::hold(&mut it, &other, ".dockerconfigjson", "four");
    it.change(|release| release.chart.pull_secret_ref = Some(AppSecret { name: "other".into() }));
    it.settle();
    assert!(it.job().is_some() && it.object.status.as_ref().unwrap().failures.is_none(), "{}", it.says());
    it.fails();
    it.settle();
    let after = it.reconcile().requeue_after.unwrap();
    assert!(after <= SLOW, "nobody tells of another login: {after:?}");
    it.change(|release| release.chart.pull_secret_ref = Some(AppSecret { name: "login".into() }));
    it.observed.secrets.remove(&login);
    it.settle();
    assert!(
        it.says().contains("Secret berth-system/login, which spec.chart.pullSecretRef of the App names"),
        "{}",
        it.says()
    );
}
