//! Whoever may write Secrets in a release's namespace writes what Helm goes by, and Berth goes by its own record.

use crate::world::World;
use crate::{deployed, failed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_contract::apps::{At, Check, Outcome};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use std::io::Read as _;

const OTHERS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: others}\n";

/// The same revision with another content, or another number.
fn forged(of: &Secret, change: impl FnOnce(&mut Value)) -> Secret {
    let packed = STANDARD.decode(&of.data.as_ref().unwrap()["release"].0).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    change(&mut record);
    let mut secret = of.clone();
    secret.metadata.name = Some(format!("sh.helm.release.v1.web.v{}", record["version"]));
    let labels = secret.metadata.labels.as_mut().unwrap();
    labels.insert("version".into(), record["version"].to_string());
    labels.insert("status".into(), record["info"]["status"].as_str().unwrap().into());
    // Helm reads it without gzip, too.
    let text = ByteString(STANDARD.encode(record.to_string()).into_bytes());
    secret.data = Some([("release".to_owned(), text)].into());
    secret
}

/// Adds an object of others' to what Helm deletes with the next upgrade.
fn lists_others(record: &mut Value) {
    let manifest = format!("{}\n---\n{OTHERS}", record["manifest"].as_str().unwrap());
    record["manifest"] = json!(manifest);
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn a_revision_that_others_wrote_is_no_base_of_anything() {
    let world = World::start();
    let one = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    world.create_map("others");
    let is_there = || world.get::<ConfigMap>("others").is_some();
    let genuine = world.revision(1);
    for (status, label) in [("deployed", "deployed"), ("pending-upgrade", "pending-upgrade"), ("failed", "deployed")] {
        let newest = world.statuses().len() + 1;
        let mut newer = forged(&genuine, |record| {
            lists_others(record);
            record["version"] = json!(newest);
            record["info"]["status"] = json!(status);
        });
        newer.metadata.labels.as_mut().unwrap().insert("status".into(), label.into());
        world.write(&newer);
        let check = Check { repair: true, ..world.check(&one) };
        let (outcome, _) = world.run_check(&check);
        assert!(!matches!(&outcome, Outcome::Checked(checked) if checked.replaced.is_empty()), "{outcome:?}");
        let next = deployed(&world.run(&world.deploy_after(&one, &json!({"word": status}))));
        assert_eq!((world.word().as_deref(), is_there()), (Some(status), true), "{next:?}");
        // Its own revision is gone on with as long as it is there.
        assert_eq!(world.statuses().iter().filter(|status| *status == "deployed").count(), 1);
    }
    assert_eq!(world.run_uninstall_of(&one), (Outcome::Uninstalled, 0));
    assert!(is_there() && world.word().is_none());
}

#[test]
#[ignore = "make test-all: Helm 4, which only that builds; what is decided is tested with each state of a release"]
fn where_berths_own_revision_is_another_one_a_person_decides() {
    let world = World::start();
    let one = deployed(&world.run(&world.deploy(&json!({"word": "one"}))));
    let genuine = world.revision(1);
    world.write(&forged(&genuine, |record| {
        record["hooks"] = json!([{
            "name": "mine", "kind": "ConfigMap", "path": "web/templates/mine.yaml", "manifest": OTHERS,
            "events": ["pre-delete"], "last_run": {"phase": ""},
        }]);
    }));
    let next = world.deploy_after(&one, &json!({"word": "two"}));
    let (at, message, code) = failed(&world.run(&next));
    assert!(at == At::Foreign && code == 42 && message.contains("another content"), "{message}");
    let (at, message, code) = failed(&world.run_uninstall_of(&one));
    assert!(at == At::Foreign && code == 42 && message.contains("does not uninstall by it"), "{message}");
    assert!(world.get::<ConfigMap>("others").is_none(), "no hook of others ran");
    assert_eq!(world.word().as_deref(), Some("one"));
    // What no one can read in one way only.
    let mut stray = genuine.clone();
    stray.metadata.name = Some("stray".into());
    world.write(&stray);
    let (at, message, _) = failed(&world.run(&next));
    assert!(at == At::Foreign && message.starts_with("Secret stray"), "{message}");
    world.delete::<Secret>("stray");

    let mut adopts = next.clone();
    adopts.release.adopt = true;
    let there = deployed(&world.run(&adopts));
    assert_eq!((there.revision, world.word().as_deref()), (2, Some("two")));
    assert_eq!(world.run_uninstall_of(&there), (Outcome::Uninstalled, 0));
}
