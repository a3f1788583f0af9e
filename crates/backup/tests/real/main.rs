//! `berth-backup` against a real etcd with TLS and a real S3 server: what it says is proven is proven, and nothing else.

#![allow(clippy::unwrap_used, clippy::panic)]

mod proxy;
mod world;

use berth_contract::backup::{At, Delete, Manifest, Outcome, Task};
use proxy::Fault;
use std::fs;
use world::{World, versions};

fn verified(outcome: &Outcome) -> &Manifest {
    match outcome {
        Outcome::Verified(manifest) => manifest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backup_is_what_etcd_had_and_can_be_restored_without_berth() {
    for version in versions() {
        let world = World::start(version);
        world.write(300);
        let (outcome, code) = world.take(&world.store());
        assert_eq!(code, 0, "{outcome:?}");
        let manifest = verified(&outcome);
        assert_eq!((manifest.keys, manifest.etcd_version.as_str()), (300, version));
        assert!(manifest.revision > 3 && manifest.key.starts_with("prod/team-a/acme/id/2"), "{manifest:?}");
        let beside = world.object(&manifest.key.replace(".db", ".json"));
        assert_eq!(&serde_json::from_slice::<Manifest>(&beside).unwrap(), manifest, "the manifest is beside it");
        assert_eq!(world.object(&manifest.key).len() as u64, manifest.size);
        assert_eq!(fs::read_dir(world.scratch()).unwrap().count(), 0, "scratch is left empty");
        world.write(301);
        assert_eq!(world.restored_by_hand(&world.object(&manifest.key)), manifest.keys, "with etcd's programs alone");

        let (second, _) = world.take(&world.store());
        assert!(verified(&second).revision > manifest.revision);
        assert_eq!(world.keys().len(), 4, "nothing is overwritten");
        let task = Task::Delete(Delete { store: world.store(), key: manifest.key.clone() });
        for _ in 0..2 {
            assert_eq!(world.run(&task, "secret"), (Outcome::Deleted, 0), "gone already is as good");
        }
        assert_eq!(world.keys().len(), 2);
    }
}

#[test]
fn what_is_wrong_is_told_without_credentials_and_tried_again_only_where_that_helps() {
    let world = World::start(versions()[0]);
    world.write(3);
    let refused = |store, secret: &str| {
        let (outcome, code) = world.run(&world.task(&store), secret);
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert!(
            !failure.message.contains(secret) && !failure.message.contains(world::ACCESS_KEY),
            "{}",
            failure.message
        );
        (failure.at, failure.message, code)
    };
    let (at, message, code) = refused(world.store(), "wrong-secret");
    assert_eq!((at, code), (At::Store, 42), "{message}");
    let mut nobody = world.store();
    nobody.endpoint = "https://127.0.0.1:1".into();
    let (at, message, code) = refused(nobody, "secret");
    assert_eq!((at, code), (At::Store, 42), "{message}");
    assert!(message.contains("no key ca.crt"), "{message}");
    assert!(world.keys().is_empty());
}

#[test]
fn a_store_that_gives_back_something_else_proves_nothing() {
    let world = World::start(versions()[0]);
    world.write(300);
    let (outcome, code) = world.take(&world.through(Fault::FlipAByte));
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!((failure.at, code), (At::Proof, 1), "{}", failure.message);
    assert!(failure.message.contains("the store gives back"), "{}", failure.message);
    assert!(world.keys().iter().all(|key| !key.contains(".json")), "without a manifest it is no backup");
    let (outcome, code) = world.take(&world.through(Fault::CutOnce));
    assert_eq!(code, 0, "a connection that is cut is asked again: {outcome:?}");
}
