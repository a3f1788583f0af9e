//! What others than its own planner know of an `EtcdCluster`: whose it is, and the commands that its messages name.

use berth_api::etcd_cluster::{EtcdCluster, EtcdClusterSpec};
use berth_api::{labels, names};
use jiff::SignedDuration;
use kube_core::ResourceExt as _;
use serde_json::json;

/// Name and namespace.
pub fn name_of(etcd: &EtcdCluster) -> (&str, &str) {
    let m = &etcd.metadata;
    (m.name.as_deref().unwrap_or_default(), m.namespace.as_deref().unwrap_or_default())
}

/// What is backed up and restored, and where the objects for that are.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The field that refers to it: `clusterRef` or `etcdClusterRef`.
    pub field: &'static str,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Home<'a> {
    /// Of that `EtcdCluster`. A tenant's etcd is its `Cluster`'s. Whoever creates an `EtcdCluster` writes its labels, so they count only where
    /// that `Cluster`'s control plane is, to which Berth alone writes: in any other namespace they would have a say in another team's.
    pub fn of(etcd: &'a EtcdCluster) -> Self {
        let label = |name: &str| etcd.labels().get(name).map(String::as_str);
        let (own, within) = name_of(etcd);
        match (label(labels::CLUSTER_NAMESPACE), label(labels::CLUSTER_NAME)) {
            (Some(namespace), Some(name)) if names::control_plane_namespace(namespace, name) == within => {
                Self { namespace, field: "clusterRef", name }
            }
            _ => Self { namespace: within, field: "etcdClusterRef", name: own },
        }
    }

    /// `kubectl berth etcd` with a verb, as it is typed.
    pub fn command(&self, verb: &str) -> String {
        let stand_alone = if self.field == "etcdClusterRef" { " --stand-alone" } else { "" };
        format!("kubectl berth -n {} etcd {verb} {}{stand_alone}", self.namespace, self.name)
    }
}

/// `kubectl berth etcd` with a verb, of this etcd.
pub fn command(etcd: &EtcdCluster, verb: &str) -> String {
    Home::of(etcd).command(verb)
}

/// Whether it is the etcd of a `Cluster`.
pub fn is_tenants(etcd: &EtcdCluster) -> bool {
    Home::of(etcd).field == "clusterRef"
}

/// How long data is kept that is not used any more.
pub fn keep_old_data(spec: &EtcdClusterSpec) -> SignedDuration {
    let asked = spec.keep_old_data.as_deref().and_then(|text| text.parse::<SignedDuration>().ok());
    asked.filter(|d| !d.is_negative()).unwrap_or(KEEP)
}

/// A week: long enough for somebody to notice that the wrong backup was restored.
const KEEP: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The command that keeps volumes of members, whatever becomes of their claims.
pub fn keep_volumes(namespace: &str, members: &[&str]) -> String {
    let claims = members.iter().map(|m| format!("data-{m}")).collect::<Vec<_>>().join(" ");
    let path = if members.len() == 1 { ".spec.volumeName" } else { ".items[*].spec.volumeName" };
    let patch = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    format!(
        "kubectl patch pv $(kubectl -n {namespace} get pvc {claims} -o jsonpath='{{{path}}}') --type=merge -p '{patch}'"
    )
}

/// The command that has members begin anew, on empty volumes: what is on theirs is kept, for whoever finds out later that it was needed.
pub fn give_up(namespace: &str, members: &[&str]) -> String {
    format!("{} && {}", keep_volumes(namespace, members), delete_volumes(namespace, members))
}

/// The command that deletes claims of members, with their pods. Admission refuses to delete a claim of Berth's without that label.
pub fn delete_volumes(namespace: &str, members: &[&str]) -> String {
    let of = |prefix: &str| members.iter().map(|m| format!("{prefix}{m}")).collect::<Vec<_>>().join(" ");
    let (claims, pods) = (of("pvc/data-"), of("pod/"));
    format!(
        "kubectl -n {namespace} label {claims} {}=true && kubectl -n {namespace} delete {claims} {pods} --wait=false",
        labels::ALLOW_DELETION
    )
}
