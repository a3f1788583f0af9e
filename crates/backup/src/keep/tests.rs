//! What is left in a store, whatever fails and whoever is killed.

use super::*;
use berth_contract::backup::Subject;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;

const KEY: &str = "p/a/id/20260102T030405Z-7-0a1b2c3d.db";
/// Of half a day later, and of one day and an hour.
const SECOND: &str = "p/a/id/20260102T150405Z-7-0a1b2c3e.db";
const THIRD: &str = "p/a/id/20260103T040405Z-7-0a1b2c3f.db";

/// A store in memory. Its nth call fails, and with it all that follow, if it was killed.
#[derive(Debug, Default)]
struct Memory {
    objects: RefCell<BTreeMap<String, (Vec<u8>, Timestamp)>>,
    now: Cell<Timestamp>,
    calls: Cell<usize>,
    fails_at: Option<usize>,
    killed: bool,
    locks: bool,
    /// Says of this key that nothing is there.
    denies: Option<String>,
}

impl Memory {
    fn call(&self) -> Result<(), Problem> {
        self.calls.set(self.calls.get() + 1);
        let fails = self.fails_at.is_some_and(|at| self.calls.get() == at || self.killed && self.calls.get() > at);
        if fails { Err(Problem::brief(At::Store, "planted")) } else { Ok(()) }
    }

    fn keys(&self) -> Vec<String> {
        self.objects.borrow().keys().cloned().collect()
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        self.objects.borrow_mut().insert(key.into(), (bytes.into(), self.now.get()));
    }

    fn age(&self, hours: i64) {
        self.now.set(self.now.get() + SignedDuration::from_hours(hours));
    }
}

impl Remote for Memory {
    fn exists(&self, key: &str) -> Result<bool, Problem> {
        self.call()?;
        Ok(self.denies.as_deref() != Some(key) && self.objects.borrow().contains_key(key))
    }

    fn put_file(&self, key: &str, file: &Path) -> Result<(), Problem> {
        self.create(key, fs::read(file).unwrap())
    }

    fn create(&self, key: &str, bytes: Vec<u8>) -> Result<(), Problem> {
        self.call()?;
        if self.objects.borrow().contains_key(key) {
            return Err(Problem::taken("memory", key));
        }
        self.put(key, &bytes);
        Ok(())
    }

    fn read_back(&self, _: &str, _: u64, _: &Path) -> Result<(String, u64), Problem> {
        unreachable!()
    }

    fn read(&self, key: &str) -> Result<Vec<u8>, Problem> {
        self.call()?;
        Ok(self.objects.borrow().get(key).unwrap().0.clone())
    }

    fn delete(&self, key: &str) -> Result<Deletion, Problem> {
        self.call()?;
        if self.locks {
            return Ok(Deletion::Kept(Kept { until: None, message: "locked".into() }));
        }
        self.objects.borrow_mut().remove(key);
        Ok(Deletion::Gone)
    }

    fn list(&self, folder: &str) -> Result<Vec<Found>, Problem> {
        self.call()?;
        let all = self.objects.borrow();
        let found = all.iter().filter(|(key, _)| key.rsplit_once('/').unwrap().0 == folder);
        Ok(found.map(|(key, (_, at))| Found { key: key.clone(), at: *at }).collect())
    }
}

fn manifest(key: &str) -> Manifest {
    Manifest {
        key: key.into(),
        sha256: "ab".into(),
        size: 3,
        revision: 7,
        keys: 1,
        hash: 1,
        cluster_id: String::new(),
        etcd_version: "3.6.16".into(),
        taken_at: String::new(),
        verified_at: String::new(),
        of: Subject::default(),
    }
}

fn kept(store: &Memory, key: &str) -> Result<Manifest, Problem> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot.db");
    fs::write(&file, "etc").unwrap();
    keep(store, key, &file, || {
        store.call()?;
        Ok(manifest(key))
    })
}

fn whole(key: &str) -> Vec<String> {
    vec![key.to_owned(), manifest_key(key)]
}

