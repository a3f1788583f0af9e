//! `images` as a process: what has to be in a mirror.

use crate::command::run;
use std::collections::BTreeSet;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn lines(args: &[&str]) -> Vec<String> {
    let output = run(args, "");
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(ToOwned::to_owned).collect()
}

/// The images of everything that is rendered for a tenant of that version.
fn rendered(version: &str) -> BTreeSet<String> {
    let cluster = format!(
        "{{apiVersion: berth.dev/v1alpha1, kind: Cluster, metadata: {{name: a, namespace: b}}, spec: {{version: {version}}}}}"
    );
    let agent = concat!("ghcr.io/berth-dev/agent:", env!("CARGO_PKG_VERSION"));
    let output = run(&["render", "-f", "-", "--agent-image", agent], &cluster);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let images = text(&output.stdout).lines().filter_map(|l| l.trim_start_matches([' ', '-']).strip_prefix("image: "));
    images.map(|i| i.trim_matches(['"', '\'']).to_owned()).collect()
}

#[test]
fn what_a_tenants_pods_run_is_listed() {
    let all: BTreeSet<String> = lines(&["images"]).into_iter().collect();
    for version in ["1.36.3", "1.36.0", "1.35.4", "1.34.4"] {
        let run = rendered(version);
        assert_eq!(run.len(), 5, "{run:?}");
        let listed: BTreeSet<String> = lines(&["images", "--version", version]).into_iter().collect();
        // Backups and apps are Jobs; operator, gateway and login are not of a tenant; add-ons run on the tenant's nodes, and are rendered once its API answers.
        let others = [
            "ghcr.io/berth-dev/access:",
            "ghcr.io/berth-dev/api-proxy:",
            "ghcr.io/berth-dev/apps:",
            "ghcr.io/berth-dev/backup:",
            "ghcr.io/berth-dev/gateway:",
            "ghcr.io/berth-dev/operator:",
            "registry.k8s.io/coredns/coredns:v1.",
            "registry.k8s.io/kube-proxy:v1.",
        ];
        let beside: Vec<_> = listed.difference(&run).collect();
        assert!(
            beside.len() == others.len() && beside.iter().zip(others).all(|(i, o)| i.starts_with(o)),
            "{version}: {beside:?}"
        );
        assert!(beside[7].ends_with(&format!(":v{version}")), "{version}: {beside:?}");
        assert!(run.is_subset(&listed), "{version}: {run:?}");
        assert_eq!(run.is_subset(&all), version != "1.36.0", "{version}");
    }
    assert!(text(&run(&["images"], "").stderr).contains("--version"), "that other versions need more is said");
}

#[test]
fn a_mirror_has_them_under_the_names_that_the_operator_asks_for() {
    let pairs = lines(&["images", "--version", "1.35.4,1.36.3", "--to", "mirror.example.com/k8s/"]);
    assert_eq!(pairs.len(), 7 + 1 + 2 * (3 + 2), "{pairs:?}");
    assert!(
        pairs.contains(&"registry.k8s.io/coredns/coredns:v1.14.2 mirror.example.com/k8s/coredns:v1.14.2".to_owned()),
        "{pairs:?}"
    );
    assert!(
        pairs.contains(&"registry.k8s.io/etcd:3.6.16-0 mirror.example.com/k8s/etcd:3.6.16-0".to_owned()),
        "{pairs:?}"
    );
    let etcd = lines(&["images", "--version", "1.36.3", "--etcd", "3.5.35"]);
    let etcd: Vec<_> = etcd.iter().filter(|i| i.contains("etcd")).collect();
    assert_eq!(etcd, ["registry.k8s.io/etcd:3.5.35-0"]);
}

#[test]
fn what_is_not_supported_is_refused() {
    let output = run(&["images", "--version", "1.20.0"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("1.20.0 is not supported; supported: 1.34, 1.35, 1.36"), "{output:?}");
    assert!(output.stdout.is_empty());
    assert_eq!(run(&["images", "--version", "1.36"], "").status.code(), Some(2));
    assert_eq!(run(&["images", "--etcd", "2.0.0"], "").status.code(), Some(1));
}

#[test]
fn those_of_apps_take_the_users_own_helm() {
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-berth"));
        command.arg("images").args(args).env("PATH", "/nowhere").output().unwrap()
    };
    let none = run(&["--apps"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("there is no program helm in your PATH"), "{}", text(&none.stderr));
    for wrong in
        [&["--apps", "--version", "1.36.3"][..], &["--apps", "--app", "web"], &["--app", "web", "-f", "app.yaml"]]
    {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
