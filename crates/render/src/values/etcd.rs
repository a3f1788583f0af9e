//! Values of an etcd cluster.

use berth_api::etcd_bootstrap::{BootstrapState, MemberRecord};
use serde::Serialize;

use super::{Meta, Workload};

/// Everything the templates of etcd's Services may ask for. They come first: the members' names need their addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EtcdServicesValues {
    /// Namespace and labels.
    pub meta: Meta,
    /// The `EtcdCluster`'s name: the name of the StatefulSet.
    pub name: String,
    /// Member names, in ordinal order: `<name>-0`, `<name>-1`, …
    pub members: Vec<String>,
}

/// Everything etcd's other templates may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EtcdValues {
    /// Namespace and labels.
    pub meta: Meta,
    /// Pods. `host_aliases` maps `<member>.<namespace>.svc` to the member Services' addresses.
    pub workload: Workload,
    /// The `EtcdCluster`'s name: the name of the StatefulSet.
    pub name: String,
    /// The `EtcdCluster`'s UID: half of the token that keeps clusters apart, and what the marker on the volume is compared with.
    pub cluster_uid: String,
    /// The other half: it grows with each bootstrap or restore, from 1.
    pub epoch: i64,
    /// Whether an empty volume may start.
    pub state: BootstrapState,
    /// The epoch was begun from a backup. A guard that is told so sets data of earlier epochs aside where a member joins.
    pub restored: bool,
    /// Members whose volume may not be empty any more, whatever the state says.
    pub joined: Vec<String>,
    /// How often `journal` was written.
    pub serial: i64,
    /// The members as they are to be, once they were changed. A guard that is given it lets a member join a running cluster.
    pub journal: Vec<MemberRecord>,
    /// Names of the members in `--initial-cluster`, at least one; only read by a member whose data directory is empty.
    pub members: Vec<String>,
    /// Volumes.
    pub storage: EtcdStorage,
    /// `--quota-backend-bytes`, in bytes. Upstream suggests at most 8 GiB; the volume should hold three times as much.
    pub quota_bytes: i64,
    /// `--heartbeat-interval`, in milliseconds. None: etcd's default.
    pub heartbeat_ms: Option<i64>,
    /// `--election-timeout`, in milliseconds. None: etcd's default.
    pub election_ms: Option<i64>,
    /// `--snapshot-count`.
    pub snapshot_count: i64,
    /// For how many seconds data is kept that guards set aside.
    pub keep_old_data: i64,
    /// Names of the Secrets.
    pub secrets: EtcdSecrets,
}

/// The members' volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EtcdStorage {
    /// StorageClass; none: the meta cluster's default.
    pub class_name: Option<String>,
    /// A quantity such as `10Gi`.
    pub size: String,
}

/// Names of the Secrets that members mount, each with `tls.crt`, `tls.key` and `ca.crt`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EtcdSecrets {
    /// `<name>-server`; its `ca.crt` is the client CA.
    pub server: String,
    /// `<name>-peer`; its `ca.crt` is the peer CA.
    pub peer: String,
}
