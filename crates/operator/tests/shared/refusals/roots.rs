//! A CA or key that is lost or broken while things trust it: said, not replaced.

use super::workloads;
use crate::common::{SHARED_CALLS, SHARED_LOG, SOON, Team, canary::Canary, full, shared_operator};
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::until;
use berth_testkit::oracle::{assert_keys_unchanged, secret_keys};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;

/// Roots, with what makes each unusable. The etcd's CAs are reported through the EtcdCluster.
const ROOTS: [(&str, &str); 6] = [
    ("acme-ca", "tls.crt"),
    ("acme-proxy", "tls.key"),
    ("acme-sa", "tls.key"),
    ("kube-apiserver-encryption", "encryption.yaml"),
    ("etcd-peer-ca", "tls.key"),
    ("etcd-client-ca", "tls.crt"),
];

#[tokio::test]
async fn a_lost_root_is_a_condition_and_nothing_is_made_anew() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let secrets: Api<Secret> = team.inside();
    let running = workloads(&team).await;
    let keys = secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys");
    let mut canary = Canary::of(&team, &SHARED_LOG).await;
    for (root, _) in ROOTS {
        let mut backup = secrets.get(root).await.expect("get");
        secrets.delete(root, &DeleteParams::default()).await.expect("delete");
        team.touch().await;
        let said = team.says(ConditionType::Ready, "CertificateAuthorityLost").await;
        assert!(
            said.contains(&format!("Secret {}/{root} is gone, and ", team.cp_namespace))
                && said.contains("Restore it from a backup"),
            "{said}"
        );
        team.reconciled(&SHARED_CALLS).await;
        assert!(secrets.get_opt(root).await.expect("get").is_none(), "{root} was made anew");
        assert_eq!(workloads(&team).await, running, "{root}");
        canary.reported("CertificateAuthorityLost").await;
        canary.silent(&format!("{root} lost")).await;
        backup.metadata.resource_version = None;
        backup.metadata.uid = None;
        secrets.create(&PostParams::default(), &backup).await.expect("restore");
        team.touch().await;
        team.ready().await.unwrap_or_else(|e| panic!("{root} restored: {e:#}"));
        assert_eq!(workloads(&team).await, running, "{root} restored");
        println!("{root} lost: ok");
    }
    canary.silent_to_the_end().await;
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
}

/// The root's key without line breaks and without its last character: parsers quote the line that they cannot read.
fn garbled_key(root: &BTreeMap<String, ByteString>) -> String {
    let key = root.get("tls.key").or_else(|| root.get("encryption.yaml")).expect("a key");
    let mut key = String::from_utf8(key.0.clone()).expect("text").replace('\n', "");
    key.pop();
    key
}

#[tokio::test]
async fn a_garbled_root_is_a_condition_and_not_replaced() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let secrets: Api<Secret> = team.inside();
    let running = workloads(&team).await;
    let keys = secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys");
    let mut canary = Canary::of(&team, &SHARED_LOG).await;
    for (root, entry) in ROOTS {
        let backup = secrets.get(root).await.expect("get").data.expect("data");
        let garble = Patch::Merge(json!({"stringData": {entry: garbled_key(&backup)}}));
        secrets.patch(root, &PatchParams::default(), &garble).await.expect("patch");
        let garbled = secrets.get(root).await.expect("get").data;
        team.touch().await;
        let said = team.says(ConditionType::Ready, "CertificateAuthorityInvalid").await;
        assert!(
            said.contains(&format!("Secret {}/{root}: ", team.cp_namespace))
                && said.contains("Restore it from a backup. Berth does not replace it"),
            "{said}"
        );
        team.reconciled(&SHARED_CALLS).await;
        assert_eq!(secrets.get(root).await.expect("get").data, garbled, "{root}");
        assert_eq!(workloads(&team).await, running, "{root}");
        canary.reported("CertificateAuthorityInvalid").await;
        canary.silent(&format!("{root} garbled")).await;
        let restore = Patch::Merge(json!({"data": {entry: backup[entry]}}));
        secrets.patch(root, &PatchParams::default(), &restore).await.expect("restore");
        team.touch().await;
        team.ready().await.unwrap_or_else(|e| panic!("{root} restored: {e:#}"));
        println!("{root} garbled: ok");
    }
    canary.silent_to_the_end().await;
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
    assert_eq!(workloads(&team).await, running);
}

