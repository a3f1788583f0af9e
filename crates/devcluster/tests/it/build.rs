//! Building in a cache of its own: two at once do no harm, a killed one leaves nothing half.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const PLUGINS: [&str; 7] = ["bridge", "macvlan", "ptp", "loopback", "portmap", "host-local", "static"];

fn build(cache: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_devcluster"))
        .args(["build", "cni-plugins"])
        .env("BERTH_CACHE", cache)
        .env("BERTH_BINARIES", "build")
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_build_leaves_nothing_half_and_two_at_once_share_the_work() {
    assert!(
        std::env::var_os("BERTH_REAL").is_some_and(|value| value == "1"),
        "this test runs the Go compiler: run it with BERTH_REAL=1 (`make test` does)"
    );
    let cache = tempfile::tempdir().unwrap();
    let plugins = cache.path().join("bin/tools/cni-plugins-1.9.1");
    let mut killed = build(cache.path());
    thread::sleep(Duration::from_millis(1500));
    killed.kill().unwrap();
    killed.wait().unwrap();
    for name in PLUGINS.iter().filter(|name| plugins.join(name).exists()) {
        assert_runs(&plugins.join(name));
    }

    let mut both = [build(cache.path()), build(cache.path())];
    for child in &mut both {
        assert!(child.wait().unwrap().success());
    }
    let mut names: Vec<_> = fs::read_dir(&plugins).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    let mut expected = PLUGINS;
    expected.sort_unstable();
    assert_eq!(names, expected, "the plugins and nothing else");
    for name in PLUGINS {
        assert_runs(&plugins.join(name));
    }
}

/// A plugin says which versions of CNI it speaks.
fn assert_runs(plugin: &Path) {
    let output = Command::new(plugin).env("CNI_COMMAND", "VERSION").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("supportedVersions") || said.contains("cniVersion"), "{}: {said}", plugin.display());
}
