//! What is read for one `Cluster`.

use super::next;
use crate::access::{Access, parse};
use crate::args::Status;
use crate::plan::leaf_lifetime;
use berth_api::{Cluster, EtcdCluster, names};
use berth_kubeio::{ErrorKind, IoError};
use berth_plan::meta_cluster::addresses::PRIVATE;
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
    /// How long leaf certificates live, if one ends soon and it is known.
    pub(super) leaf_lifetime: Option<SignedDuration>,
    /// Why some of it could not be read.
    pub(super) notes: Vec<String>,
}

impl Seen {
    /// Of one among many only the `Cluster` is read.
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster, etcd: None, deployments: vec![], pods: vec![], leaf_lifetime: None, notes: vec![] }
    }
}

/// Reads it. The owner of a `Cluster` needs no rights in its control-plane namespace: then its status is all there is.
pub(super) async fn one(access: &Access, name: &str, args: &Status, now: Timestamp) -> anyhow::Result<Seen> {
    let value = access.cluster(name).await?;
    let cluster: Cluster = parse(value, &format!("Cluster {}/{name}", access.namespace))?;
    let recorded = cluster.status.as_ref().and_then(|s| s.control_plane_namespace.as_ref()).map(|n| n.name.clone());
    let cp_namespace = recorded.unwrap_or_else(|| names::control_plane_namespace(&access.namespace, name));
    let mut notes = vec![];
    let etcd = access.io.get(&ObjectKey::namespaced(Kind::EtcdCluster, &cp_namespace, names::ETCD)).await;
    let etcd = readable(access, etcd, &mut notes)?.flatten();
    let deployments = access.io.list(Kind::Deployment, &cp_namespace, None).await;
    let deployments = readable(access, deployments, &mut notes)?.unwrap_or_default();
    let pods = access.io.list(Kind::Pod, &cp_namespace, None).await;
    let pods = readable(access, pods, &mut notes)?.unwrap_or_default();
    if private_networks_are_open(access, &cp_namespace).await {
        notes.push(
            "API servers of this tenant reach private networks, since an earlier Berth created it: see isolation.privateNetworks.olderTenants in the values of Berth's chart".to_owned(),
        );
    }
    let etcd = match etcd.map(serde_json::from_value::<EtcdCluster>).transpose() {
        Ok(etcd) => etcd,
        Err(error) => {
            notes.push(format!("EtcdCluster {cp_namespace}/{}: this version cannot read it: {error}", names::ETCD));
            None
        }
    };
    let expiry = cluster.status.as_ref().and_then(|s| s.certificates.as_ref()?.next_expiry.as_ref());
    let leaf_lifetime = match expiry {
        Some(at) if next::near(at.0, now) => leaf_lifetime(&access.io, &args.operator_namespace).await,
        _ => None,
    };
    Ok(Seen { cluster, etcd, deployments, pods, leaf_lifetime, notes })
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
