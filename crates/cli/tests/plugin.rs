//! As kubectl's plugin: a real kubectl finds the command by its name in PATH and hands over arguments and exit code.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use berth_testkit::apiserver::{Options, binary};
use std::path::Path;
use std::process::{Command, Output};

/// kubectl, in whose PATH is nothing but the folder of our command.
fn kubectl(args: &[&str]) -> Output {
    let kubectl = binary("kubernetes", &Options::default().kubernetes, "kubectl").unwrap();
    let folder = Path::new(env!("CARGO_BIN_EXE_kubectl-berth")).parent().unwrap();
    let home = tempfile::tempdir().unwrap();
    Command::new(kubectl).args(args).env_clear().env("PATH", folder).env("HOME", home.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn kubectl_finds_it() {
    let version = kubectl(&["berth", "--version"]);
    assert!(version.status.success(), "{}", text(&version.stderr));
    assert_eq!(text(&version.stdout), concat!("kubectl-berth ", env!("CARGO_PKG_VERSION"), "\n"));
    let list = kubectl(&["plugin", "list", "--name-only"]);
    assert!(text(&list.stdout).lines().any(|line| line == "kubectl-berth"), "{list:?}");
    let help = kubectl(&["berth", "status", "--help"]);
    assert!(text(&help.stdout).contains("Usage: kubectl berth status"), "{}", text(&help.stdout));
}

#[test]
fn arguments_and_exit_codes_pass_through_it() {
    for (args, code, said) in [
        (&["berth", "plan"][..], 2, "required arguments"),
        (&["berth", "status", "acme", "-n", "team-a", "--kubeconfig", "/nowhere"], 1, "/nowhere"),
        (&["berth", "render", "-f", "/nowhere.yaml"], 1, "/nowhere.yaml"),
    ] {
        let output = kubectl(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
}
