//! `berth-apps` with the real Helm 4, against a real kube-apiserver: whatever a release was left as, it is as asked for afterwards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "clients of others than the operator")]

mod chart;
mod drift;
mod forged;
mod world;

use berth_contract::apps::{At, Deployed, Outcome, Plain};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;
use std::time::Duration;
use world::World;

fn deployed(ended: &(Outcome, i32)) -> Deployed {
    match ended {
        (Outcome::Deployed(deployed), 0) => deployed.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(ended: &(Outcome, i32)) -> (At, String, i32) {
    match ended {
        (Outcome::Failed(failure), code) => (failure.at, failure.message.clone(), *code),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn a_release_is_installed_left_alone_upgraded_and_uninstalled() {
    let world = World::start();
    let one = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    assert_eq!((one.revision, &*one.chart, &*one.version, one.unchanged), (1, "web", "1.0.0", false));
    assert_eq!(world.word().as_deref(), Some("one"));
    let again = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    assert_eq!((again.revision, again.unchanged), (1, true), "no upgrade without a difference");
    assert_eq!((&again.chart_digest, &again.values_digest), (&one.chart_digest, &one.values_digest));
    let two = deployed(&world.run(&world.deploy(&json!({}))));
    assert_eq!(two.revision, 2);
    assert_eq!(world.word().as_deref(), Some("none"), "a value that is left out counts no more");
    world.secret("values-0.yaml", "word: secret\n");
    let mut from_secret = world.deploy(&json!({}));
    from_secret.value_files = 1;
    assert_eq!(deployed(&world.run(&from_secret)).revision, 3);
    assert_eq!(world.word().as_deref(), Some("secret"));
    // By their place among those of Secrets.
    let word = |at, word: &str| Plain { at, values: json!({"word": word}).as_object().unwrap().clone() };
    let mut from_both = world.deploy(&json!({}));
    from_both.value_files = 2;
    from_both.plain = vec![word(1, "plain")];
    assert_eq!(deployed(&world.run(&from_both)).revision, 4);
    assert_eq!(world.word().as_deref(), Some("plain"));
    world.secret("values-1.yaml", "word: secret\n");
    from_both.plain = vec![word(0, "plain")];
    assert_eq!(deployed(&world.run(&from_both)).revision, 5);
    assert_eq!(world.word().as_deref(), Some("secret"));
    for _ in 0..2 {
        assert_eq!(world.run_uninstall(), (Outcome::Uninstalled, 0), "gone already is as good");
        assert_eq!((world.word(), world.statuses().len()), (None, 0));
    }
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn what_somebody_died_on_is_taken_up() {
    let world = World::start();
    // Nothing runs Jobs here: a hook hangs until it is killed.
    world.killed_when(&world.deploy(&json!({"word": "one", "hang": true})), "pending-install");
    let fresh = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    assert!(fresh.mended.contains("revision 1 was pending-install"), "{fresh:?}");
    assert_eq!(world.word().as_deref(), Some("one"));
    // Where none was deployed Helm goes on from the last, and supersedes it.
    assert_eq!(world.statuses(), ["superseded", "deployed"]);
    world.killed_when(&world.deploy_after(&fresh, &json!({"word": "two", "hang": true})), "pending-upgrade");
    let taken = deployed(&world.run(&world.deploy_after(&fresh, &json!({"word": "two"}))));
    assert!(
        taken.mended.contains("revision 3 was pending-upgrade") && taken.mended.ends_with("from revision 2"),
        "{taken:?}"
    );
    assert_eq!(world.word().as_deref(), Some("two"));
    assert_eq!(world.statuses(), ["superseded", "superseded", "failed", "deployed"]);
    // What is asked for by now is what was there before.
    world.killed_when(&world.deploy_after(&taken, &json!({"word": "three", "hang": true})), "pending-upgrade");
    let back = deployed(&world.run(&world.deploy_after(&taken, &json!({"word": "two"}))));
    assert!(!back.unchanged && back.mended.contains("pending-upgrade"), "{back:?}");
    assert_eq!(world.word().as_deref(), Some("two"));
    // And uninstalled from there.
    world.killed_when(&world.deploy_after(&back, &json!({"word": "four", "hang": true})), "pending-upgrade");
    assert_eq!(world.run_uninstall_of(&back), (Outcome::Uninstalled, 0));
    assert_eq!((world.word(), world.statuses().len()), (None, 0));
}

/// What a revision brought that nobody ended is nothing to delete: it may hold data.
#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn what_a_dead_revision_brought_stays() {
    let world = World::start();
    let one = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    // No pod binds the claim, so Helm waits for it until it is killed.
    let mut two = world.deploy_after(&one, &json!({"word": "two", "volume": true}));
    two.wait = true;
    world.killed_once(&two, || world.get::<PersistentVolumeClaim>("data").is_some());
    assert_eq!(world.statuses(), ["deployed", "pending-upgrade"]);
    let uid = || world.get::<PersistentVolumeClaim>("data").unwrap().metadata.uid;
    let first = uid();
    let back = deployed(&world.run(&world.deploy_after(&one, &json!({"word": "back"}))));
    assert_eq!((uid(), world.word().as_deref()), (first.clone(), Some("back")));
    // The next one that has it takes it over, by whose it says it is.
    two.wait = false;
    two.release = world.deploy_after(&back, &json!({})).release;
    let again = deployed(&world.run(&two));
    assert_eq!((uid(), world.word().as_deref()), (first, Some("two")));
    assert_eq!(world.run_uninstall_of(&again), (Outcome::Uninstalled, 0));
    assert!(world.get::<PersistentVolumeClaim>("data").is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()));
}

/// Somebody else's release with data, which could not be taken over.
#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn what_could_not_be_taken_over_is_given_back() {
    let world = World::start();
    world.by_hand(&["install", "web", &world.chart(), "--create-namespace", "--set=word=theirs"]);
    let mut adopts = world.deploy(&json!({"word": "mine", "hang": true}));
    adopts.release.adopt = true;
    world.killed_when(&adopts, "pending-upgrade");
    adopts.release.adopt = false;
    assert_eq!(failed(&world.run(&adopts)).0, At::Foreign, "it can be taken back");
    assert_eq!(world.run_uninstall(), (Outcome::Uninstalled, 0));
    assert_eq!((world.word().as_deref(), world.statuses()), (Some("theirs"), vec!["deployed".into(), "failed".into()]));
    // Its owner goes on, and Helm hands the labels of the try on.
    world.by_hand(&["upgrade", "web", &world.chart(), "--set=word=next"]);
    assert_eq!(world.run_uninstall(), (Outcome::Uninstalled, 0));
    assert_eq!(world.word().as_deref(), Some("next"));
    let labels = world.revision(3).metadata.labels.unwrap();
    assert!(!labels.contains_key("berth.dev/app-installation") && labels["status"] == "deployed", "{labels:?}");
    assert_eq!(failed(&world.run(&world.deploy(&json!({"word": "mine"})))).0, At::Foreign);
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn a_hook_that_takes_too_long_leaves_what_was_there_the_base() {
    let world = World::start();
    let one = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    let mut two = world.deploy_after(&one, &json!({"word": "two", "hang": true}));
    two.release.timeout = 1;
    let (at, message, code) = failed(&world.run(&two));
    assert_eq!((at, code), (At::Release, 42), "{message}");
    assert_eq!(world.statuses(), ["deployed", "failed"]);
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn killed_anywhere_the_next_one_ends_it() {
    let world = World::start();
    let mut there = Deployed::default();
    for round in 0..12_u64 {
        // By turns without a record, as after a restore of the meta cluster.
        let values = json!({"word": format!("round-{round}")});
        let asked = if round % 2 == 0 { world.deploy(&values) } else { world.deploy_after(&there, &values) };
        world.killed_after(&asked, Duration::from_millis(150 * (round + 1)));
        let ended = deployed(&world.run(&asked));
        assert_eq!(world.word(), Some(format!("round-{round}")), "{ended:?}");
        let statuses = world.statuses();
        assert_eq!(statuses.iter().filter(|status| *status == "deployed").count(), 1, "{statuses:?}");
        assert_eq!(statuses.last().map(String::as_str), Some("deployed"), "{statuses:?}");
        there = ended;
    }
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn what_cannot_be_is_told_with_its_reason() {
    let world = World::start();
    let mut others = world.deploy(&json!({"word": "theirs"}));
    others.release.installation = "other".into();
    deployed(&world.run(&others));
    let mine = world.deploy(&json!({"word": "mine"}));
    let (at, message, code) = failed(&world.run(&mine));
    assert_eq!((at, code), (At::Foreign, 42), "{message}");
    assert_eq!(world.run_uninstall(), (Outcome::Uninstalled, 0));
    assert_eq!(world.word().as_deref(), Some("theirs"), "somebody else's is left alone");
    let mut adopts = mine.clone();
    adopts.release.adopt = true;
    assert_eq!(deployed(&world.run(&adopts)).revision, 2);
    assert_eq!(world.word().as_deref(), Some("mine"));

    let mut other_version = mine.clone();
    other_version.chart.version = "9.9.9".into();
    let (at, message, code) = failed(&world.run(&other_version));
    assert_eq!((at, code), (At::Registry, 42), "{message}");
    let mut other_digest = mine.clone();
    other_digest.chart.digest = format!("sha256:{}", "0".repeat(64));
    let (at, message, _) = failed(&world.run(&other_digest));
    assert!(at == At::Chart && message.contains("its digest is sha256:"), "{message}");
    world.secret("values-0.yaml", "broken: hunter2222\n");
    let mut broken = mine.clone();
    broken.value_files = 1;
    let (at, message, code) = failed(&world.run(&broken));
    assert_eq!((at, code), (At::Release, 42), "{message}");
    assert!(!message.contains("hunter2222"), "{message}");
    assert_eq!(world.word().as_deref(), Some("mine"), "what fails changes nothing that is there");
    world.user("nobody");
    let (at, message, code) = failed(&world.run(&mine));
    assert!(at == At::Tenant && code == 1 && message.contains("forbidden"), "{message}");
}
