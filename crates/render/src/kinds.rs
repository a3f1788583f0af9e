//! The closed table of the kinds that Berth may apply or observe.
//!
//! A template that emits anything else is refused by [`crate::finish`], and the operator's RBAC is generated from the
//! same table, so "what may Berth touch" has one answer.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// Where in the meta cluster Berth meets objects of a kind: what a right is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In every namespace, and cluster-scoped.
    Everywhere,
    /// In a control-plane namespace, which Berth made.
    ControlPlane,
}

/// How Berth handles a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It writes objects of it.
    Applied,
    /// It only observes and deletes them.
    Observed,
}

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}

/// One row of the table.
struct Row {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    scope: Scope,
    used: Use,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $group:expr, $version:expr, $plural:expr, $scope:ident, $used:ident;)+) => {
        /// A kind from the closed table. The order of the variants is the order in which objects are applied, see [`Kind::ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Kind { $($(#[$doc])* $kind,)+ }

        const TABLE: &[Row] = &[$(Row {
            name: stringify!($kind), group: $group, version: $version, plural: $plural, scope: Scope::$scope,
            used: Use::$used,
        },)+];

        impl Kind {
            /// Every kind, in apply order.
            pub const ALL: [Self; TABLE.len()] = [$(Self::$kind),+];
        }
    };
}

const RBAC: &str = "rbac.authorization.k8s.io";
const BERTH: &str = "berth.dev";

// In apply order: each object after those that it needs in order to work at once.
// The namespace holds everything. RBAC comes next, since a 403 for the next write costs a reconcile. Policies come before the first
// pod that they protect. Secrets and ConfigMaps before what mounts them, or kubelet waits out its retry of a missing volume.
// Services before workloads, so that names and addresses are there when a pod asks. Etcd before its clients. Deployments last.
kinds! {
    /// `v1` Namespace.
    Namespace: "", "v1", "namespaces", Cluster, Applied;
    /// `v1` ServiceAccount (in tenants; and `default` of a control-plane namespace, for its pull Secrets).
    ServiceAccount: "", "v1", "serviceaccounts", Namespaced, Applied;
    /// `rbac.authorization.k8s.io/v1` ClusterRole (in tenants; read where a `ClusterAccess` names one).
    ClusterRole: RBAC, "v1", "clusterroles", Cluster, Applied;
    /// `rbac.authorization.k8s.io/v1` ClusterRoleBinding (in tenants).
    ClusterRoleBinding: RBAC, "v1", "clusterrolebindings", Cluster, Applied;
    /// `rbac.authorization.k8s.io/v1` Role (in tenants).
    Role: RBAC, "v1", "roles", Namespaced, Applied;
    /// `rbac.authorization.k8s.io/v1` RoleBinding.
    RoleBinding: RBAC, "v1", "rolebindings", Namespaced, Applied;
    /// `networking.k8s.io/v1` NetworkPolicy.
    NetworkPolicy: "networking.k8s.io", "v1", "networkpolicies", Namespaced, Applied;
    /// `policy/v1` PodDisruptionBudget.
    PodDisruptionBudget: "policy", "v1", "poddisruptionbudgets", Namespaced, Applied;
    /// `v1` Secret.
    Secret: "", "v1", "secrets", Namespaced, Applied;
    /// `v1` ConfigMap.
    ConfigMap: "", "v1", "configmaps", Namespaced, Applied;
    /// `k8s.cni.cncf.io/v1` NetworkAttachmentDefinition (read where a `Cluster` names one, and copied to where its pods are).
    NetworkAttachmentDefinition: "k8s.cni.cncf.io", "v1", "network-attachment-definitions", Namespaced, Applied;
    /// `v1` PersistentVolumeClaim (observed and deleted, made by StatefulSets).
    PersistentVolumeClaim: "", "v1", "persistentvolumeclaims", Namespaced, Observed;
    /// `v1` Service.
    Service: "", "v1", "services", Namespaced, Applied;
    /// `gateway.networking.k8s.io/v1` TLSRoute (where a platform's own Gateway leads to tenants).
    TLSRoute: "gateway.networking.k8s.io", "v1", "tlsroutes", Namespaced, Applied;
    /// `v1` Endpoints (in tenants).
    Endpoints: "", "v1", "endpoints", Namespaced, Applied;
    /// `discovery.k8s.io/v1` EndpointSlice (in tenants).
    EndpointSlice: "discovery.k8s.io", "v1", "endpointslices", Namespaced, Applied;
    /// `berth.dev/v1alpha1` EtcdCluster.
    EtcdCluster: BERTH, "v1alpha1", "etcdclusters", Namespaced, Applied;
    /// `berth.dev/v1alpha1` Cluster (read; its status and finalizers are written).
    Cluster: BERTH, "v1alpha1", "clusters", Namespaced, Observed;
    /// `berth.dev/v1alpha1` ClusterAccess (read; its status and finalizers are written).
    ClusterAccess: BERTH, "v1alpha1", "clusteraccesses", Namespaced, Observed;
    /// `berth.dev/v1alpha1` EtcdBackup.
    EtcdBackup: BERTH, "v1alpha1", "etcdbackups", Namespaced, Applied;
    /// `berth.dev/v1alpha1` EtcdBackupSchedule.
    EtcdBackupSchedule: BERTH, "v1alpha1", "etcdbackupschedules", Namespaced, Applied;
    /// `berth.dev/v1alpha1` EtcdRestore (created where a lost quorum is restored by itself).
    EtcdRestore: BERTH, "v1alpha1", "etcdrestores", Namespaced, Applied;
    /// `berth.dev/v1alpha1` App (read; its status and finalizers are written).
    App: BERTH, "v1alpha1", "apps", Namespaced, Observed;
    /// `berth.dev/v1alpha1` AppInstallation.
    AppInstallation: BERTH, "v1alpha1", "appinstallations", Namespaced, Applied;
    /// `berth.dev/v1alpha1` ClusterRevision.
    ClusterRevision: BERTH, "v1alpha1", "clusterrevisions", Namespaced, Applied;
    /// `apps/v1` StatefulSet.
    StatefulSet: "apps", "v1", "statefulsets", Namespaced, Applied;
    /// `apps/v1` Deployment.
    Deployment: "apps", "v1", "deployments", Namespaced, Applied;
    /// `apps/v1` DaemonSet (in tenants).
    DaemonSet: "apps", "v1", "daemonsets", Namespaced, Applied;
    /// `batch/v1` Job.
    Job: "batch", "v1", "jobs", Namespaced, Applied;
    /// `v1` Pod (observed and deleted, made by workloads).
    Pod: "", "v1", "pods", Namespaced, Observed;
    /// `storage.k8s.io/v1` StorageClass (read where volumes are to grow).
    StorageClass: "storage.k8s.io", "v1", "storageclasses", Cluster, Observed;
    /// `v1` PersistentVolume (read where a member of etcd finds no node).
    PersistentVolume: "", "v1", "persistentvolumes", Cluster, Observed;
    /// `v1` Node (read where a member of etcd finds no node).
    Node: "", "v1", "nodes", Cluster, Observed;
}

