//! Whose data a volume holds.

use serde::{Deserialize, Serialize};

/// Whose data a volume holds. The guard writes it before etcd's first start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// As in [`Bootstrap`].
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// As in [`Bootstrap`].
    pub epoch: i64,
    /// The member's name.
    pub member: String,
    /// etcd's ID in hexadecimal, of a member that joined a running cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Marker {
    /// Whether both are of the same member of the same cluster in the same epoch, under whatever ID.
    pub fn is_of_the_same_member(&self, other: &Self) -> bool {
        (&self.cluster_uid, self.epoch, &self.member) == (&other.cluster_uid, other.epoch, &other.member)
    }
}

/// Data of this or another member that a guard found on a volume which may not run by the record that it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FoundData {
    /// Of another member, cluster or epoch than the record's.
    Of(Marker),
    /// Of the right member, cluster and epoch, under an ID (hexadecimal) that is not on record.
    Id(String),
}

impl FoundData {
    /// Of that ID. None: it is none.
    pub fn of_id(id: &str) -> Option<Self> {
        let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit());
        is_id.then(|| Self::Id(id.to_owned()))
    }
}
