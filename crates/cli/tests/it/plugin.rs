//! As kubectl's plugin: a real kubectl finds the command by its name in PATH and hands over arguments and exit code.

use berth_testkit::apiserver::{Options, binary};
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// kubectl, in whose PATH is nothing but the folder of our command.
fn kubectl(args: &[&str]) -> Output {
    kubectl_with(folder().to_str().unwrap(), args)
}

fn kubectl_with(path: &str, args: &[&str]) -> Output {
    let kubectl = binary("kubernetes", &Options::default().kubernetes, "kubectl").unwrap();
    with(&kubectl, path, args)
}

/// With this PATH and an empty home.
fn with(program: &Path, path: &str, args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    Command::new(program).args(args).env_clear().env("PATH", path).env("HOME", home.path()).output().unwrap()
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kubectl-berth")).parent().unwrap()
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

#[test]
fn a_server_that_does_not_answer_is_named_with_its_context_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    // Nothing listens there once the listener is dropped.
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("https://{dead}");
    std::fs::write(&config, kubeconfig(&server)).unwrap();
    let config = config.to_str().unwrap();
    let output = kubectl(&["berth", "status", "acme", "--kubeconfig", config]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("The server is {server} (context a in {config})")), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
    let output = kubectl(&["berth", "status", "--kubeconfig", "/nope"]);
    assert_eq!(text(&output.stderr), "error: kubeconfig /nope: No such file or directory (os error 2)\n");
}

fn kubeconfig(server: &str) -> String {
    format!(
        "{{clusters: [{{name: a, cluster: {{server: '{server}'}}}}], contexts: [{{name: a, context: {{cluster: a, user: a}}}}], current-context: a, users: [{{name: a, user: {{}}}}]}}"
    )
}

/// The script as the page has it, and a PATH with it and our command.
fn installed() -> (tempfile::TempDir, PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("kubectl_complete-berth");
    std::fs::write(&script, kubectl(&["berth", "completion", "kubectl"]).stdout).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), folder().display());
    (dir, script, path)
}

const STATUS: &str = "status\tShow the state of Clusters, what is wrong, and what to do next\n:4\n";

#[test]
fn the_script_offers_what_may_come_next() {
    let (_dir, script, path) = installed();
    for (words, offered) in [
        (&["sta"][..], STATUS),
        (&["status", "--output=js"], "json\tFor programs\n:4\n"),
        // Words are no options of the command that completes.
        (&["--help"], "--help\tPrint help (see more with '--help')\n:4\n"),
        (&["-n", "team-a", "render", "-f", ""], ":0\n"),
        // Names cannot be had here, and nobody is told at a prompt.
        (&["status", ""], ":4\n"),
        (&["status", "--kubeconfig", "/nowhere", ""], ":4\n"),
        (&["nosuch", ""], ":4\n"),
    ] {
        let output = with(&script, &path, words);
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        assert_eq!(text(&output.stdout), offered, "{words:?}");
    }
    assert!(text(&with(&script, &path, &[]).stdout).starts_with("status\t"));
}

#[test]
fn kubectl_asks_the_script() {
    let (_dir, _, path) = installed();
    for (words, offered) in [
        (&["sta"][..], STATUS),
        (&["status", "--output=js"], "json\tFor programs\n:4\n"),
        (&["plan", "-o", "y"], "yaml\tFor programs and people\n:4\n"),
        (&["status", "--all"], "--all-namespaces\tClusters of all namespaces\n:4\n"),
        (&["plan", "acme", "-f", ""], ":0\n"),
    ] {
        let output = kubectl_with(&path, &[&["__complete", "berth"], words].concat());
        assert_eq!(text(&output.stdout), offered, "{words:?}: {output:?}");
    }
}

#[test]
fn a_meta_cluster_that_does_not_answer_holds_up_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (dir, script, path) = installed();
    let config = dir.path().join("config");
    let server = format!("https://{}", silent.local_addr().unwrap());
    std::fs::write(&config, kubeconfig(&server)).unwrap();
    let began = Instant::now();
    let output = with(&script, &path, &["status", "--kubeconfig", config.to_str().unwrap(), ""]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), (":4\n", ""));
    // It did try; one call alone may take 20 s.
    assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&began.elapsed()), "{:?}", began.elapsed());
}
