//! `berth-agent guard` as a pod runs it: files in, exit code and termination message out.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

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