/// A root with another one's private key.
const SWAPPED: [(&str, &str); 5] = [
    ("acme-ca", "acme-proxy"),
    ("acme-proxy", "acme-ca"),
    ("acme-sa", "acme-ca"),
    ("etcd-peer-ca", "etcd-client-ca"),
    ("etcd-client-ca", "etcd-peer-ca"),
];

#[tokio::test]
async fn halves_that_do_not_match_are_told_of_a_root_and_issued_anew_for_a_leaf() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let secrets: Api<Secret> = team.inside();
    let running = workloads(&team).await;
    let data = async |name: &str| secrets.get(name).await.expect("get").data.expect("data");
    let set = async |name: &str, patch: serde_json::Value, touch: bool| {
        secrets.patch(name, &PatchParams::default(), &Patch::Merge(json!({"data": patch}))).await.expect("patch");
        if touch {
            team.touch().await;
        }
    };
    let keys = secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys");
    let mut canary = Canary::of(&team, &SHARED_LOG).await;
    for (n, (root, other)) in SWAPPED.into_iter().enumerate() {
        let backup = data(root).await;
        // Of the first, nobody tells the operator where everything is wanted: it looks by itself, within a minute.
        let touch = n > 0 || !full();
        set(root, json!({"tls.key": data(other).await["tls.key"]}), touch).await;
        let swapped = data(root).await;
        let said = team.says(ConditionType::Ready, "CertificateAuthorityInvalid").await;
        let mismatch = format!("Secret {}/{root}: the private key does not belong to the ", team.cp_namespace);
        assert!(said.contains(&mismatch), "{said}");
        team.reconciled(&SHARED_CALLS).await;
        assert_eq!(data(root).await, swapped, "{root} is not replaced");
        assert_eq!(workloads(&team).await, running, "{root}");
        canary.reported("CertificateAuthorityInvalid").await;
        canary.silent(&format!("{root} with the key of {other}")).await;
        set(root, json!({"tls.key": backup["tls.key"]}), touch).await;
        team.ready().await.unwrap_or_else(|e| panic!("{root} restored: {e:#}"));
        println!("{root} with the key of {other}: told");
    }
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
    let foreign = data("acme-ca").await["tls.key"].clone();
    let mut pairs = vec![];
    for secret in secrets.list(&ListParams::default()).await.expect("list") {
        let (name, data) = (secret.name_any(), secret.data.unwrap_or_default());
        let of = data.keys().filter_map(|k| k.strip_suffix(".key")).filter(|k| data.contains_key(&format!("{k}.crt")));
        let leaves = of.filter(|_| !ROOTS.iter().any(|(root, _)| *root == name));
        pairs.extend(leaves.map(|pair| (name.clone(), pair.to_owned())));
    }
    assert!(pairs.len() > 5, "{pairs:?}");
    for (name, pair) in pairs {
        let (crt, key) = (format!("{pair}.crt"), format!("{pair}.key"));
        let before = data(&name).await;
        set(&name, json!({&key: foreign}), true).await;
        until(SOON, &format!("{name}: another {pair}"), async || {
            let now = data(&name).await;
            now[&key] != foreign && now[&key] != before[&key] && now[&crt] != before[&crt]
        })
        .await;
        team.ready().await.unwrap_or_else(|e| panic!("{name}: {e:#}"));
        assert_eq!(workloads(&team).await, running, "{name}");
        canary.note().await;
        println!("{name}: {pair} with another key: issued anew");
    }
    canary.silent_to_the_end().await;
    let mut roots = keys;
    roots.retain(|key, _| ROOTS.iter().any(|(root, _)| key.contains(&format!("/{root}/"))));
    assert_keys_unchanged(&roots, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
}
