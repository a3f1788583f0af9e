//! What the operator and the guard in front of an etcd member agree on: what the guard is given, the marker that it leaves on the
//! volume, and how it ends when it holds its member.
//!
//! A pod keeps the agent that it was made with, and an operator can be rolled back. So whatever is here is written and read by older
//! and newer builds than this one: forms stay, and what is added is optional.
//!
//! A crate of its own, since the agent is copied into every pod: with the whole of `berth-api` it would be 0.6 MiB larger. All others
//! have it from `berth_api::etcd_bootstrap`.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

pub mod aside;
pub mod backup;
pub mod vpc;

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Exit code of a guard that holds its member. It is the same for every reason: operators of earlier builds know only this one, and
/// take any other for a container that fails.
pub const HELD: u8 = 42;

/// Why a guard holds its member. Conditions have a reason of the same name for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The volume should hold the member's data and does not.
    DataLost,
    /// The volume holds something that is not this member's.
    ForeignData,
}

impl HoldReason {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::DataLost, Self::ForeignData];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DataLost => "DataLost",
            Self::ForeignData => "ForeignData",
        }
    }
}

/// Termination message of a guard that holds its member: `<reason>: <why>`. Programs read the reason, people the rest. The reason is
/// a word before a colon, and not JSON or an exit code of its own, since that is what operators of earlier builds read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// For programs.
    pub reason: HoldReason,
    /// For people.
    pub why: String,
}

impl Hold {
    /// What the guard said whose container ended so. None: it did not hold its member.
    pub fn of(exit_code: i64, message: &str) -> Option<Self> {
        let message = message.trim();
        // A reason that only a newer agent knows, or a message that got lost, holds the member all the same.
        let unknown = || Self { reason: HoldReason::DataLost, why: message.to_owned() };
        (exit_code == i64::from(HELD)).then(|| message.parse().unwrap_or_else(|_| unknown()))
    }
}

/// Data of this or another member that a guard found on a volume which may not run by the record that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundData {
    /// Of another member, cluster or epoch than the record's.
    Of(Marker),
    /// Of the right member, cluster and epoch, under an ID (hexadecimal) that is not on record.
    Id(String),
}

impl Hold {
    /// What it found, if it said so: the words between "holds the data of" and what follows are as all builds write them. A name that is
    /// longer than 63 characters was cut, and is none of ours.
    pub fn found(&self) -> Option<FoundData> {
        let (_, found) = self.why.split_once(" holds the data of ")?;
        if let Some(id) = found.strip_prefix("the ID ") {
            let (id, _) = id.split_once(", which ")?;
            let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit());
            return is_id.then(|| FoundData::Id(id.to_owned()));
        }
        let (member, rest) = found.strip_prefix("member ")?.split_once(" of cluster ")?;
        let (cluster, rest) = rest.split_once(" in epoch ")?;
        let epoch = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        Some(FoundData::Of(Marker { cluster_uid: cluster.to_owned(), epoch, member: member.to_owned(), id: None }))
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.why)
    }
}

impl FromStr for Hold {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, why) = text.split_once(':').ok_or(UnknownReason)?;
        let reason = HoldReason::ALL.into_iter().find(|r| r.as_str() == word).ok_or(UnknownReason)?;
        Ok(Self { reason, why: why.strip_prefix(' ').unwrap_or(why).to_owned() })
    }
}

/// The text does not begin with a [`HoldReason`] that this build knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReason;

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no reason that this build knows")
    }
}

impl std::error::Error for UnknownReason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_comes_back_as_it_was_written() {
        for reason in HoldReason::ALL {
            for why in ["", "the volume is empty", "a: colon: and\na line"] {
                let hold = Hold { reason, why: why.to_owned() };
                assert_eq!(hold.to_string().parse(), Ok(hold.clone()));
            }
        }
    }

    /// Word for word from agents of the builds before this module: their pods run on under newer operators.
    #[test]
    fn what_earlier_agents_write_is_understood() {
        let earlier = [
            (
                "DataLost: the volume of etcd member etcd-0 is empty, but its cluster has had a quorum in epoch 1; etcd is not started, since the member would have forgotten what it acknowledged",
                HoldReason::DataLost,
            ),
            (
                "ForeignData: the volume of etcd member etcd-0 (epoch 1) holds a marker that cannot be read; etcd is not started and nothing is touched",
                HoldReason::ForeignData,
            ),
            (
                "ForeignData: the volume of etcd member etcd-0 (epoch 2) holds the data of member etcd-1 of cluster 6f1c-9 in epoch 1; etcd is not started and nothing is touched",
                HoldReason::ForeignData,
            ),
            (
                "ForeignData: the volume of etcd member etcd-0 (epoch 1) holds data that no marker vouches for; etcd is not started and nothing is touched",
                HoldReason::ForeignData,
            ),
        ];
        for (message, reason) in earlier {
            let hold = Hold::of(42, &format!("{message}\n")).unwrap();
            assert_eq!((hold.reason, hold.to_string().as_str()), (reason, message));
            assert_eq!(Hold::of(1, message), None, "only the exit code says that it is held");
        }
    }

    /// The operator takes up data that is newer than its record by these words, also those of earlier agents.
    #[test]
    fn what_a_guard_found_is_read_from_its_words() {
        let found = |why: &str| Hold { reason: HoldReason::ForeignData, why: why.to_owned() }.found();
        let of = |cluster: &str, epoch, member: &str| {
            Some(FoundData::Of(Marker { cluster_uid: cluster.into(), epoch, member: member.into(), id: None }))
        };
        let volume = "the volume of etcd member etcd-0 (epoch 1) holds";
        let rest = "etcd is not started and nothing is touched";
        let said = format!("{volume} the data of member etcd-1 of cluster 6f1c-9 in epoch 12; {rest}");
        assert_eq!(found(&said), of("6f1c-9", 12, "etcd-1"));
        let said = format!("{volume} the data of the ID 8e9e05c52164694d, which is not this member's any more; {rest}");
        assert_eq!(found(&said), Some(FoundData::Id("8e9e05c52164694d".into())));
        for other in [
            "the data of the ID that it was formed with, which is not this member's any more",
            "the data of member etcd-1 of cluster 6f1c-9 in epoch -1",
            "a marker that cannot be read",
            "data without Berth's marker, so it is unknown whose it is",
        ] {
            assert_eq!(found(&format!("{volume} {other}; {rest}")), None, "{other}");
        }
    }

    /// What the operator of the builds before this module looks at, in its own words.
    #[test]
    fn earlier_operators_understand_what_this_build_writes() {
        assert_eq!(HELD, 42);
        let said = |reason| Hold { reason, why: "because".to_owned() }.to_string();
        assert!(said(HoldReason::ForeignData).starts_with("ForeignData"));
        assert!(!said(HoldReason::DataLost).starts_with("ForeignData"));
    }

    #[test]
    fn what_is_not_understood_is_held_all_the_same() {
        for message in ["", "SomethingNew: the volume is odd", "etcd: ForeignData: no"] {
            assert_eq!(Hold::of(42, message), Some(Hold { reason: HoldReason::DataLost, why: message.to_owned() }));
        }
    }

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
