//! What Berth keeps inside a tenant for `kubeadm join` is what `kubeadm init` of the same version makes.

use crate::common::{Team, shared_operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::labels;
use berth_testkit::ApiServer;
use berth_testkit::apiserver::binary;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// Kind and name of what kubeadm makes and Berth does not.
const NOT_OURS: [&str; 2] = [
    // Berth's own is `berth:kubelet-api-admin`, for the same user.
    "ClusterRoleBinding kubeadm:apiserver-kubelet-client",
    // kube-controller-manager would approve any name; `berth-approve` beside it looks whether a node has it.
    "ClusterRoleBinding kubeadm:node-autoapprove-bootstrap",
];

/// Objects by kind and name, without what an API server adds.
type Objects = BTreeMap<String, Value>;

async fn objects<K>(api: Api<K>, wanted: impl Fn(&K) -> bool, into: &mut Objects) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    for object in api.list(&ListParams::default()).await?.items.into_iter().filter(|object| wanted(object)) {
        let mut value = serde_json::to_value(&object)?;
        let name = object.name_any();
        value.as_object_mut().context("an object")?.remove("metadata");
        for (_, text) in value["data"].as_object_mut().into_iter().flatten() {
            let parsed: Value = serde_saphyr::from_str(text.as_str().unwrap_or_default())?;
            *text = parsed;
        }
        into.insert(format!("{} {name}", K::kind(&())), value);
    }
    Ok(())
}

async fn all<F>(client: &Client, ours: F) -> Result<Objects>
where
    F: Fn(&ObjectMeta) -> bool + Copy,
{
    let mut found = Objects::new();
    objects::<ConfigMap>(Api::all(client.clone()), |o| ours(o.meta()), &mut found).await?;
    objects::<Role>(Api::all(client.clone()), |o| ours(o.meta()), &mut found).await?;
    objects::<RoleBinding>(Api::all(client.clone()), |o| ours(o.meta()), &mut found).await?;
    objects::<ClusterRole>(Api::all(client.clone()), |o| ours(o.meta()), &mut found).await?;
    objects::<ClusterRoleBinding>(Api::all(client.clone()), |o| ours(o.meta()), &mut found).await?;
    Ok(found)
}

/// `kubeadm init phase` on an API server of its own, told what Berth knows of the tenant.
async fn by_kubeadm(ours: &Objects) -> Result<Objects> {
    let server = ApiServer::start().await?;
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("admin.conf");
    std::fs::write(&kubeconfig, server.kubeconfig_as("admin", &["system:masters"]))?;
    let configuration = ours["ConfigMap kubeadm-config"]["data"]["ClusterConfiguration"].clone();
    let file = dir.path().join("kubeadm.yaml");
    std::fs::write(&file, serde_json::to_string(&configuration)?)?;
    let kubeadm = binary("kubernetes", "v1.36.3", "kubeadm")?;
    for phase in [&["upload-config", "all"][..], &["bootstrap-token"]] {
        let mut command = Command::new(&kubeadm);
        command.args(["init", "phase"]).args(phase).arg("--config").arg(&file).arg("--kubeconfig").arg(&kubeconfig);
        let output = command.output()?;
        ensure!(output.status.success(), "{phase:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let made = |meta: &ObjectMeta| {
        let name = meta.name.as_deref().unwrap_or_default();
        name.starts_with("kubeadm:") || ["cluster-info", "kubeadm-config", "kubelet-config"].contains(&name)
    };
    all(&server.client(), made).await
}

/// Takes out what kubeadm writes of fields that nobody set.
fn drop_zeros(value: &mut Value) {
    value.as_array_mut().into_iter().flatten().for_each(drop_zeros);
    let Some(fields) = value.as_object_mut() else { return };
    fields.values_mut().for_each(drop_zeros);
    fields.retain(|_, value| !["0s", "0", ""].map(Value::from).contains(value) && *value != 0 && *value != json!({}));
}

#[tokio::test]
async fn what_a_join_needs_is_what_kubeadm_makes() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let id = team.tenant().await.unwrap();
    let label = format!("{}-{id}", labels::TENANT_SET);
    let of_join = |meta: &ObjectMeta| {
        let set = meta.labels.as_ref().and_then(|all| all.get(&label));
        set.is_some_and(|set| set == "join") && !meta.name.as_deref().unwrap_or_default().starts_with("berth-")
    };
    let ours = all(&team.client, of_join).await.unwrap();
    // The test's tenants share a server, where each has names of its own.
    let ours = serde_json::to_string(&ours).unwrap().replace(&format!("{id}:"), "");
    let ours: Objects = serde_json::from_str(&ours).unwrap();
    let mut theirs = by_kubeadm(&ours).await.unwrap();
    let all = theirs.len();
    theirs.retain(|name, _| !NOT_OURS.contains(&name.as_str()));
    assert_eq!(all - theirs.len(), NOT_OURS.len(), "kubeadm makes all of these");
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    // A CA and an address of its own.
    let cluster = |of: &Objects| of["ConfigMap cluster-info"].pointer("/data/kubeconfig/clusters/0").cloned().unwrap();
    for field in ["certificate-authority-data", "server"] {
        let (ours, theirs) = (cluster(&ours), cluster(&theirs));
        assert!(ours["cluster"][field].is_string() && theirs["cluster"][field].is_string(), "{ours}\n{theirs}");
        assert_eq!(ours["name"], theirs["name"]);
    }
    let kubelet = &mut theirs.get_mut("ConfigMap kubelet-config").unwrap()["data"]["kubelet"];
    drop_zeros(kubelet);
    // Kubelets ask the tenant's CA for their serving certificates; `kubeadm init` lets each sign its own.
    kubelet["serverTLSBootstrap"] = true.into();
    let compared = theirs.iter().filter(|(name, _)| *name != "ConfigMap cluster-info");
    let differ: Vec<_> = compared.filter(|(name, theirs)| ours[*name] != **theirs).collect();
    let texts = differ.iter().map(|(name, theirs)| format!("{name}\nkubeadm: {theirs:#}\nBerth: {:#}\n", ours[*name]));
    assert!(differ.is_empty(), "{}", texts.collect::<String>());
}
