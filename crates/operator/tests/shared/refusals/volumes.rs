//! Volumes of etcd that are to be larger, or smaller, at a real API server, whose admission has a say in it. No resizer runs: the world's
//! claims are as large as they ask to be.

use crate::common::{SOON, Team, shared_operator};
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

#[tokio::test]
async fn a_volume_grows_where_its_class_lets_it_and_nobody_restarts() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let size = async |size: &str| team.spec(json!({"etcd": {"storage": {"size": size}}})).await.expect("patch");
    let pod = async || team.inside::<Pod>().get("etcd-0").await.expect("etcd-0").uid();
    let first = pod().await;

    size("5Gi").await;
    let said = team.says(ConditionType::Ready, "InvalidSpec").await;
    assert!(said.contains("5Gi is less than the 10Gi of") && said.contains("Set it back to 10Gi"), "{said}");
    size("20Gi").await;
    let said = team.says(ConditionType::Ready, "EtcdChangeUnsupported").await;
    assert!(said.contains("has no StorageClass, so it stays at"), "{said}");

    let classes: Api<StorageClass> = Api::all(team.client.clone());
    let class = format!("class-{}", team.ns);
    let object = json!({"metadata": {"name": class}, "provisioner": "example.com/none", "allowVolumeExpansion": false});
    team_class(&classes, object).await;
    let claims = team.inside::<PersistentVolumeClaim>();
    let of_class = json!({"spec": {"storageClassName": class}});
    claims.patch("data-etcd-0", &PatchParams::default(), &Patch::Merge(&of_class)).await.expect("its class");
    let said = team.says_of(ConditionType::Ready, "EtcdChangeUnsupported", "does not let volumes grow").await;
    assert!(said.contains(&class), "{said}");

    let allows = json!({"allowVolumeExpansion": true});
    classes.patch(&class, &PatchParams::default(), &Patch::Merge(&allows)).await.expect("the class");
    size("21Gi").await;
    let grown = async || {
        let claim = claims.get("data-etcd-0").await?;
        let text = serde_json::to_value(&claim)?;
        let (asks, has) = (&text["spec"]["resources"]["requests"]["storage"], &text["status"]["capacity"]["storage"]);
        anyhow::ensure!(asks == "21Gi" && has == "21Gi", "{asks} {has}");
        Ok(())
    };
    eventually(SOON, "the volume to grow", grown).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(pod().await, first);
    let _ = classes.delete(&class, &kube::api::DeleteParams::default()).await;
}

async fn team_class(classes: &Api<StorageClass>, object: serde_json::Value) {
    let class: StorageClass = serde_json::from_value(object).expect("a StorageClass");
    classes.create(&kube::api::PostParams::default(), &class).await.expect("create");
}
