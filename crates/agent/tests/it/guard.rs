//! `berth-agent guard` as a pod runs it: files in, exit code and termination message out.

use std::{fs, path::Path, process::Command};

fn guard(volume: &Path, member: &str, state: &str) -> (i32, String) {
    guard_told(volume, member, &format!(r#"{{"clusterUID": "u", "epoch": 1, "state": "{state}", "later": true}}"#))
}

fn guard_told(volume: &Path, member: &str, told: &str) -> (i32, String) {
    let bootstrap = volume.with_extension("bootstrap.json");
    let message = volume.with_extension("termination-log");
    let _ = fs::remove_file(&message);
    fs::write(&bootstrap, told).unwrap();
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let status = Command::new(env!("CARGO_BIN_EXE_berth-agent"))
        .args(["guard".to_owned(), flag("data-dir", &volume.join("data")), format!("--member={member}")])
        .args([flag("bootstrap", &bootstrap), flag("termination-log", &message)])
        .args(["--", "touch"])
        .arg(volume.with_extension("started"))
        .status()
        .unwrap();
    let started = fs::remove_file(volume.with_extension("started")).is_ok();
    assert_eq!(started, status.success(), "etcd runs exactly if it may");
    (status.code().unwrap(), fs::read_to_string(&message).unwrap_or_default())
}

#[test]
fn life_of_a_volume() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    assert_eq!(guard(&volume, "e-0", "Bootstrapping"), (0, String::new()), "first start");
    assert_eq!(guard(&volume, "e-0", "Bootstrapping"), (0, String::new()), "etcd never came up");
    let wal = volume.join("data/member/wal");
    fs::create_dir_all(&wal).unwrap();
    fs::write(wal.join("0000000000000000-0000000000000000.wal"), "").unwrap();
    assert_eq!(guard(&volume, "e-0", "Established"), (0, String::new()), "restart");
    let (code, message) = guard(&volume, "e-1", "Established");
    assert_eq!(code, 42);
    assert!(message.starts_with("ForeignData: "), "{message}");
    fs::remove_dir_all(volume.join("data")).unwrap();
    let (code, message) = guard(&volume, "e-0", "Established");
    assert_eq!(code, 42);
    assert!(message.starts_with("DataLost: "), "{message}");
    fs::remove_dir_all(&volume).unwrap();
    fs::create_dir(&volume).unwrap();
    assert_eq!(guard(&volume, "e-0", "Established").0, 42, "a new volume in an old epoch");
}

#[test]
fn a_member_that_was_seen_does_not_come_back_empty_while_others_are_awaited() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    let told = r#"{"clusterUID": "u", "epoch": 1, "state": "Bootstrapping", "joined": ["e-0","e-1"]}"#;
    let (code, message) = guard_told(&volume, "e-0", told);
    assert_eq!(code, 42);
    assert!(message.starts_with("DataLost: "), "{message}");
    assert_eq!(guard_told(&volume, "e-2", told), (0, String::new()), "never seen");
}

#[test]
fn what_cannot_be_read_proves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    assert_eq!(guard(&volume, "e-0", "Nonsense"), (1, String::new()));
    fs::write(volume.join("data"), "a file").unwrap();
    assert_eq!(guard(&volume, "e-0", "Bootstrapping").0, 1);
}

