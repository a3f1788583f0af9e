//! What is on a volume is whole, and nothing else is touched.

use super::*;
use std::os::unix::fs::symlink;

fn volume(root: &Path) -> Volume {
    let store = Store { directory: root.display().to_string(), bucket: "backups".into(), ..Store::default() };
    Volume::open(&store).unwrap()
}

fn message(result: Result<(), Problem>) -> String {
    result.unwrap_err().failure.message
}

#[test]
fn nothing_is_overwritten_and_what_a_dead_one_left_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = volume(dir.path());
    store.create("team-a/acme/id/1.json", b"one".to_vec()).unwrap();
    let again = store.create("team-a/acme/id/1.json", b"two".to_vec()).unwrap_err();
    assert!(again.lasting && again.failure.message.contains("nothing is overwritten"), "{again:?}");
    assert_eq!(store.read("team-a/acme/id/1.json").unwrap(), b"one");
    let beside = dir.path().join("team-a/acme/id");
    let names = || fs::read_dir(&beside).unwrap().flatten().count();
    assert_eq!(names(), 1, "no other name is left");
    fs::write(beside.join(".partial-3.db-1"), "dead").unwrap();
    let written = File::create(beside.join(".partial-4.db-1")).unwrap();
    written.try_lock().unwrap();
    store.create("team-a/acme/id/2.json", b"two".to_vec()).unwrap();
    assert!(!beside.join(".partial-3.db-1").exists(), "its writer is dead");
    assert!(beside.join(".partial-4.db-1").exists(), "it is being written");
    assert!(store.exists("team-a/acme/id/2.json").unwrap() && !store.exists("other/any.json").unwrap());
    for _ in 0..2 {
        store.delete("team-a/acme/id/2.json").unwrap();
    }
    assert!(!store.exists("team-a/acme/id/2.json").unwrap());
}

#[test]
fn a_name_that_a_file_has_got_already_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to, other] = ["from", "to", "other"].map(|name| dir.path().join(name));
    for file in [&from, &other] {
        fs::write(file, "same").unwrap();
    }
    fs::hard_link(&from, &to).unwrap();
    link(&from, &to).unwrap();
    assert_eq!(link(&from, &other).unwrap_err().kind(), ErrorKind::AlreadyExists, "of the same bytes");
    symlink(&from, dir.path().join("symbolic")).unwrap();
    assert!(link(&from, &dir.path().join("symbolic")).is_err());
}

#[test]
fn what_could_not_be_written_whole_has_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = volume(dir.path());
    let full = store.put("a/1.db", |file| {
        file.write_all(b"half")?;
        Err(io::Error::from(ErrorKind::StorageFull).into())
    });
    let full = full.unwrap_err();
    assert!(!full.lasting && full.failure.message.contains("It is full: request more storage"), "{full:?}");
    assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 0);
    for (kind, word) in
        [(ErrorKind::ReadOnlyFilesystem, "can only be read"), (ErrorKind::PermissionDenied, "user and group 65532")]
    {
        let problem = store.put("a/1.db", |_| Err(io::Error::from(kind).into())).unwrap_err();
        assert!(problem.lasting && problem.failure.message.contains(word), "{problem:?}");
    }
}

#[test]
fn no_link_leads_out_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("volume"), dir.path().join("outside"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("tls.key"), "secret").unwrap();
    let store = volume(&root);
    symlink(&outside, root.join("a")).unwrap();
    symlink(outside.join("tls.key"), root.join("b.json")).unwrap();
    for key in ["a/tls.key", "b.json", "../outside/tls.key", "/etc/hostname"] {
        assert!(message(store.read(key).map(drop)).contains("is not in it"), "{key}");
        assert!(message(store.create(key, b"x".to_vec())).contains("is not in it"), "{key}");
        assert!(message(store.delete(key).map(drop)).contains("is not in it"), "{key}");
    }
    assert_eq!(fs::read_to_string(outside.join("tls.key")).unwrap(), "secret");
    assert!(message(store.read("none.json").map(drop)).contains("cannot read none.json"));
}
