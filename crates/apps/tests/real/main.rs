//! `berth-apps` with the real Helm 4, against a real kube-apiserver: whatever a release was left as, it is as asked for afterwards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "clients of others than the operator")]

mod drift;
mod world;

use berth_contract::apps::{At, Deployed, Outcome, Plain};
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
    assert!(
        fresh.mended.contains("pending-install") && fresh.mended.contains("rolled back to revision 1"),
        "{fresh:?}"
    );
    assert_eq!(world.word().as_deref(), Some("one"));
    let before = fresh.revision;
    world.killed_when(&world.deploy(&json!({"word": "two", "hang": true})), "pending-upgrade");
    let taken = deployed(&world.run(&world.deploy(&json!({"word": "two"}))));
    assert!(
        taken.mended.contains("pending-upgrade") && taken.mended.contains(&format!("to revision {before}")),
        "{taken:?}"
    );
    assert_eq!(world.word().as_deref(), Some("two"));
    assert_eq!(world.statuses().iter().filter(|status| *status == "deployed").count(), 1);
    // What is asked for by now is what was there before.
    world.killed_when(&world.deploy(&json!({"word": "three", "hang": true})), "pending-upgrade");
    let back = deployed(&world.run(&world.deploy(&json!({"word": "two"}))));
    assert!(!back.unchanged && back.mended.contains("rolled back"), "{back:?}");
    assert_eq!(world.word().as_deref(), Some("two"));
    // And uninstalled from there.
    world.killed_when(&world.deploy(&json!({"word": "four", "hang": true})), "pending-upgrade");
    assert_eq!(world.run_uninstall(), (Outcome::Uninstalled, 0));
    assert_eq!((world.word(), world.statuses().len()), (None, 0));
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn killed_anywhere_the_next_one_ends_it() {
    let world = World::start();
    for round in 0..12_u64 {
        let asked = world.deploy(&json!({"word": format!("round-{round}")}));
        world.killed_after(&asked, Duration::from_millis(150 * (round + 1)));
        let ended = deployed(&world.run(&asked));
        assert_eq!(world.word(), Some(format!("round-{round}")), "{ended:?}");
        let statuses = world.statuses();
        assert_eq!(statuses.iter().filter(|status| *status == "deployed").count(), 1, "{statuses:?}");
        assert_eq!(statuses.last().map(String::as_str), Some("deployed"), "{statuses:?}");
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