impl Kind {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The kind as manifests spell it, such as `Deployment`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The API group, empty for the core group.
    pub fn group(self) -> &'static str {
        self.row().group
    }

    /// The version within the group, such as `v1`.
    pub fn version(self) -> &'static str {
        self.row().version
    }

    /// `group/version`, or the bare version for the core group.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// The resource name in URLs and RBAC rules, such as `deployments`.
    pub fn plural(self) -> &'static str {
        self.row().plural
    }

    /// Whether objects of this kind live in a namespace.
    pub fn namespaced(self) -> bool {
        self.row().scope == Scope::Namespaced
    }

    /// Whether Berth writes objects of this kind. False: it only observes and deletes them.
    pub fn applied(self) -> bool {
        self.row().used == Use::Applied
    }

    /// What the operator does with objects of this kind there, as RBAC verbs; empty for kinds that live inside of tenants
    /// only. The operator's roles are generated from this.
    ///
    /// `patch` is how it applies (then `create` with it), and how it writes finalizers. Secrets are read where Berth made
    /// the namespace and nowhere else; of ConfigMaps elsewhere only those that an `App` names are asked for. RoleBindings and ServiceAccounts are limited to one name each by the generated
    /// rule.
    pub fn verbs(self, place: Place) -> &'static [&'static str] {
        match (place, self) {
            (
                Place::Everywhere,
                Self::Namespace | Self::EtcdBackup | Self::EtcdBackupSchedule | Self::AppInstallation,
            ) => &["get", "list", "watch", "create", "patch", "delete"],
            // Both go with their namespace.
            (Place::Everywhere, Self::RoleBinding)
            | (Place::ControlPlane, Self::NetworkAttachmentDefinition | Self::ServiceAccount) => {
                &["get", "create", "patch"]
            }
            (Place::Everywhere, Self::Secret) => &["create", "patch", "delete"],
            (
                Place::Everywhere,
                Self::ConfigMap
                | Self::NetworkAttachmentDefinition
                | Self::StorageClass
                | Self::PersistentVolume
                | Self::ClusterRole,
            ) => &["get"],
            (Place::Everywhere, Self::ClusterAccess | Self::Cluster | Self::EtcdCluster | Self::App) => {
                &["get", "list", "watch", "patch"]
            }
            (Place::Everywhere, Self::EtcdRestore) => &["get", "list", "watch", "create", "patch"],
            (
                Place::Everywhere,
                Self::NetworkPolicy
                | Self::PodDisruptionBudget
                | Self::PersistentVolumeClaim
                | Self::Service
                | Self::StatefulSet
                | Self::Deployment
                | Self::TLSRoute
                | Self::Job
                | Self::Pod,
            ) => &["list", "watch"],
            (
                Place::ControlPlane,
                Self::NetworkPolicy
                | Self::PodDisruptionBudget
                | Self::Secret
                | Self::ConfigMap
                | Self::Service
                | Self::EtcdCluster
                | Self::ClusterRevision
                | Self::StatefulSet
                | Self::Deployment
                | Self::TLSRoute
                | Self::Job,
            ) => &["get", "list", "create", "patch", "delete"],
            (Place::ControlPlane, Self::PersistentVolumeClaim) => &["get", "list", "patch", "delete"],
            (Place::ControlPlane, Self::Pod) => &["get", "list", "delete"],
            _ => &[],
        }
    }

    /// Of [`Kind::verbs`], those that the operator has whatever the chart's values say: what it made it can also remove. The others, of a kind that
    /// only one engine of the gateway has, go with that engine.
    pub fn verbs_always(self, place: Place) -> &'static [&'static str] {
        match (place, self) {
            (Place::Everywhere, Self::TLSRoute) => &[],
            (Place::ControlPlane, Self::TLSRoute) => &["list", "delete"],
            _ => self.verbs(place),
        }
    }

    /// The position in apply order; smaller is applied first, larger is pruned first.
    pub fn order(self) -> usize {
        self as usize
    }

    /// Whether the kind has a pod template.
    pub fn has_pods(self) -> bool {
        matches!(self, Self::StatefulSet | Self::Deployment)
    }

    /// Finds the kind of a manifest by its `apiVersion` and `kind`; none outside of the table.
    pub fn from_api_version(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self::from_gvk(group, version, kind)
    }

    /// Finds a kind by group (empty for core), version and name; none outside of the table.
    pub fn from_gvk(group: &str, version: &str, kind: &str) -> Option<Self> {
        let is_it = |found: &Self| (found.group(), found.version(), found.name()) == (group, version, kind);
        Self::ALL.into_iter().find(is_it)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names one object. Ordered by apply order of the kind, then namespace, then name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// The namespace; none for cluster-scoped kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of an object of that kind, by what its metadata say.
    pub fn of(kind: Kind, object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        if kind.namespaced() {
            Self::namespaced(kind, text("namespace"), text("name"))
        } else {
            Self::cluster(kind, text("name"))
        }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, namespace: None, name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_api_version(&kind.api_version(), kind.name()), Some(kind));
        }
        assert_eq!(Kind::from_api_version("batch/v1", "CronJob"), None);
    }

    #[test]
    fn secrets_are_read_only_in_control_plane_namespaces() {
        for place in [Place::Everywhere, Place::ControlPlane] {
            for kind in Kind::ALL {
                let verbs = kind.verbs(place);
                let reads = verbs.iter().any(|v| ["get", "list", "watch"].contains(v));
                assert!(!(kind == Kind::Secret && place == Place::Everywhere && reads));
                assert!(!verbs.contains(&"create") || kind.applied(), "{kind} is never applied");
                assert!(!verbs.contains(&"create") || verbs.contains(&"patch"), "{kind}: apply needs both");
                assert!(kind.verbs_always(place).iter().all(|verb| verbs.contains(verb)), "{kind}");
            }
        }
    }

    #[test]
    fn keys_read_like_kubectl() {
        let key = ObjectKey::namespaced(Kind::Deployment, "acme-1", "kube-apiserver");
        assert_eq!(key.to_string(), "Deployment acme-1/kube-apiserver");
        assert!(ObjectKey::cluster(Kind::Namespace, "z") < key);
    }
}
