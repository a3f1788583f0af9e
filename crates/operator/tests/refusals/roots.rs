//! A CA or key that is lost or broken while things trust it: said, not replaced.

use crate::common::{Team, shared_operator, team::moment};
use crate::workloads;
use berth_api::conditions::ConditionType;
use berth_testkit::oracle::{assert_keys_unchanged, secret_keys};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

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
    let keys = secret_keys(&team.client, &[&team.home]).await.expect("keys");
    for (root, _) in ROOTS {
        let mut backup = secrets.get(root).await.expect("get");
        secrets.delete(root, &DeleteParams::default()).await.expect("delete");
        team.touch().await;
        let said = team.says(ConditionType::Ready, "CertificateAuthorityLost").await;
        assert!(
            said.contains(&format!("Secret {}/{root} is gone while ", team.home))
                && said.contains("restore it from a backup"),
            "{said}"
        );
        moment().await;
        assert!(secrets.get_opt(root).await.expect("get").is_none(), "{root} was made anew");
        assert_eq!(workloads(&team).await, running, "{root}");
        backup.metadata.resource_version = None;
        backup.metadata.uid = None;
        secrets.create(&PostParams::default(), &backup).await.expect("restore");
        team.touch().await;
        team.ready().await.unwrap_or_else(|e| panic!("{root} restored: {e:#}"));
        assert_eq!(workloads(&team).await, running, "{root} restored");
        println!("{root} lost: ok");
    }
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.home]).await.expect("keys"));
}

#[tokio::test]
async fn a_garbled_root_is_a_condition_and_not_replaced() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let secrets: Api<Secret> = team.inside();
    let running = workloads(&team).await;
    let keys = secret_keys(&team.client, &[&team.home]).await.expect("keys");
    for (root, entry) in ROOTS {
        let backup = secrets.get(root).await.expect("get").data.expect("data");
        let garble = Patch::Merge(json!({"stringData": {entry: "-----BEGIN NONSENSE-----"}}));
        secrets.patch(root, &PatchParams::default(), &garble).await.expect("patch");
        let garbled = secrets.get(root).await.expect("get").data;
        team.touch().await;
        let said = team.says(ConditionType::Ready, "CertificateAuthorityInvalid").await;
        assert!(
            said.contains(&format!("Secret {}/{root}: ", team.home))
                && said.contains("Restore it from a backup; it is not replaced"),
            "{said}"
        );
        moment().await;
        assert_eq!(secrets.get(root).await.expect("get").data, garbled, "{root}");
        assert_eq!(workloads(&team).await, running, "{root}");
        let restore = Patch::Merge(json!({"data": {entry: backup[entry]}}));
        secrets.patch(root, &PatchParams::default(), &restore).await.expect("restore");
        team.touch().await;
        team.ready().await.unwrap_or_else(|e| panic!("{root} restored: {e:#}"));
        println!("{root} garbled: ok");
    }
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.home]).await.expect("keys"));
    assert_eq!(workloads(&team).await, running);
}
