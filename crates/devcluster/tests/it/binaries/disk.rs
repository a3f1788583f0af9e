//! A cache on a disk that is full, and on one that cannot be written.

use std::{fs, process::Command};

use super::world::{World, program, said, sum};

const HELM: &str = "tools/helm-3.22.0/helm";

/// Runs a script with a file system of a mebibyte as its cache, in a mount namespace of its own.
fn on_a_small_disk(world: &World, script: &str) -> super::world::Said {
    fs::create_dir_all(world.path("cache")).unwrap();
    let base = world.path("base");
    fs::create_dir_all(base.join(HELM).parent().unwrap()).unwrap();
    let helm = program("v3.22.0", 2 << 20);
    fs::write(base.join(HELM), &helm).unwrap();
    fs::write(base.join("SHA256SUMS"), format!("{}  {HELM}\n", sum(&helm))).unwrap();
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "sh", "-c"])
        .arg(format!("mount -t tmpfs -o size=1m none \"$BERTH_CACHE\" || exit 9\n{script}"));
    unshare.env("BERTH_CACHE", world.path("cache")).env("BERTH_BINARIES", base);
    unshare.env("DEVCLUSTER", env!("CARGO_BIN_EXE_devcluster"));
    said(&unshare.output().unwrap())
}

fn needs_root() {
    assert!(nix::unistd::geteuid().is_root(), "this test mounts a small disk: run it as root (`make test` does)");
}

#[test]
fn a_full_disk_is_an_error_that_names_the_place_and_leaves_nothing() {
    needs_root();
    let said = on_a_small_disk(
        &World::new(),
        "$DEVCLUSTER build helm && exit 8\nfind \"$BERTH_CACHE\" -type f -size +0 | sed 's/^/left: /'",
    );
    assert!(said.ok, "{}", said.text);
    said.has(&["cannot write ", "cache/build/helm-3.22.0/staging-", "No space left on device"]);
    assert!(!said.text.contains("left: "), "{}", said.text);
}

#[test]
fn a_cache_that_cannot_be_written_is_an_error_that_names_it_and_a_full_one_is_fine() {
    needs_root();
    let script = format!(
        "there=$BERTH_CACHE/bin/{HELM}; mkdir -p \"${{there%/*}}\"; echo there > \"$there\"\n\
         mount -o remount,ro \"$BERTH_CACHE\"\n\
         $DEVCLUSTER build helm || exit 7\n$DEVCLUSTER build pause && exit 8\ntrue"
    );
    let said = on_a_small_disk(&World::new(), &script);
    assert!(said.ok, "{}", said.text);
    said.has(&["/cache/locks", "Read-only file system"]);
}
