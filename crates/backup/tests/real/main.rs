//! `berth-backup` against a real etcd with TLS and a real S3 server: what it says is proven is proven, and nothing else.

#![allow(clippy::unwrap_used, clippy::panic)]

mod odd;
mod proxied;
mod proxy;
mod world;

use berth_contract::backup::{
    At, Check, Delete, Earlier, Manifest, Outcome, Proof, REVISIONS_PER_EPOCH, Restore, Store, Subject, Take, Task,
};
use berth_testkit::s3::{Misbehaviour, Request, S3Proxy};
use proxy::Fault;
use std::fs;
use std::time::Duration;
use world::{World, versions};

fn verified(outcome: &Outcome) -> &Manifest {
    match outcome {
        Outcome::Verified(proof) => &proof.manifest,
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
fn what_a_member_holds_without_a_quorum_is_kept_if_that_is_asked_for() {
    for version in versions() {
        let world = World::start(version);
        world.write(300);
        let task = world.survivors();
        let (refused, _) = world.run(&world.task(&world.store()), "secret");
        assert!(
            matches!(&refused, Outcome::Failed(f) if f.at == At::Etcd),
            "nobody says that it is the newest: {refused:?}"
        );
        assert!(world.keys().is_empty());
        // Where all that are left are to be asked, one that does not answer is not left out: it may have more.
        let Task::Take(take) = task.clone() else { panic!("another task") };
        let silent = "https://127.0.0.1:1".to_owned();
        let members = [take.members.clone(), vec![silent.clone()]].concat();
        let (refused, _) = world.run(&Task::Take(Take { members, all: true, ..take.clone() }), "secret");
        assert!(matches!(&refused, Outcome::Failed(f) if f.message.contains(&silent)), "{refused:?}");
        assert!(world.keys().is_empty());
        let (outcome, code) = world.run(&Task::Take(Take { all: true, ..take }), "secret");
        assert_eq!(code, 0, "{outcome:?}");
        let manifest = verified(&outcome);
        assert_eq!(manifest.keys, 300);
        assert_eq!(world.restored_by_hand(&world.object(&manifest.key)), 300);
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

/// Whatever becomes of the older one, a new one is taken.
#[test]
fn an_older_backup_is_read_back_beside_a_new_one() {
    let world = World::start(versions()[0]);
    world.write(30);
    let old = verified(&world.take(&world.store()).0).clone();
    let reads = |store: &Store, wanted: &Manifest| {
        let earlier = Earlier { name: "old".into(), key: wanted.key.clone(), sha256: wanted.sha256.clone() };
        let Task::Take(take) = world.task(store) else { panic!("another task") };
        let (outcome, code) = world.run(&Task::Take(Take { earlier: Some(earlier.clone()), ..take }), "secret");
        assert_eq!(code, 0, "{outcome:?}");
        let Outcome::Verified(Proof { manifest, earlier: Some(read) }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(read.of, earlier);
        assert_ne!(manifest.key, old.key);
        let beside = world.object(&manifest.key.replace(".db", ".json"));
        assert_eq!(
            serde_json::from_slice::<Manifest>(&beside).unwrap(),
            manifest,
            "the manifest says nothing of others"
        );
        assert_eq!(fs::read_dir(world.scratch()).unwrap().count(), 0, "scratch is left empty");
        read.failure
    };
    assert_eq!(reads(&world.store(), &old), None);
    let failed = reads(&world.store(), &Manifest { sha256: "another".into(), ..old.clone() }).unwrap();
    assert_eq!(failed.at, At::Proof, "this may be another store: {failed:?}");
    world.spoil(&old.key, |bytes| bytes.truncate(bytes.len() / 2));
    let failed = reads(&world.store(), &old).unwrap();
    assert_eq!(failed.at, At::Damaged, "{failed:?}");
    assert!(failed.message.contains("cut or changed") && failed.message.contains(&old.key), "{failed:?}");
    world.remove(&old.key);
    let failed = reads(&world.store(), &old).unwrap();
    assert!(failed.at == At::Store && failed.message.contains("404"), "{failed:?}");
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

#[test]
fn a_store_that_is_slow_or_stalls_is_waited_for_or_told() {
    let world = World::start(versions()[0]);
    world.write(300);
    let (outcome, code) = world.take(&world.through(Fault::Delay(Duration::from_millis(300))));
    assert_eq!(code, 0, "a store that is slow is waited for: {outcome:?}");
    assert_eq!(verified(&outcome).keys, 300);

    world.store_timeout.set(3);
    for read in ["HEAD", "GET"] {
        let (outcome, code) = world.take(&world.through(Fault::StallOnce(read)));
        assert_eq!(code, 0, "{read} without an answer is asked again: {outcome:?}");
    }
    // Nobody knows whether it was written, until it is looked at.
    let before = world.keys();
    let (outcome, code) = world.take(&world.through(Fault::StallOnce("PUT")));
    assert_eq!(code, 0, "{outcome:?}");
    assert_eq!(world.keys().len(), before.len() + 2, "nothing else is left: {:?}", world.keys());
}

/// As a bucket with a default retention, whose answers are lost: it is backed up to, found fit, restored from, and keeps what is deleted.
#[test]
fn a_store_as_they_are_is_good_for_all_that_is_done_with_it() {
    let world = World::start(versions()[0]);
    world.write(300);
    let proxy = S3Proxy::start(world.s3.address());
    let store = Store { endpoint: proxy.endpoint(), ..world.store() };
    let odd = || {
        for request in [Request::Put, Request::Get, Request::Head, Request::List, Request::Delete] {
            proxy.plant(request, Misbehaviour::Late(502), 1);
        }
        proxy.plant(Request::Put, Misbehaviour::WantsChecksums, usize::MAX);
    };
    odd();
    let (outcome, code) = world.take(&store);
    assert_eq!(code, 0, "{outcome:?}");
    let manifest = verified(&outcome).clone();
    assert_eq!(world.keys().len(), 2, "nothing else is left: {:?}", world.keys());
    odd();
    let into = Subject { identity: "id".into(), ..Subject::default() };
    let check = Check { store: store.clone(), key: manifest.key.clone(), sha256: manifest.sha256.clone(), into };
    assert_eq!(world.run(&Task::Check(check), "secret"), (Outcome::Checked(manifest.clone()), 0));
    odd();
    let Task::Restore(task) = restore(&world, &manifest, 2) else { panic!("another task") };
    assert_eq!(world.run(&Task::Restore(Restore { store: store.clone(), ..task }), "secret"), (Outcome::Restored, 0));
    odd();
    let locked = "Access Denied because object protected by object lock.";
    proxy.plant(Request::Delete, Misbehaviour::Refuses(403, "AccessDenied", locked), usize::MAX);
    let task = Task::Delete(Delete { store: store.clone(), key: manifest.key.clone() });
    let (outcome, code) = world.run(&task, "secret");
    assert!(matches!(&outcome, Outcome::Kept(kept) if kept.message.contains(locked)) && code == 0, "{outcome:?}");
    assert_eq!(world.keys().len(), 2, "nothing is deleted");
}

/// As with a bucket: written, read back, restored and compared; found fit, put onto a member's volume, and deleted.
#[test]
fn a_volume_is_a_store_like_another() {
    for version in versions() {
        let world = World::start(version);
        world.write(300);
        let store = world.on_volume();
        let (outcome, code) = world.take(&store);
        assert_eq!(code, 0, "{outcome:?}");
        let manifest = verified(&outcome).clone();
        let at = |key: &str| std::path::Path::new(&store.directory).join(key);
        assert_eq!(manifest.keys, 300);
        assert_eq!(fs::metadata(at(&manifest.key)).unwrap().len(), manifest.size);
        let beside = fs::read(at(&manifest.key.replace(".db", ".json"))).unwrap();
        assert_eq!(serde_json::from_slice::<Manifest>(&beside).unwrap(), manifest);
        let names = fs::read_dir(at("prod/team-a/acme/id")).unwrap().count();
        assert_eq!(names, 2, "nothing that is not whole is left");
        assert_eq!(world.restored_by_hand(&fs::read(at(&manifest.key)).unwrap()), 300, "with etcd's programs alone");
        assert!(world.keys().is_empty(), "no server is asked");

        let check = Task::Check(Check {
            store: store.clone(),
            key: manifest.key.clone(),
            sha256: manifest.sha256.clone(),
            into: Subject { identity: "id".into(), ..Subject::default() },
        });
        assert_eq!(world.run(&check, "secret"), (Outcome::Checked(manifest.clone()), 0));
        let Task::Restore(task) = restore(&world, &manifest, 2) else { panic!("another task") };
        let task = Task::Restore(Restore { store: store.clone(), ..task });
        assert_eq!(world.run(&task, "secret"), (Outcome::Restored, 0));
        assert_eq!(world.restored_on_volume(&["/registry/300"]).1.trim(), "/registry/300\n300");

        // A byte that rots on the disk is seen before anything is restored.
        let mut bytes = fs::read(at(&manifest.key)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(at(&manifest.key), bytes).unwrap();
        let (rotten, _) = world.run(&check, "secret");
        assert!(matches!(&rotten, Outcome::Failed(f) if f.at == At::Damaged), "{rotten:?}");
        // Beside another manifest it is another store's.
        let beside = at(&manifest.key.replace(".db", ".json"));
        let of = |sha256: &str| serde_json::to_vec(&Manifest { sha256: sha256.into(), ..manifest.clone() }).unwrap();
        fs::write(&beside, of("other")).unwrap();
        let (unsure, _) = world.run(&check, "secret");
        assert!(matches!(&unsure, Outcome::Failed(f) if f.at == At::Proof), "{unsure:?}");
        fs::write(&beside, of(&manifest.sha256)).unwrap();

        let task = Task::Delete(Delete { store: store.clone(), key: manifest.key.clone() });
        for _ in 0..2 {
            assert_eq!(world.run(&task, "secret"), (Outcome::Deleted, 0));
        }
        assert_eq!(fs::read_dir(at("prod/team-a/acme/id")).unwrap().count(), 0);
        fs::remove_dir_all(&store.directory).unwrap();
        let (gone, code) = world.run(&world.task(&store), "secret");
        assert!(matches!(&gone, Outcome::Failed(f) if f.at == At::Store), "{gone:?}");
        assert_eq!(code, 42, "its volume is not mounted");
    }
}

fn restore(world: &World, manifest: &Manifest, epoch: i64) -> Task {
    Task::Restore(Restore {
        store: world.store(),
        key: manifest.key.clone(),
        sha256: manifest.sha256.clone(),
        identity: "id".into(),
        epoch,
        member: "etcd-0".into(),
        peer_url: "http://127.0.0.1:2380".into(),
        bump: REVISIONS_PER_EPOCH * (epoch - 1),
        keep_old_data: Some(7 * 24 * 3600),
    })
}

#[test]
fn a_backup_comes_back_onto_a_volume_with_a_higher_revision_and_the_old_data_stays() {
    for version in versions() {
        let world = World::start(version);
        world.write(300);
        let (outcome, _) = world.take(&world.store());
        let manifest = verified(&outcome).clone();
        let marker = |epoch: i64| serde_json::json!({"clusterUID": "id", "epoch": epoch, "member": "etcd-0"});
        let on_volume = || -> serde_json::Value {
            serde_json::from_slice(&fs::read(world.volume().join("berth-member.json")).unwrap()).unwrap()
        };
        // Twice, as when nobody heard of the first; then another restore of the same backup.
        for epoch in [2, 2, 3] {
            assert_eq!(world.run(&restore(&world, &manifest, epoch), "secret"), (Outcome::Restored, 0));
            assert_eq!(on_volume(), marker(epoch));
            let (revision, found) = world.restored_on_volume(&["/registry/300"]);
            assert_eq!(found.trim(), "/registry/300\n300");
            assert_eq!(revision, manifest.revision + REVISIONS_PER_EPOCH * (epoch - 1));
            // A client that saw more than the snapshot has is told, and does not wait for ever.
            let seen = format!("--rev={}", manifest.revision + 5);
            let (_, refused) = world.restored_on_volume(&["/registry/300", &seen]);
            assert!(refused.contains("has been compacted"), "{refused}");
        }
        assert!(world.volume().join("epoch-2/member/wal").exists(), "what was there stays");
        // It is there for longer than it is kept: the next one needs the room.
        fs::write(world.volume().join("epoch-2/berth-set-aside"), "1\n").unwrap();
        assert_eq!(world.run(&restore(&world, &manifest, 4), "secret"), (Outcome::Restored, 0));
        let is_there = |name: &str| world.volume().join(name).exists();
        assert!(!is_there("epoch-2") && is_there("epoch-3/berth-set-aside") && is_there("data"));
        let (outcome, code) = world.run(&restore(&world, &manifest, 2), "secret");
        assert!(
            matches!(&outcome, Outcome::Failed(f) if f.message.contains("came later")) && code == 42,
            "{outcome:?}"
        );
    }
}

/// The bug is planted: a client that saw more than the snapshot has waits for ever, and the test above would say so.
#[test]
fn a_restore_without_a_higher_revision_tells_no_client() {
    let world = World::start(versions()[0]);
    world.write(30);
    let (outcome, _) = world.take(&world.store());
    let manifest = verified(&outcome).clone();
    let Task::Restore(task) = restore(&world, &manifest, 2) else { panic!("another task") };
    assert_eq!(world.run(&Task::Restore(Restore { bump: 1, ..task }), "secret"), (Outcome::Restored, 0));
    let (_, said) = world.restored_on_volume(&["/registry/30", &format!("--rev={}", manifest.revision + 5)]);
    assert!(said.contains("future revision") && !said.contains("has been compacted"), "{said}");
}

#[test]
fn a_backup_of_another_etcd_is_served_under_the_identity_of_the_one_that_it_was_put_into() {
    let world = World::start(versions()[0]);
    world.write(300);
    let (outcome, _) = world.take(&world.store());
    let manifest = verified(&outcome).clone();
    let Task::Restore(own) = restore(&world, &manifest, 5) else { panic!("another task") };
    let task = Task::Restore(Restore { identity: "scratch".into(), member: "scratch-0".into(), ..own });
    assert_eq!(world.run(&task, "secret"), (Outcome::Restored, 0));
    let marker = fs::read_to_string(world.volume().join("berth-member.json")).unwrap();
    assert!(marker.contains("\"scratch\"") && marker.contains("scratch-0"), "{marker}");
    let (revision, found) = world.restored_on_volume(&["/registry/300"]);
    assert_eq!(found.trim(), "/registry/300\n300", "the object that is fished out");
    assert!(revision > REVISIONS_PER_EPOCH);
}

#[test]
fn a_backup_that_is_bad_is_refused_before_anything_is_touched() {
    let world = World::start(versions()[0]);
    world.write(30);
    let (outcome, _) = world.take(&world.store());
    let manifest = verified(&outcome).clone();
    let into = |identity: &str| Subject { identity: identity.into(), ..Subject::default() };
    let check = |into: Subject| {
        let (key, sha256) = (manifest.key.clone(), manifest.sha256.clone());
        world.run(&Task::Check(Check { store: world.store(), key, sha256, into }), "secret")
    };
    assert_eq!(check(into("id")), (Outcome::Checked(manifest.clone()), 0));
    let refused = |outcome: (Outcome, i32), word: &str| {
        let (Outcome::Failed(failure), code) = outcome else { panic!("{outcome:?}") };
        assert!(failure.message.contains(word), "{failure:?}");
        (failure.at, code)
    };
    assert_eq!(refused(check(into("other")), "another tenant"), (At::Proof, 42));
    let whose = |namespace: &str| Subject { namespace: namespace.into(), name: "acme".into(), ..Subject::default() };
    assert_eq!(refused(check(whose("team-b")), "of team-a/acme"), (At::Proof, 42));
    // One that is known by its key alone.
    let task = Check { store: world.store(), key: manifest.key.clone(), sha256: String::new(), into: whose("team-a") };
    assert_eq!(world.run(&Task::Check(task), "secret"), (Outcome::Checked(manifest.clone()), 0));
    world.spoil(&manifest.key, |bytes| bytes.truncate(bytes.len() / 2));
    let half = format!("({} of {} bytes)", manifest.size / 2, manifest.size);
    assert_eq!(refused(check(into("id")), &half), (At::Damaged, 42));
    assert_eq!(refused(world.run(&restore(&world, &manifest, 2), "secret"), &half), (At::Damaged, 42));
    // Which store this is, is not known without a manifest.
    world.remove(&manifest.key.replace(".db", ".json"));
    assert_eq!(refused(check(into("id")), "404"), (At::Store, 42));
    assert_eq!(refused(world.run(&restore(&world, &manifest, 2), "secret"), "SHA-256"), (At::Proof, 1));
    assert!(!world.volume().join("data").exists() && !world.volume().join("berth-member.json").exists());
}
