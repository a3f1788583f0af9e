//! What the operator and the guard in front of an etcd member agree on: what the guard is given, the marker that it leaves on the
//! volume, and how it ends when it holds its member.
//!
//! A pod keeps the agent that it was made with, and an operator can be rolled back. So whatever is here is written and read by older
//! and newer builds than this one: forms stay, and what is added is optional.
//!
//! A crate of its own, since the agent is copied into every pod: with the whole of `berth-api` it would be 0.6 MiB larger. All others
//! have it from `berth_api::etcd_bootstrap`.

use serde::{Deserialize, Serialize};

pub mod access;
pub mod apps;
pub mod aside;
pub mod backup;
pub mod calls;
mod earlier;
pub mod gateway;
mod hold;
pub mod jobs;
mod marker;
pub mod vpc;

pub use hold::{HELD, Hold, HoldReason, UnknownReason};
pub use marker::{FoundData, Marker};

/// Keys of the ConfigMap `<cluster>-bootstrap`.
pub mod keys {
    /// [`super::Bootstrap`] as JSON, for the guard.
    pub const BOOTSTRAP: &str = "bootstrap.json";
    /// `<member>=<peer URL>`, comma-separated. etcd reads this key and the next two from its environment.
    pub const INITIAL_CLUSTER: &str = "initial-cluster";
    /// `new` or `existing`.
    pub const INITIAL_CLUSTER_STATE: &str = "initial-cluster-state";
    /// `<identity>-<epoch>`.
    pub const INITIAL_CLUSTER_TOKEN: &str = "initial-cluster-token";
}

/// Name of the file with the [`Marker`], beside the data directory.
pub const MARKER_FILE: &str = "berth-member.json";

/// How far a cluster is in its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BootstrapState {
    /// Not all members were seen together yet: an empty volume starts, unless its member was seen in the cluster.
    #[default]
    Bootstrapping,
    /// All members were: an empty volume is lost data. There is no way back.
    Established,
}

/// What the operator tells the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bootstrap {
    /// UID of the `EtcdCluster` that the data was first made for.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// Grows each time that the data is started from nothing or from a backup.
    pub epoch: i64,
    /// Whether all members were ever seen together in this epoch.
    pub state: BootstrapState,
    /// Whether the epoch was begun from a backup: where a member joins, data of earlier epochs is set aside.
    #[serde(default, skip_serializing_if = "is_false")]
    pub restored: bool,
    /// Members that were seen as part of a quorum before all of them were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<String>,
    /// How often the members below were written: of two records of one epoch the one with the higher number counts. 0: never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub serial: i64,
    /// The members, from the first change of them on. Empty: they are those that the cluster was formed of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberRecord>,
    /// For how many seconds data that was set aside is kept, see [`aside`]. None: until a person deletes it. Only guards are told; it is no
    /// part of a record.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "keepOldData")]
    pub keep_old_data: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(is: &bool) -> bool {
    !is
}

impl Bootstrap {
    /// The marker that the volume of this member has.
    pub fn marker(&self, member: &str) -> Marker {
        Marker { cluster_uid: self.cluster_uid.clone(), epoch: self.epoch, member: member.to_owned(), id: None }
    }

    /// What is on record of this member.
    pub fn member(&self, name: &str) -> Option<&MemberRecord> {
        self.members.iter().find(|m| m.name == name)
    }

    /// etcd's `--initial-cluster` for a member that joins: all that etcd lists, with itself.
    pub fn initial_cluster(&self) -> String {
        let listed = self.members.iter().filter(|m| !m.id.is_empty());
        listed.map(|m| format!("{}={}", m.name, m.peer_url)).collect::<Vec<_>>().join(",")
    }
}

/// A member as it is to be, by the ID that etcd gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its name, which is its pod's.
    pub name: String,
    /// etcd's ID in hexadecimal. Empty: etcd has not given it one yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Where its peers reach it.
    #[serde(rename = "peerURL")]
    pub peer_url: String,
    /// How far it is.
    pub stage: MemberStage,
    /// It has that ID since it was added to the running cluster: what is on its volume without that ID is of an earlier one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub added: bool,
}

/// How far a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MemberStage {
    /// It is about to be added as a learner; etcd has given it no ID yet.
    Adding,
    /// etcd knows it as a learner: its volume may be empty, and data of another ID on it is set aside.
    Joining,
    /// It votes, or is about to: an empty volume is lost data.
    #[default]
    Voter,
    /// It is about to be removed.
    Leaving,
    /// Something that only a newer build knows.
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As builds before this module wrote them, with a field of a later build.
    #[test]
    fn files_of_other_builds_are_read() {
        let begun: Bootstrap =
            serde_json::from_str(r#"{"clusterUID": "u", "epoch": 1, "state": "Bootstrapping", "later": true}"#)
                .unwrap();
        assert_eq!(begun, Bootstrap { cluster_uid: "u".to_owned(), epoch: 1, ..Bootstrap::default() });
        let marker = r#"{"clusterUID":"u","epoch":1,"member":"etcd-0"}"#;
        assert_eq!(serde_json::from_str::<Marker>(marker).unwrap(), begun.marker("etcd-0"));
        assert_eq!(serde_json::to_string(&begun.marker("etcd-0")).unwrap(), marker);
    }

    /// The forms that this build writes and later ones must read.
    #[test]
    fn a_member_that_joins_is_written_so() {
        let told = r#"{"clusterUID":"u","epoch":1,"state":"Established","serial":3,"members":[{"name":"e-0","id":"8e9e","peerURL":"https://e-0.ns.svc:2380","stage":"Voter"},{"name":"e-1","id":"1f","peerURL":"https://10.96.0.7:2380","stage":"Joining","added":true},{"name":"e-2","peerURL":"https://10.96.0.8:2380","stage":"Adding"}]}"#;
        let read: Bootstrap = serde_json::from_str(told).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), told);
        assert_eq!(read.initial_cluster(), "e-0=https://e-0.ns.svc:2380,e-1=https://10.96.0.7:2380");
        let later = told.replace("Joining", "SomethingNew");
        let later: Bootstrap = serde_json::from_str(&later).unwrap();
        assert_eq!(later.member("e-1").unwrap().stage, MemberStage::Other);
        let earlier: Bootstrap = serde_json::from_str(&told.replace(r#","added":true"#, "")).unwrap();
        assert!(!earlier.member("e-1").unwrap().added);
    }

    #[test]
    fn a_marker_of_a_member_that_joined_is_read_by_earlier_agents() {
        #[derive(Deserialize)]
        struct Earlier {
            member: String,
        }
        let ours = Marker { id: Some("1f".to_owned()), ..Bootstrap::default().marker("e-1") };
        let text = serde_json::to_string(&ours).unwrap();
        assert_eq!(text, r#"{"clusterUID":"","epoch":0,"member":"e-1","id":"1f"}"#);
        assert_eq!(serde_json::from_str::<Earlier>(&text).unwrap().member, "e-1");
    }
}
