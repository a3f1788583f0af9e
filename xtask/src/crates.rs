//! The one-way street between crates, and what the pure ones must not know.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use crate::shell::{Result, cargo, output};

/// Which crates of ours a crate may depend on. Dev-dependencies are free, but for `testkit` outside of tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("berth-contract", &[]),
    ("berth-api", &["berth-contract"]),
    ("berth-pki", &[]),
    ("berth-render", &["berth-api"]),
    ("berth-plan", &["berth-api", "berth-pki", "berth-render"]),
    ("berth-plan-backup", &["berth-api", "berth-pki", "berth-plan", "berth-render"]),
    ("berth-plan-apps", &["berth-api", "berth-pki", "berth-plan", "berth-render"]),
    ("berth-plan-etcd", &["berth-api", "berth-pki", "berth-plan", "berth-plan-backup", "berth-render"]),
    (
        "berth-plan-cluster",
        &["berth-api", "berth-pki", "berth-plan", "berth-plan-backup", "berth-plan-etcd", "berth-render"],
    ),
    ("berth-fence", &[]),
    ("berth-sim", &["berth-plan", "berth-pki", "berth-api", "berth-render"]),
    (
        "berth-kubeio",
        &[
            "berth-fence",
            "berth-plan",
            "berth-plan-apps",
            "berth-plan-backup",
            "berth-plan-etcd",
            "berth-plan-cluster",
            "berth-pki",
            "berth-api",
            "berth-render",
        ],
    ),
    ("berth-etcdio", &["berth-fence", "berth-plan", "berth-pki", "berth-api"]),
    (
        "berth-operator",
        &[
            "berth-edge",
            "berth-fence",
            "berth-kubeio",
            "berth-etcdio",
            "berth-plan",
            "berth-plan-apps",
            "berth-plan-backup",
            "berth-plan-etcd",
            "berth-plan-cluster",
            "berth-api",
            "berth-pki",
            "berth-render",
        ],
    ),
    (
        "berth-cli",
        &[
            "berth-fence",
            "berth-kubeio",
            "berth-sim",
            "berth-plan",
            "berth-plan-apps",
            "berth-plan-backup",
            "berth-plan-etcd",
            "berth-plan-cluster",
            "berth-api",
            "berth-pki",
            "berth-render",
        ],
    ),
    ("berth-agent", &["berth-contract"]),
    ("berth-approve", &[]),
    ("berth-apps", &["berth-contract"]),
    ("berth-backup", &["berth-contract"]),
    ("berth-edge", &[]),
    ("berth-access", &["berth-api", "berth-contract", "berth-edge"]),
    ("berth-gateway", &["berth-api", "berth-contract", "berth-edge"]),
    ("berth-api-proxy", &["berth-edge"]),
    ("berth-oci", &[]),
    ("berth-devcluster", &["berth-oci"]),
    ("berth-testkit", &["berth-pki", "berth-plan", "berth-render", "berth-sim"]),
    ("xtask", &["berth-api", "berth-oci", "berth-pki", "berth-render"]),
];

/// Test suites may use everything.
const FREE: &[&str] = &["berth-e2e", "berth-bench"];

/// No client and no runtime, directly or not. Their tests need nothing but a processor.
pub(crate) const PURE: &[&str] = &[
    "berth-contract",
    "berth-api",
    "berth-pki",
    "berth-render",
    "berth-plan",
    "berth-plan-apps",
    "berth-plan-backup",
    "berth-plan-etcd",
    "berth-plan-cluster",
    "berth-sim",
];

const IMPURE: &[&str] =
    &["tokio", "kube", "kube-client", "kube-runtime", "hyper", "hyper-util", "async-std", "smol", "reqwest", "ureq"];

pub(crate) fn check() -> Result<()> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    let wrong = violations(&metadata);
    if !wrong.is_empty() {
        bail!("dependencies that the design forbids:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn violations(metadata: &Value) -> Vec<String> {
    let mut wrong = vec![];
    let names: BTreeMap<&str, &str> =
        list(&metadata["packages"]).filter_map(|p| Some((p["id"].as_str()?, p["name"].as_str()?))).collect();
    let mut graph: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let normal = list(&node["deps"])
            .filter(|d| list(&d["dep_kinds"]).any(|k| k["kind"].is_null()))
            .filter_map(|d| d["pkg"].as_str());
        graph.insert(node["id"].as_str().unwrap_or_default(), normal.collect());
    }
    let members: Vec<&str> = list(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
    for id in &members {
        let name = names.get(id).copied().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(n, _)| *n == name) else {
            if !FREE.contains(&name) {
                wrong.push(format!("{name}: not in the table of xtask/src/crates.rs"));
            }
            continue;
        };
        for dep in graph.get(id).into_iter().flatten().filter(|d| members.contains(d)) {
            let dep = names.get(dep).copied().unwrap_or_default();
            if !allowed.contains(&dep) {
                wrong.push(format!("{name} -> {dep}"));
            }
        }
        if PURE.contains(&name) {
            wrong.extend(reachable(id, &graph, &names).into_iter().map(|dep| format!("{name} is pure, but has {dep}")));
        }
    }
    wrong
}

fn reachable(id: &str, graph: &BTreeMap<&str, Vec<&str>>, names: &BTreeMap<&str, &str>) -> Vec<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![id]);
    while let Some(id) = open.pop() {
        for dep in graph.get(id).into_iter().flatten() {
            if seen.insert(*dep) {
                open.push(dep);
            }
        }
    }
    let seen = seen.iter().filter_map(|id| names.get(id));
    seen.filter(|n| IMPURE.contains(n)).map(|n| (*n).to_owned()).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wrong_way_and_a_hidden_client_are_found() {
        let package = |name: &str| json!({"id": name, "name": name});
        let dep = |name: &str| json!({"pkg": name, "dep_kinds": [{"kind": null}]});
        let dev = |name: &str| json!({"pkg": name, "dep_kinds": [{"kind": "dev"}]});
        let metadata = json!({
            "packages": [package("berth-api"), package("berth-plan"), package("serde"), package("tokio"), package("new")],
            "workspace_members": ["berth-api", "berth-plan", "new"],
            "resolve": {"nodes": [
                {"id": "berth-api", "deps": [dep("berth-plan"), dep("serde")]},
                {"id": "berth-plan", "deps": [dep("berth-api"), dev("tokio")]},
                {"id": "serde", "deps": [dep("tokio")]},
            ]},
        });
        let found = violations(&metadata);
        let expected = [
            "berth-api -> berth-plan",
            "berth-api is pure, but has tokio",
            "berth-plan is pure, but has tokio",
            "new: not in the table of xtask/src/crates.rs",
        ];
        assert_eq!(found, expected);
    }
}
