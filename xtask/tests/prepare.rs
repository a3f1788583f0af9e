//! `prepare.sh` on a machine where nothing of this project has ever run.

use std::path::Path;
use std::process::Command;

#[test]
fn a_cache_that_is_not_there_yet_is_no_failure() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("nobody/made/this/berth");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("prepare.sh");
    let done =
        Command::new("bash").arg(script).env("BERTH_CACHE", &cache).env_remove("CARGO_TARGET_DIR").output().unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(!cache.exists(), "only what builds makes the cache");
}