/// Old data goes once it was there for long enough, where a member goes on with its own data; never before it joined, and never where nobody
/// said for how long it is kept.
#[test]
fn old_data_is_deleted_when_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    for old in ["epoch-1", "removed-8e", "epoch-1.bak", "data"] {
        let wal = volume.join(old).join("member/wal");
        fs::create_dir_all(&wal).unwrap();
        fs::write(wal.join("0000000000000000-0000000000000000.wal"), old).unwrap();
    }
    fs::write(volume.join("berth-member.json"), r#"{"clusterUID":"u","epoch":2,"member":"e-0"}"#).unwrap();
    let told = r#"{"clusterUID": "u", "epoch": 2, "state": "Established", "restored": true, "keepOldData": 604800}"#;
    let left = || {
        let all = ["epoch-1", "removed-8e", "epoch-1.bak", "data"];
        all.into_iter().filter(|name| volume.join(name).exists()).collect::<Vec<_>>()
    };
    let all = ["epoch-1", "removed-8e", "epoch-1.bak", "data"];
    assert_eq!(guard_told(&volume, "e-0", told), (0, String::new()));
    assert_eq!(left(), all, "since now");
    fs::write(volume.join("epoch-1/berth-set-aside"), "1767225600\n").unwrap();
    let unsaid = told.replace(r#", "keepOldData": 604800"#, "");
    assert_eq!(guard_told(&volume, "e-0", &unsaid), (0, String::new()));
    assert_eq!(left(), all, "as an earlier template tells it");
    let foreign = told.replace(r#""u""#, r#""other""#);
    assert_eq!(guard_told(&volume, "e-0", &foreign).0, 42);
    assert_eq!(left(), all, "what is on the volume is another cluster's");
    assert_eq!(guard_told(&volume, "e-0", told), (0, String::new()));
    assert_eq!(left(), ["removed-8e", "epoch-1.bak", "data"]);
}

/// Whatever the template says, a member that joins is told who the members are, and what another ID left is set aside whole.
#[test]
fn a_member_joins_a_running_cluster_on_whatever_volume() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    let wal = volume.join("data/member/wal");
    fs::create_dir_all(&wal).unwrap();
    fs::write(wal.join("0000000000000000-0000000000000000.wal"), "old").unwrap();
    fs::write(volume.join("berth-member.json"), r#"{"clusterUID":"u","epoch":1,"member":"e-1"}"#).unwrap();
    let told = r#"{"clusterUID": "u", "epoch": 1, "state": "Established", "serial": 4, "members": [
        {"name": "e-0", "id": "a", "peerURL": "https://e-0.ns.svc:2380", "stage": "Voter"},
        {"name": "e-1", "id": "b", "peerURL": "https://10.96.0.7:2380", "stage": "Joining", "added": true}]}"#;
    let (bootstrap, out) = (dir.path().join("bootstrap.json"), dir.path().join("out"));
    fs::write(&bootstrap, told).unwrap();
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let script = format!("echo \"$ETCD_INITIAL_CLUSTER $ETCD_INITIAL_CLUSTER_STATE $*\" > {}", out.display());
    let join = || {
        let status = Command::new(env!("CARGO_BIN_EXE_berth-agent"))
            .args(["guard".to_owned(), flag("data-dir", &volume.join("data")), "--member=e-1".to_owned()])
            .args([flag("bootstrap", &bootstrap), flag("termination-log", &dir.path().join("log"))])
            .args(["--", "sh", "-c", &script, "etcd", "--name=e-1"])
            .arg("--initial-advertise-peer-urls=https://e-1.ns.svc:2380")
            .env("ETCD_INITIAL_CLUSTER", "e-0=https://e-0.ns.svc:2380")
            .env("ETCD_INITIAL_CLUSTER_STATE", "new")
            .status()
            .unwrap();
        assert!(status.success());
        fs::read_to_string(&out).unwrap()
    };
    let expected = "e-0=https://e-0.ns.svc:2380,e-1=https://10.96.0.7:2380 existing --name=e-1 --initial-advertise-peer-urls=https://10.96.0.7:2380\n";
    assert_eq!(join(), expected);
    assert!(!volume.join("data").exists(), "etcd begins anew");
    assert_eq!(
        fs::read(volume.join("removed-first/member/wal/0000000000000000-0000000000000000.wal")).unwrap(),
        b"old"
    );
    assert!(volume.join("removed-first/berth-set-aside").exists(), "since when");
    let marker = fs::read_to_string(volume.join("berth-member.json")).unwrap();
    assert_eq!(marker, r#"{"clusterUID":"u","epoch":1,"member":"e-1","id":"b"}"#);
    // It restarts with what it copied so far.
    fs::create_dir_all(&wal).unwrap();
    fs::write(wal.join("0000000000000000-0000000000000000.wal"), "new").unwrap();
    assert_eq!(join(), expected);
    assert_eq!(fs::read(wal.join("0000000000000000-0000000000000000.wal")).unwrap(), b"new");
    // It votes by now, and its volume is that of an earlier ID again.
    let votes = told.replace("Joining", "Voter");
    assert_eq!(guard_told(&volume, "e-1", &votes), (0, String::new()));
    fs::write(volume.join("berth-member.json"), r#"{"clusterUID":"u","epoch":1,"member":"e-1","id":"9"}"#).unwrap();
    let (code, message) = guard_told(&volume, "e-1", &votes);
    assert!(
        code == 42 && message.starts_with("ForeignData: ") && message.contains("the data of the ID 9"),
        "{message}"
    );
    fs::write(volume.join("berth-member.json"), r#"{"clusterUID":"u","epoch":1,"member":"e-1"}"#).unwrap();
    assert_eq!(guard_told(&volume, "e-1", &votes).0, 42, "what it was formed with came back");
}
