//! What is read for one `Cluster`.

use super::next;
use super::sizes::{self, Sizes};
use crate::access::Access;
use crate::args::Status;
use crate::plan::leaf_lifetime;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_kubeio::{ErrorKind, IoError};
use berth_plan::meta_cluster::addresses::PRIVATE;
use berth_plan::object_meta::{deleting, label};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// What was read.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The `Cluster`.
    pub(super) cluster: Cluster,
    /// Its etcd, if it is there and may be read.
    pub(super) etcd: Option<EtcdCluster>,
    /// Deployments in the control-plane namespace.
    pub(super) deployments: Vec<Value>,
    /// Pods in it.
    pub(super) pods: Vec<Value>,
    /// What they request and use.
    pub(super) sizes: Sizes,
    /// How long leaf certificates live, if one ends soon and it is known.
    pub(super) leaf_lifetime: Option<SignedDuration>,
    /// Why some of it could not be read, and what protects it better.
    pub(super) notes: Vec<String>,
}

impl Seen {
    /// Of one among many only the `Cluster` is read.
    pub(super) fn of(cluster: Cluster) -> Self {
        let sizes = Sizes::default();
        Self { cluster, etcd: None, deployments: vec![], pods: vec![], sizes, leaf_lifetime: None, notes: vec![] }
    }
}

/// Reads it. The owner of a `Cluster` needs no rights in its control-plane namespace: then its status is all there is.
pub(super) async fn one(access: &Access, name: &str, args: &Status, now: Timestamp) -> anyhow::Result<Seen> {
    let (_, _, cluster) = access.read_cluster(name).await?;
    let cp_namespace = access.control_plane_namespace(&cluster, name);
    let mut notes = Vec::from_iter(unprotected_namespace(access, &cluster).await);
    let etcd = access.io.get(&ObjectKey::namespaced(Kind::EtcdCluster, &cp_namespace, names::ETCD)).await;
    let etcd = readable(access, etcd, &mut notes)?.flatten();
    let deployments = access.io.list(Kind::Deployment, &*cp_namespace, None).await;
    let deployments = readable(access, deployments, &mut notes)?.unwrap_or_default();
    let pods = access.io.list(Kind::Pod, &*cp_namespace, None).await;
    let pods = readable(access, pods, &mut notes)?.unwrap_or_default();
    let sizes = if pods.is_empty() { Sizes::default() } else { sizes::read(access, &cp_namespace).await };
    if private_networks_are_open(access, &cp_namespace).await {
        notes.push(
            "API servers of this tenant reach private networks, since an earlier Berth created it: see isolation.privateNetworks.olderTenants in the values of Berth's chart".to_owned(),
        );
    }
    let etcd = etcd.and_then(|etcd| {
        let unreadable = |error: serde_json::Error| {
            format!("EtcdCluster {cp_namespace}/{}: this version cannot read it: {error}", names::ETCD)
        };
        serde_json::from_value(etcd).map_err(|error| notes.push(unreadable(error))).ok()
    });
    let expiry = cluster.status.as_ref().and_then(|s| s.certificates.as_ref()?.next_expiry.as_ref());
    let leaf_lifetime = match expiry {
        Some(at) if next::near(at.0, now) => leaf_lifetime(&access.io, &args.operator_namespace).await,
        _ => None,
    };
    Ok(Seen { cluster, etcd, deployments, pods, sizes, leaf_lifetime, notes })
}

/// Whether the policy of kube-apiserver leaves them open to what it calls the Internet. Who may not read it is not told.
async fn private_networks_are_open(access: &Access, cp_namespace: &str) -> bool {
    let key = ObjectKey::namespaced(Kind::NetworkPolicy, cp_namespace, names::APISERVER);
    let Ok(Some(policy)) = access.io.get(&key).await else { return false };
    let rules = policy["spec"]["egress"].as_array().into_iter().flatten();
    let peers = rules.flat_map(|rule| rule["to"].as_array().into_iter().flatten());
    let mut internet = peers.map(|peer| &peer["ipBlock"]).filter(|block| block["cidr"] == "0.0.0.0/0");
    internet.any(|block| !block["except"].as_array().is_some_and(|all| all.iter().any(|net| net == PRIVATE[0])))
}

/// The Cluster is protected, and the namespace that it is in is not. Whoever may not read that cannot label it either.
async fn unprotected_namespace(access: &Access, cluster: &Cluster) -> Option<String> {
    let name = &access.namespace;
    if !cluster.spec.deletion.protected || cluster.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let live = access.io.get(&ObjectKey::cluster(Kind::Namespace, name.clone())).await.ok().flatten()?;
    let undecided = label(&live, labels::PROTECTED).is_none() && !deleting(&live);
    undecided.then(|| {
        format!(
            "namespace {name} can be deleted with everything in it. To protect it like this Cluster: kubectl label namespace {name} {}=true",
            labels::PROTECTED
        )
    })
}

/// What may not be read is left out and noted.
fn readable<T>(access: &Access, answer: Result<T, IoError>, notes: &mut Vec<String>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind == ErrorKind::Forbidden => {
            notes.push(format!("not shown: {error}"));
            Ok(None)
        }
        Err(error) => Err(access.explain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{access, asked, cluster, conditions, now, status};
    use serde_json::{Value, json};

    /// What is noted of a ready `Cluster` with that in its spec, in a namespace that is answered so.
    async fn notes(spec: Value, code: u16, namespace: Value) -> Vec<String> {
        let mut one = cluster(status("Ready", &conditions(&[])));
        one["spec"]["deletion"] = spec;
        let access = access(move |path| match path {
            "/apis/berth.dev/v1alpha1/namespaces/team-a/clusters/acme" => (200, one.clone()),
            "/api/v1/namespaces/team-a" => (code, namespace.clone()),
            path if path.ends_with("/etcd") => (404, json!({"code": 404})),
            _ => (200, json!({"items": []})),
        });
        super::one(&access, "acme", &asked(Some("acme"), false), now()).await.unwrap().notes
    }

    #[tokio::test]
    async fn a_namespace_that_is_not_protected_as_its_cluster_is_noted_and_a_decision_is_not() {
        let labelled = |labels: Value| json!({"metadata": {"name": "team-a", "labels": labels}});
        let told = notes(json!({}), 200, labelled(json!({"a": "b"}))).await;
        assert!(
            told.len() == 1 && told[0].ends_with("kubectl label namespace team-a berth.dev/protected=true"),
            "{told:?}"
        );
        for decided in ["true", "", "false"] {
            assert_eq!(notes(json!({}), 200, labelled(json!({"berth.dev/protected": decided}))).await, [""; 0]);
        }
        assert_eq!(notes(json!({"protected": false}), 200, labelled(json!({}))).await, [""; 0]);
        let ending = json!({"metadata": {"name": "team-a", "deletionTimestamp": "2026-01-31T23:59:00Z"}});
        assert_eq!(notes(json!({}), 200, ending).await, [""; 0]);
        // An owner may see no more than the Cluster.
        assert_eq!(notes(json!({}), 403, json!({"code": 403})).await, [""; 0]);
    }
}
