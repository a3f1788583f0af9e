//! What was changed or deleted since Helm left it.

use crate::world::World;
use crate::{deployed, failed};
use berth_contract::apps::{At, Check, Checked, Deployed, Drifted, Ignored, Known, Outcome, What};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::json;

#[track_caller]
fn checked(ended: &(Outcome, i32)) -> Checked {
    match ended {
        (Outcome::Checked(checked), 0) => checked.clone(),
        other => panic!("{other:?}"),
    }
}

/// Deployed with all kinds of objects.
fn there(world: &World) -> Deployed {
    deployed(&world.run(&world.deploy(&json!({"word": "one", "more": true}))))
}

fn told(one: &Drifted) -> (&str, &str, What, Vec<&str>, bool) {
    let paths = one.paths.iter().map(String::as_str).collect();
    (&one.object.kind, &one.object.name, one.what, paths, one.mended)
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is compared is tested beside it"]
fn what_was_changed_or_deleted_is_told_and_set_back_if_it_is_to_be() {
    let world = World::start();
    let there = there(&world);
    let look = |repair| checked(&world.run_check(&Check { repair, ..world.check(&there) }));
    // Defaults, `0644`, `yes`, lists, what has no namespace, and what is made anew at each rendering: all of it is as Helm left it.
    assert_eq!(look(false), Checked::default());
    assert_eq!(look(true), Checked::default());

    world.edit::<ConfigMap>("web", &json!({"data": {"word": "edited", "added": "by somebody"}}));
    world.edit::<Deployment>("web", &json!({"spec": {"template": {"metadata": {"annotations": {"mine": "x"}}}}}));
    world.edit::<Secret>("web", &json!({"stringData": {"word": "guessed"}}));
    world.delete::<Service>("web");
    let drift = look(false);
    let all: Vec<_> = drift.objects.iter().map(told).collect();
    let expected = [
        ("Secret", "web", What::Changed, vec!["/data/word"], false),
        ("ConfigMap", "web", What::Changed, vec!["/data/word"], false),
        ("Service", "web", What::Missing, vec![], false),
    ];
    assert_eq!((drift.count, &all[..]), (3, &expected[..]), "what the chart does not set is nobody's business");
    assert_eq!((world.word().as_deref(), world.statuses().len()), (Some("edited"), 1), "a look changes nothing");

    let drift = look(true);
    assert!(drift.count == 0 && drift.objects.iter().all(|one| one.mended), "{drift:?}");
    assert_eq!((world.word().as_deref(), world.statuses().len()), (Some("one"), 1), "no new revision");
    assert_eq!(look(false), Checked::default());
    let map: ConfigMap = world.get("web").unwrap();
    assert_eq!(map.data.unwrap()["added"], "by somebody");
    assert!(world.get::<Service>("web").is_some());
    // Helm goes on from there.
    deployed(&world.run(&world.deploy(&json!({"word": "two"}))));
    assert_eq!(world.word().as_deref(), Some("two"));
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is compared is tested beside it"]
fn what_is_made_anew_at_each_rendering_is_no_drift_and_no_reason_for_an_upgrade() {
    let world = World::start();
    let there = there(&world);
    let password = || world.get::<Secret>("web").unwrap().data.unwrap()["password"].clone();
    let first = password();
    for _ in 0..3 {
        let again = deployed(&world.run(&world.deploy(&json!({"word": "one", "more": true}))));
        assert!(again.unchanged && again.revision == 1, "{again:?}");
        assert_eq!(checked(&world.run_check(&Check { repair: true, ..world.check(&there) })), Checked::default());
    }
    assert_eq!((password(), world.statuses().len()), (first.clone(), 1));
    // Set back is what was recorded, and nothing new.
    world.edit::<Secret>("web", &json!({"stringData": {"password": "guessed"}}));
    let drift = checked(&world.run_check(&Check { repair: true, ..world.check(&there) }));
    assert_eq!((drift.count, drift.objects.len(), password()), (0, 1, first));
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is compared is tested beside it"]
fn what_others_may_change_stays_and_what_somebody_keeps_changing_is_left() {
    let world = World::start();
    let there = there(&world);
    let changed = json!({"data": {"word": "theirs", "other": "theirs"}});
    world.edit::<ConfigMap>("web", &changed);
    let ignore = vec![Ignored { kind: "ConfigMap".into(), paths: vec!["/data/word".into()], ..Ignored::default() }];
    let check = Check { repair: true, ignore, ..world.check(&there) };
    let drift = checked(&world.run_check(&check));
    assert_eq!(told(&drift.objects[0]), ("ConfigMap", "web", What::Changed, vec!["/data/other"], true));
    let map: ConfigMap = world.get("web").unwrap();
    let data = map.data.unwrap();
    assert_eq!((&*data["word"], &*data["other"]), ("theirs", "fixed"));

    world.edit::<ConfigMap>("web", &changed);
    let known = vec![Known { object: drift.objects[0].object.clone(), paths: vec!["/data/other".into()], leave: true }];
    let drift = checked(&world.run_check(&Check { known, ..check.clone() }));
    assert_eq!((drift.count, drift.objects[0].mended), (1, false));
    let all = Check { ignore: vec![Ignored { kind: "ConfigMap".into(), ..Ignored::default() }], ..check };
    world.delete::<ConfigMap>("web");
    assert_eq!(checked(&world.run_check(&all)), Checked::default());
}

/// Helm hands Berth's labels on to it, and the objects are as that release left them.
#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is compared is tested beside it"]
fn what_somebody_upgraded_by_hand_is_told_and_deployed_again() {
    let world = World::start();
    let there = there(&world);
    let replaced = |there: &Deployed| checked(&world.run_check(&world.check(there))).replaced;
    world.by_hand(&["upgrade", "web", &world.chart(), "--reuse-values", "--set=word=by hand"]);
    assert_eq!(world.word().as_deref(), Some("by hand"));
    assert_eq!(replaced(&there), "revision 2 is deployed, and Berth deployed revision 1");

    let values = json!({"word": "one", "more": true});
    let back = deployed(&world.run(&world.deploy_after(&there, &values)));
    assert!(back.mended.starts_with("revision 2 was deployed"), "{back:?}");
    assert_eq!(world.statuses(), ["superseded", "failed", "deployed"]);
    assert_eq!((back.revision, back.unchanged, world.word().as_deref()), (3, false, Some("one")));
    assert_eq!(replaced(&back), "");
    // Rolled back to what Berth deployed it is that; to what somebody else did, it is not.
    world.by_hand(&["rollback", "web", "2"]);
    assert_eq!(replaced(&back), "revision 4 is deployed, and Berth deployed revision 3");
    world.by_hand(&["rollback", "web", "3"]);
    assert_eq!(replaced(&back), "");
    let asked = world.deploy_after(&back, &values);
    assert!(deployed(&world.run(&asked)).unchanged);
    world.by_hand(&["rollback", "web", "2"]);
    assert_eq!(deployed(&world.run(&asked)).revision, 7);
    assert_eq!(world.word().as_deref(), Some("one"));
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is compared is tested beside it"]
fn what_cannot_be_set_back_is_told_with_its_reason() {
    let world = World::start();
    let there = there(&world);
    let check = Check { repair: true, ..world.check(&there) };
    let owner = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}});
    world.edit::<Service>("web", &owner);
    world.edit::<Secret>("web", &json!({"immutable": true, "stringData": {"word": "hunter2222"}}));
    // The Job has them beside it to keep them out of messages.
    world.secret("values-0.yaml", "password: hunter2222\n");
    let drift = checked(&world.run_check(&check));
    let all: Vec<_> = drift.objects.iter().map(|one| (&*one.object.kind, one.what, one.mended)).collect();
    assert_eq!((drift.count, &all[..]), (2, &[("Secret", What::Refused, false), ("Service", What::Taken, false)][..]));
    assert!(drift.objects[0].message.contains("422") && !drift.objects[0].message.contains("hunter2222"), "{drift:?}");
    assert!(drift.objects[1].message.ends_with("/other"), "{drift:?}");

    // Somebody went past Berth.
    let mut by_hand = world.deploy(&json!({"word": "by hand"}));
    by_hand.release.adopt = true;
    deployed(&world.run(&by_hand));
    let replaced = checked(&world.run_check(&check)).replaced;
    assert_eq!(replaced, "revision 2 is deployed, and Berth deployed revision 1");
    assert_eq!(world.run_uninstall(), (Outcome::Uninstalled, 0));
    assert_eq!(checked(&world.run_check(&check)).replaced, "it is not there any more");
    assert_eq!(world.word(), None, "Helm's releases are made by its own task");
    world.user("nobody");
    let (at, message, code) = failed(&world.run_check(&check));
    assert!(at == At::Tenant && code == 1 && message.contains("forbidden"), "{message}");
}