/// Each call fails once, and each is the last before its process is killed. Then another backup comes, and a day later one more.
#[test]
fn nothing_is_left_that_was_not_proven_and_nothing_goes_that_was() {
    let calls = {
        let store = Memory::default();
        kept(&store, KEY).unwrap();
        assert_eq!(store.keys(), whole(KEY));
        store.calls.get()
    };
    assert!(calls >= 8, "mark, list, snapshot, proof, manifest, read, look, unmark: {calls}");
    for (at, killed) in (1..=calls).flat_map(|at| [(at, false), (at, true)]) {
        let mut store = Memory { fails_at: Some(at), killed, ..Memory::default() };
        let proven = kept(&store, KEY).is_ok();
        if !killed {
            // Only the mark of one that is proven may be left.
            let left: Vec<_> = store.keys().into_iter().filter(|key| !key.ends_with(MARK)).collect();
            assert_eq!(left, if proven { whole(KEY) } else { vec![] }, "call {at}");
        }
        store.fails_at = None;
        store.age(12);
        let before = store.keys();
        kept(&store, SECOND).unwrap();
        assert!(before.iter().all(|key| store.keys().contains(key)), "its process may be at work still: call {at}");
        store.age(13);
        kept(&store, THIRD).unwrap();
        let has = |key: &str| store.keys().contains(&key.to_owned());
        // A manifest that was written by one that was killed afterwards is of a snapshot that was proven.
        assert_eq!(has(KEY), has(&manifest_key(KEY)), "call {at}, killed {killed}: {:?}", store.keys());
        assert!(has(KEY) || !proven);
        assert!(store.keys().iter().all(|key| !key.ends_with(MARK)), "{:?}", store.keys());
        assert!(has(SECOND) && has(THIRD));
    }
}

/// One was killed before its proof. Another comes, later by so many hours of the store's clock, with this key.
#[test]
fn what_is_old_by_one_clock_alone_stays() {
    let tomorrow = THIRD;
    for (hours, key, goes) in [
        (25, tomorrow, true),
        (23, tomorrow, false),
        (25, SECOND, false),
        (25, "p/a/id/20250102T030405Z-7-0a1b2c3f.db", false),
        (25, "p/a/id/no-time.db", false),
    ] {
        let store = Memory::default();
        for key in [KEY.to_owned(), mark_of(KEY)] {
            store.put(&key, b"etc");
        }
        store.age(hours);
        kept(&store, key).unwrap();
        assert_eq!(!store.keys().contains(&KEY.to_owned()), goes, "{hours} {key}");
    }
}

#[test]
fn a_manifest_that_was_listed_needs_no_second_answer() {
    let store = Memory { denies: Some(manifest_key(KEY)), ..Memory::default() };
    for key in [KEY.to_owned(), mark_of(KEY), manifest_key(KEY)] {
        store.put(&key, b"etc");
    }
    store.age(25);
    kept(&store, THIRD).unwrap();
    assert!(whole(KEY).iter().all(|key| store.keys().contains(key)), "{:?}", store.keys());
    assert!(!store.keys().contains(&mark_of(KEY)));
}

/// Another one took it for abandoned.
#[test]
fn a_snapshot_that_is_gone_after_its_proof_is_no_backup() {
    let store = Memory::default();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot.db");
    fs::write(&file, "etc").unwrap();
    let problem = keep(&store, KEY, &file, || {
        store.delete(KEY)?;
        Ok(manifest(KEY))
    });
    let problem = problem.unwrap_err();
    assert!(
        problem.failure.at == At::Proof && !problem.lasting && problem.failure.message.contains(KEY),
        "{problem:?}"
    );
    assert!(store.keys().is_empty(), "{:?}", store.keys());
}

#[test]
fn what_has_no_mark_is_never_touched() {
    let store = Memory::default();
    let others = ["p/a/id/20250102T030405Z-7.db", "p/a/id/20250102T030405Z-8.db", "p/a/id/20250102T030405Z-8.json"];
    for key in others {
        store.put(key, b"of an earlier Berth, or its manifest was lost");
    }
    store.put("p/a/other/20250102T030405Z-8.unproven", b"another folder");
    store.age(1000);
    kept(&store, KEY).unwrap();
    assert_eq!(store.keys().len(), 6, "{:?}", store.keys());
}

#[test]
fn anothers_object_is_neither_overwritten_nor_deleted() {
    for (taken, beside) in [(KEY.to_owned(), vec![]), (manifest_key(KEY), vec![])] {
        let store = Memory::default();
        store.put(&taken, b"anothers");
        let problem = kept(&store, KEY).unwrap_err();
        assert!(problem.taken && problem.lasting, "{problem:?}");
        store.age(100);
        kept(&store, THIRD).unwrap();
        let left: Vec<_> = store.keys().into_iter().filter(|key| !key.contains("3f.")).collect();
        assert_eq!(left, [vec![taken.clone()], beside].concat());
        assert_eq!(store.objects.borrow()[&taken].0, b"anothers");
    }
}

#[test]
fn what_the_store_keeps_is_told_and_no_error() {
    let mut store = Memory { locks: true, ..Memory::default() };
    kept(&store, KEY).unwrap();
    assert_eq!(store.keys().len(), 3, "the mark stays, too");
    assert_eq!(discard(&store, KEY).unwrap().unwrap().message, "locked");
    store.locks = false;
    for _ in 0..2 {
        assert_eq!(discard(&store, KEY).unwrap(), None, "gone already is as good");
    }
    assert!(store.keys().is_empty());
}
