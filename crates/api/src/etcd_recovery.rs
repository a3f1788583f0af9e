//! What Berth does by itself about an etcd that lost its quorum for good.

use crate::etcd_cluster::EtcdEndpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Who restores an etcd of which a majority has lost its data for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Recovery {
    /// A person.
    #[default]
    Manual,
    /// Berth.
    Automatic,
}

impl Recovery {
    /// Whether it is the default, which is not written.
    pub fn is_manual(&self) -> bool {
        *self == Self::Manual
    }
}

/// A recovery. It counts for `recovery.maxPerHour` of the fleet from `begun` on.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStatus {
    /// When the loss was seen first.
    pub since: Time,
    /// The epoch whose data was lost.
    pub epoch: i64,
    /// Which loss of this epoch it is: 1 for the first. A loss that ended by itself may be followed by another one. Default 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    #[schemars(range(min = 1))]
    pub round: i64,
    /// When it was about to begin, and others that came before were counted.
    pub queued: Option<Time>,
    /// When Berth created the `EtcdRestore`. None: it has not.
    pub begun: Option<Time>,
    /// The `EtcdRestore`, as `<namespace>/<name>`: the last one, if one failed. Without `begun`, or with `ended`: that of an earlier loss, which
    /// is given up.
    pub restore: Option<String>,
    /// Members whose data was left when it began, if what they hold is restored: each of them has to answer for the backup of it, since any of
    /// them may hold what was acknowledged last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub left: Vec<EtcdEndpoint>,
    /// The `EtcdBackup` that is restored, in the same namespace.
    pub backup: Option<String>,
    /// When its snapshot was taken: what was written later is lost. Of members that were left also what only the others had acknowledged.
    pub taken_at: Option<Time>,
    /// When etcd served again.
    pub restored_at: Option<Time>,
    /// When the loss had ended though nothing was restored by this recovery, such as by volumes that came back. Another loss is another
    /// recovery.
    pub ended: Option<Time>,
}

fn first() -> i64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_first(round: &i64) -> bool {
    *round == first()
}

impl RecoveryStatus {
    /// One that nothing was done about yet; `round`: of the losses of that epoch.
    pub fn new(since: Time, epoch: i64, round: i64) -> Self {
        let (queued, begun, restore, backup, taken_at, restored_at, ended) = (None, None, None, None, None, None, None);
        Self { since, epoch, round, queued, begun, restore, left: vec![], backup, taken_at, restored_at, ended }
    }

    /// Whether an `EtcdRestore` of it, as `<namespace>/<name>`, is given up: what it was created for has ended.
    pub fn has_given_up(&self, restore: &str) -> bool {
        self.restore.as_deref() == Some(restore) && (self.begun.is_none() || self.ended.is_some())
    }

    /// Whether it has neither restored etcd nor ended by itself.
    pub fn goes_on(&self) -> bool {
        self.restored_at.is_none() && self.ended.is_none()
    }
}
