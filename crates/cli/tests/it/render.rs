//! `render` as a process: the same bytes each time, and no key.

use crate::command::run;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Output};

fn render(cluster: &str, args: &[&str]) -> Output {
    run(&[&["render", "-f", "-"], args].concat(), cluster)
}

fn cluster(spec: &str) -> String {
    format!(
        "apiVersion: berth.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: acme, namespace: team-a}}\nspec: {{{spec}}}\n"
    )
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_same_bytes_twice_and_no_key_in_them() {
    for spec in [
        "version: 1.36.3",
        "version: 1.35.4, replicas: 2, etcd: {replicas: 3}, endpoint: {type: LoadBalancer}",
        "version: 1.34.4, endpoint: {type: NodePort, host: acme.example.com}",
    ] {
        for args in [&[][..], &["-o", "json"], &["--inside"]] {
            let (first, second) = (render(&cluster(spec), args), render(&cluster(spec), args));
            assert!(first.status.success(), "{}", text(&first.stderr));
            assert_eq!(first.stdout, second.stdout);
            let all = text(&first.stdout);
            assert!(!all.is_empty() && !all.contains("PRIVATE KEY") && !all.contains("BEGIN CERTIFICATE"));
        }
    }
}

#[test]
fn everything_that_a_tenant_consists_of_is_there() {
    let spec =
        "version: 1.36.3, replicas: 2, etcd: {replicas: 3}, endpoint: {type: LoadBalancer, host: acme.example.com}";
    let out =
        render(&cluster(spec), &["-o", "json", "--agent-image", "registry/agent:7", "--agent-delivery", "ImageVolume"]);
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(list["kind"], "List");
    let items = list["items"].as_array().unwrap();
    let find = |kind: &str, name: &str| {
        items
            .iter()
            .find(|o| o["kind"] == kind && o["metadata"]["name"] == name)
            .unwrap_or_else(|| panic!("{kind} {name}"))
    };
    for (kind, name) in [
        ("Namespace", "acme-9201d5e7"),
        ("Service", "kube-apiserver"),
        ("EtcdCluster", "etcd"),
        ("StatefulSet", "etcd"),
        ("PodDisruptionBudget", "etcd"),
        ("Deployment", "kube-apiserver"),
        ("Deployment", "kube-controller-manager"),
        ("Deployment", "kube-scheduler"),
        ("NetworkPolicy", "default-deny"),
        ("Secret", "acme-kubeconfig"),
    ] {
        find(kind, name);
    }
    assert_eq!(
        find("Namespace", "acme-9201d5e7")["metadata"]["annotations"]["berth.dev/agent-image"],
        "registry/agent:7"
    );
    for secret in items.iter().filter(|o| o["kind"] == "Secret") {
        assert!(secret["data"].is_null() && secret["stringData"].is_null() && secret["plan"].is_array(), "{secret}");
    }
    let pki = find("Secret", "kube-apiserver-pki")["plan"].as_array().unwrap();
    let serving = pki.iter().find(|c| c["certificate"] == "kube-apiserver" && c["usage"] == "Server").unwrap();
    let sans: Vec<_> = serving["sans"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(sans.contains(&"acme.example.com") && sans.contains(&"10.112.0.1"), "{sans:?}");
    let notes = text(&out.stderr);
    for note in ["192.0.2.1 stands for", "198.51.100.1 stands for", "Secrets are plans", "--operator-config"] {
        assert!(notes.contains(note), "{note} is not in:\n{notes}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_field() {
    let out = render(&cluster("version: 1.20.0"), &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stdout.is_empty() && text(&out.stderr).contains("spec.version: 1.20.0 is not supported"), "{out:?}");
    let out = render(&cluster("version: 1.36.3, apiServer: {extraArgs: [{name: etcd-servers, value: x}]}"), &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("etcd-servers"), "{out:?}");
    let out = render(&cluster("version: 1.36.3"), &["-n", "team-b"]);
    assert!(text(&out.stderr).contains("namespace team-a"), "{out:?}");
}

#[test]
fn a_secret_that_a_file_does_not_have_counts_as_right_and_that_is_said() {
    let out =
        render(&cluster("version: 1.36.3, apiServer: {audit: {webhook: {secretRef: {name: sink}}}}"), &["-o", "json"]);
    assert!(out.status.success(), "{out:?}");
    let made = text(&out.stdout);
    for part in ["--audit-webhook-config-file=", "Secret team-a/sink", "kube-apiserver-audit-"] {
        assert!(made.contains(part), "{part} is not in:\n{made}");
    }
    assert!(text(&out.stderr).contains("no Secret is read: that of spec.apiServer.audit.webhook"), "{out:?}");
}

#[test]
fn what_writers_may_ask_for_is_judged_by_the_operators_configuration() {
    let spec = "version: 1.36.3, apiServer: {placement: {nodeSelector: {pool: fast}}}";
    assert!(render(&cluster(spec), &[]).status.success());
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config.write_all(b"{\"writers\": {}}").unwrap();
    let out = render(&cluster(spec), &["--operator-config", config.path().to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("NotAllowed"), "{out:?}");
}

#[test]
fn backups_follow_from_the_operators_configuration() {
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config
        .write_all(
            br#"{"backups": {"stores": [{"name": "main", "endpoint": "https://s3", "bucket": "b", "secretName": "s"}],
            "default": {"store": "main", "schedule": "0 3 * * *"}}}"#,
        )
        .unwrap();
    let out = render(&cluster("version: 1.36.3"), &["--operator-config", config.path().to_str().unwrap()]);
    let without = render(&cluster("version: 1.36.3"), &[]);
    for part in ["kind: EtcdBackupSchedule", "name: etcd-backup\n", "name: etcd-client-backup\n"] {
        assert!(
            text(&out.stdout).contains(part) && !text(&without.stdout).contains(part),
            "{part}: {}",
            text(&out.stdout)
        );
    }
}

#[test]
fn wrong_usage_is_2_and_a_script_is_made_for_each_shell() {
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_kubectl-berth")).args(args).output().unwrap();
    assert_eq!(run(&["render"]).status.code(), Some(2));
    assert_eq!(run(&["no-such-verb"]).status.code(), Some(2));
    assert_eq!(run(&["render", "-f", "/no/such/file"]).status.code(), Some(1));
    for shell in ["bash", "zsh", "fish"] {
        let out = run(&["completion", shell]);
        assert!(out.status.success() && text(&out.stdout).contains("kubeconfig"), "{shell}");
    }
    assert!(text(&run(&["completion", "kubectl"]).stdout).starts_with("#!/bin/sh\n"));
    assert!(text(&run(&["--version"]).stdout).starts_with("kubectl-berth 0."));
}
