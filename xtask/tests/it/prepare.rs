//! `prepare.sh` on a machine where nothing of this project has ever run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn a_cache_that_is_not_there_yet_is_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("nobody/made/this/berth");
    let done = prepare(&[("BERTH_CACHE", &cache)]);
    assert!(done.status.success(), "{}{}", String::from_utf8_lossy(&done.stdout), complaint(&done));
    assert!(!cache.exists(), "only what builds makes the cache");
}

/// `make images` and `make test-fast` are for everybody who has Rust.
#[test]
fn go_and_root_are_needed_only_for_clusters() {
    let bin = tempfile::tempdir().unwrap();
    for name in ["bash", "uname", "dirname", "df", "awk", "cargo", "cc"] {
        std::os::unix::fs::symlink(found(name), bin.path().join(name)).unwrap();
    }
    let id = bin.path().join("id");
    std::fs::write(&id, "#!/bin/sh\necho 1000\n").unwrap();
    std::fs::set_permissions(&id, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let done = prepare(&[("PATH", bin.path()), ("BERTH_NEEDS", Path::new("build"))]);
    assert!(done.status.success(), "{}", complaint(&done));
    // Whether what is fetched is enough, devcluster knows.
    for (binaries, expected) in [("build", &["missing:", "Go", "root:"][..]), ("auto", &["missing:", "root:"])] {
        let done = prepare(&[("PATH", bin.path()), ("BERTH_BINARIES", Path::new(binaries))]);
        let missing = complaint(&done);
        let lines: Vec<_> = missing.lines().map(|l| l.trim().split(' ').next().unwrap_or_default()).collect();
        assert_eq!((done.status.code(), &*lines), (Some(1), expected), "{missing}");
    }
}

fn prepare(variables: &[(&str, &Path)]) -> Output {
    let script = berth_testkit::fixtures::package().join("prepare.sh");
    let mut bash = Command::new(found("bash"));
    for name in ["CARGO_TARGET_DIR", "BERTH_BINARIES", "BERTH_KUBECONFIG", "BERTH_NEEDS"] {
        bash.env_remove(name);
    }
    bash.arg(script).envs(variables.iter().copied()).output().expect("bash runs")
}

fn complaint(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// A program of this machine.
fn found(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH");
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file()).expect(name)
}
