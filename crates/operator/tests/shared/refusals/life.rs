//! Pausing, deletion that is refused, and what deletion keeps.

use super::workloads;
use crate::common::{SHARED_CALLS, SOON, Team, shared_operator};
use berth_api::conditions::ConditionType;
use berth_api::{EtcdCluster, labels, names};
use berth_testkit::apiserver::{self, Options};
use berth_testkit::fixtures::until;
use berth_testkit::oracle::assert_keys_unchanged;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::process::Command;

#[tokio::test]
async fn paused_stops_changes_and_says_so_and_deletion_goes_on() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let running = workloads(&team).await;
    team.spec(json!({"paused": true, "replicas": 2})).await.expect("pause");
    let said = team.says(ConditionType::Progressing, "Paused").await;
    assert!(said.contains("spec.paused is true: nothing is changed, repaired or renewed"), "{said}");
    let etcds = team.inside::<EtcdCluster>();
    let paused = async || {
        etcds.get(names::ETCD).await.is_ok_and(|e| e.status.is_some_and(|s| s.phase.as_deref() == Some("Paused")))
    };
    until(SOON, "an etcd that is paused, too", paused).await;
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(workloads(&team).await, running);
    let services = team.inside::<Service>();
    services.delete("etcd-peer", &DeleteParams::default()).await.expect("delete");
    let deployments = team.inside::<Deployment>();
    deployments.delete(names::SCHEDULER, &DeleteParams::default()).await.expect("delete");
    team.reconciled(&SHARED_CALLS).await;
    assert!(deployments.get_opt(names::SCHEDULER).await.expect("get").is_none(), "drift is not repaired");
    assert!(services.get_opt("etcd-peer").await.expect("get").is_none(), "nor is etcd's");
    team.spec(json!({"paused": false})).await.expect("go on");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(deployments.get(names::APISERVER).await.expect("get").spec.expect("spec").replicas, Some(2));
    team.spec(json!({"paused": true})).await.expect("pause");
    team.delete().await;
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert!(team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none());
}

#[tokio::test]
async fn a_protected_cluster_that_is_deleted_all_the_same_is_held() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"deletion": {"protected": true}})).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let running = workloads(&team).await;
    // Without the chart's admission policy, which refuses the DELETE itself.
    team.delete().await;
    let said = team.says(ConditionType::Ready, "Deleting").await;
    assert!(said.contains("spec.deletion.protected is true, so nothing is deleted. Set it to false"), "{said}");
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(workloads(&team).await, running);
    team.spec(json!({"deletion": {"protected": false}})).await.expect("patch");
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert!(team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none());
}

#[tokio::test]
async fn retain_keeps_data_and_roots_and_a_new_cluster_takes_them_over() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"deletion": {"protected": false, "dataPolicy": "Retain"}})).await.expect("Cluster");
    let old = team.ready().await.unwrap_or_else(|e| panic!("{e:#}")).uid().expect("uid");
    let before = team.root_keys().await;
    let claims = team.inside::<PersistentVolumeClaim>();
    let claim = claims.get("data-etcd-0").await.expect("claim").uid();
    team.delete().await;
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    // It went last: nobody works on what is kept.
    assert_eq!(team.root_keys().await, before, "the roots, and nothing but them");
    let cp_namespace = team.namespaces().get(&team.cp_namespace).await.expect("the namespace stays").uid();
    assert_eq!(claims.get("data-etcd-0").await.expect("the volume stays").uid(), claim);
    until(SOON, "no pod", async || {
        team.inside::<Pod>().list(&ListParams::default()).await.expect("list").items.is_empty()
    })
    .await;
    assert!(team.inside::<Deployment>().list(&ListParams::default()).await.expect("list").items.is_empty());

    team.create(json!({})).await.expect("another Cluster of that name");
    let said = team.says(ConditionType::Ready, "AdoptionRequired").await;
    assert!(said.contains(&format!("set the annotation {}={old} on this Cluster", labels::ADOPT)), "{said}");
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(team.root_keys().await, before, "it takes nothing over by itself");
    let adopt = Patch::Merge(json!({"metadata": {"annotations": {labels::ADOPT: old}}}));
    team.clusters().patch("acme", &PatchParams::default(), &adopt).await.expect("adopt");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_keys_unchanged(&before, &team.root_keys().await);
    assert_eq!(team.namespaces().get(&team.cp_namespace).await.expect("namespace").uid(), cp_namespace);
    assert_eq!(claims.get("data-etcd-0").await.expect("claim").uid(), claim);
}

