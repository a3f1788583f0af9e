//! The promises of lib.rs that a reader could break without noticing.

use std::fs;
use std::path::PathBuf;

#[test]
fn no_clock_no_files_no_network_and_no_other_berth_crate() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
    for forbidden in ["berth-", "tokio", "kube", "k8s-openapi"] {
        assert!(!dependencies.contains(forbidden), "{forbidden} in Cargo.toml");
    }
    let mut files = 0;
    for file in fs::read_dir(root.join("src")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = fs::read_to_string(&file) else { continue }; // the directory of these tests
        files += 1;
        for forbidden in ["::now()", "SystemTime", "Instant", "std::fs", "std::env", "std::net::Tcp", "std::process"] {
            assert!(!text.contains(forbidden), "{forbidden} in {}", file.display());
        }
        let random = text.contains("SystemRandom") || text.contains("KeyPair::generate");
        assert!(!random || file.ends_with("src/issue.rs"), "randomness in {}", file.display());
        assert!(text.lines().count() < 300, "{} is long", file.display());
    }
    assert!(files > 8);
}