/// Runs the commands of a message, as somebody would who reads it; what the first of them writes.
fn run_commands_of(message: &str, server: &berth_testkit::ApiServer) -> String {
    let kubectl = apiserver::binary("kubernetes", &Options::default().kubernetes, "kubectl").expect("kubectl");
    let path = format!("{}:{}", kubectl.parent().expect("a folder").display(), std::env::var("PATH").expect("PATH"));
    let dir = tempfile::tempdir().expect("a folder");
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig_as("admin", &["system:masters"])).expect("kubeconfig");
    let between = |from: &str, to: &str| message.split_once(from)?.1.split_once(to).map(|(command, _)| command);
    for command in [between("Keys: ", ". Data: "), between("Data: ", ". When it is gone")] {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("set -o pipefail; {}", command.expect("a command"))]);
        let output = shell.current_dir(&dir).env("KUBECONFIG", &kubeconfig).env("PATH", &path).output().expect("bash");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let files = std::fs::read_dir(&dir).expect("the folder").flatten().map(|file| file.path());
    let saved = files.filter(|file| *file != kubeconfig).collect::<Vec<_>>();
    std::fs::read_to_string(&saved[0]).expect("what was saved")
}

#[tokio::test]
async fn a_control_plane_namespace_deleted_by_hand_is_not_made_anew() {
    let server = shared_operator().await;
    let team = Team::with_cluster(server).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let uid = team.namespaces().get(&team.cp_namespace).await.expect("namespace").uid().expect("uid");
    // Something takes its time, as pods do that end.
    let slow = json!({"metadata": {"name": "slow", "finalizers": ["test.berth.dev/slow"]}});
    team.put::<ConfigMap>(serde_json::from_value(slow).expect("a ConfigMap")).await;
    let volumes = Api::<PersistentVolume>::all(team.client.clone());
    for (name, namespace) in [("kept-volume", &team.cp_namespace), ("another-volume", &team.ns)] {
        let claim = json!({"namespace": namespace, "name": "data-etcd-0"});
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/none"},
            "claimRef": claim, "persistentVolumeReclaimPolicy": "Recycle"});
        let volume = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a volume");
        volumes.create(&PostParams::default(), &volume).await.expect("create");
    }
    team.namespaces().delete(&team.cp_namespace, &DeleteParams::default()).await.expect("delete");
    let first = team.says(ConditionType::Degraded, "ControlPlaneLost").await;
    let keys = format!("kubectl -n {} get secrets,configmaps -o yaml", team.cp_namespace);
    assert!(first.contains("is being deleted, and that cannot be undone") && first.contains(&keys), "{first}");
    let saved = run_commands_of(&first, server);
    assert!(saved.contains("name: slow"), "{saved}");
    let policy = async |name: &str| {
        volumes.get(name).await.expect("volume").spec.expect("spec").persistent_volume_reclaim_policy
    };
    assert_eq!(policy("kept-volume").await.as_deref(), Some("Retain"));
    assert_eq!(policy("another-volume").await.as_deref(), Some("Recycle"), "somebody else's");
    let emptied = async || {
        assert_eq!(team.condition(ConditionType::Degraded).await.expect("condition").message, first);
        let (pods, etcds) = (team.inside::<Pod>(), team.inside::<EtcdCluster>());
        let (pods, etcds) = (pods.list(&ListParams::default()).await, etcds.list(&ListParams::default()).await);
        pods.expect("list").items.is_empty() && etcds.expect("list").items.is_empty()
    };
    until(SOON, "everything else to be gone", emptied).await;
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(team.condition(ConditionType::Degraded).await.expect("condition").message, first);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    team.inside::<ConfigMap>().patch("slow", &PatchParams::default(), &free).await.expect("patch");
    until(SOON, "gone", async || team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none()).await;
    let said = team.says_of(ConditionType::Ready, "ControlPlaneLost", "is gone. Restore").await;
    assert!(
        said.contains(&format!(
            "namespace {} (UID {uid}), which held the tenant's keys and data, is gone. Restore it from a backup",
            team.cp_namespace
        )),
        "{said}"
    );
    team.reconciled(&SHARED_CALLS).await;
    assert!(team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none());
    team.delete().await;
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
}
