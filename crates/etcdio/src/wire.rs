//! etcd's JSON: numbers of 64 bits are strings, and what is zero is left out.

use crate::error::CallError;
use berth_api::conditions::shortened;
use berth_plan::observed::Progress;
use berth_plan::{Maintenance, MemberChange};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use std::borrow::Cow;
use std::str::FromStr;

/// The key `berth.dev/upkeep`, in base64: it is written to see whether etcd takes writes. kube-apiserver's keys begin with `/registry`.
const PROBE: &str = "YmVydGguZGV2L3Vwa2VlcA==";

fn id(hex: &str) -> Result<u64, CallError> {
    u64::from_str_radix(hex, 16).map_err(|_| CallError::NoId(hex.to_owned()))
}

/// A call of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: &'static str,
    pub(crate) body: Cow<'static, str>,
    pub(crate) doing: &'static str,
}

impl Call {
    const fn new(path: &'static str, body: &'static str, doing: &'static str) -> Self {
        Self { path, body: Cow::Borrowed(body), doing }
    }

    /// What is done to databases. Err: an ID is none.
    pub(crate) fn for_upkeep(what: &Maintenance) -> Result<Self, CallError> {
        let (path, body, doing) = match what {
            Maintenance::Defragment => ("/v3/maintenance/defragment", json!({}), "defragmenting"),
            Maintenance::Compact { revision } => {
                let body = json!({"revision": revision.to_string(), "physical": true});
                ("/v3/kv/compaction", body, "compacting")
            }
            Maintenance::Disarm { alarm, id: hex } => {
                let body = json!({"action": "DEACTIVATE", "memberID": id(hex)?.to_string(), "alarm": alarm});
                ("/v3/maintenance/alarm", body, "disarming an alarm")
            }
            Maintenance::Put => ("/v3/kv/put", json!({"key": PROBE, "value": "dXBrZWVw"}), "writing a key"),
            Maintenance::CompareHashes { revision } => return Ok(Self::for_hash(*revision)),
        };
        Ok(Self { path, body: body.to_string().into(), doing })
    }

    /// The hash of a member's data at that revision.
    pub(crate) fn for_hash(revision: i64) -> Self {
        let body = json!({"revision": revision.to_string()}).to_string().into();
        Self { path: "/v3/maintenance/hashkv", body, doing: "hashing the member's data" }
    }

    /// A change of members. Err: an ID is none.
    pub(crate) fn of(change: &MemberChange) -> Result<Self, CallError> {
        let (path, body, doing) = match change {
            MemberChange::AddLearner { peer_url } => {
                let body = json!({"peerURLs": [peer_url], "isLearner": true});
                ("/v3/cluster/member/add", body, "adding a learner")
            }
            MemberChange::Promote { id: hex } => {
                ("/v3/cluster/member/promote", json!({"ID": id(hex)?.to_string()}), "promoting a member")
            }
            MemberChange::Remove { id: hex } => {
                ("/v3/cluster/member/remove", json!({"ID": id(hex)?.to_string()}), "removing a member")
            }
            MemberChange::MoveLeader { id: hex } => {
                let body = json!({"targetID": id(hex)?.to_string()});
                ("/v3/maintenance/transfer-leadership", body, "moving the leadership")
            }
        };
        Ok(Self { path, body: body.to_string().into(), doing })
    }
}

/// A member's own view.
pub(crate) const STATUS: Call = Call::new("/v3/maintenance/status", "{}", "asking for the member's status");
/// Linearizable, so that it proves a quorum.
pub(crate) const MEMBERS: Call =
    Call::new("/v3/cluster/member/list", r#"{"linearizable":true}"#, "asking for the member list");
/// All members' alarms.
pub(crate) const ALARMS: Call = Call::new("/v3/maintenance/alarm", r#"{"action":"GET"}"#, "asking for alarms");

/// A number that is written as a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number<T>(T);

/// An ID.
pub(crate) type Id = Number<u64>;

/// As etcd's own tools print it.
impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| D::Error::custom("not a number"))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    pub(crate) cluster_id: Id,
    pub(crate) member_id: Id,
    revision: Number<i64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) leader: Id,
    #[serde(rename = "isLearner", default)]
    pub(crate) learner: bool,
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    #[serde(rename = "raftIndex", default)]
    raft_index: Number<u64>,
    #[serde(rename = "raftAppliedIndex", default)]
    applied_index: Number<u64>,
    #[serde(rename = "dbSize", default)]
    db_size: Number<i64>,
    #[serde(rename = "dbSizeInUse", default)]
    db_size_in_use: Number<i64>,
    #[serde(rename = "dbSizeQuota", default)]
    quota: Number<i64>,
    #[serde(rename = "storageVersion", default)]
    pub(crate) storage_version: String,
}

/// The hash of a member's data.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Hash {
    hash: u32,
    /// `-1`: never compacted.
    compact_revision: Number<i64>,
}

impl Hash {
    /// Hash, and the revision that it was compacted at.
    pub(crate) fn compared(&self) -> (u32, i64) {
        (self.hash, self.compact_revision.0)
    }
}

impl Status {
    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            raft_index: self.raft_index.0,
            applied_index: self.applied_index.0,
            db_size: self.db_size.0,
            db_size_in_use: self.db_size_in_use.0,
            quota: self.quota.0,
            revision: self.header.revision.0,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Members {
    #[serde(default)]
    pub(crate) members: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    #[serde(rename = "ID", default)]
    pub(crate) id: Id,
    /// Empty until the member has started once.
    #[serde(default)]
    pub(crate) name: String,
    #[serde(rename = "peerURLs", default)]
    pub(crate) peer_urls: Vec<String>,
    #[serde(rename = "isLearner", default)]
    pub(crate) learner: bool,
}

/// An answer of which nothing is read: the members are asked anew.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

#[derive(Debug, Deserialize)]
pub(crate) struct Alarms {
    #[serde(default)]
    pub(crate) alarms: Vec<Alarm>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Alarm {
    #[serde(rename = "memberID", default)]
    pub(crate) member: Id,
    #[serde(default)]
    pub(crate) alarm: String,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

/// Reads an answer.
pub(crate) fn read<T: DeserializeOwned>(call: &Call, status: u16, body: &[u8]) -> Result<T, CallError> {
    if status != 200 {
        let message = serde_json::from_slice::<Refusal>(body).map(|r| r.message).unwrap_or_default();
        let message = if message.is_empty() { String::from_utf8_lossy(body).trim().to_owned() } else { message };
        // Addresses with ports of the moment would make every message a new one.
        let words: Vec<_> = message.split_whitespace().filter(|w| !w.contains("->")).collect();
        return Err(CallError::Http { status, message: shortened(&words.join(" "), 200) });
    }
    serde_json::from_slice(body).map_err(|e| CallError::Garbled { call: call.path, problem: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_and_zero_is_left_out() {
        let body = br#"{"header":{"cluster_id":"17237436991929493444","member_id":"9372538179322589801","raft_term":"2"},"version":"3.6.16","dbSize":"20480"}"#;
        let status: Status = read(&STATUS, 200, body).unwrap();
        assert_eq!(status.header.cluster_id.to_string(), "ef37ad9dc622a7c4");
        assert_eq!(status.header.member_id.to_string(), "8211f1d0f64f3269");
        assert_eq!((status.leader.to_string().as_str(), status.version.as_str()), ("0", "3.6.16"));
        assert_eq!(status.progress(), Progress { db_size: 20480, ..Progress::default() });
    }

    #[test]
    fn hashes_of_what_was_never_compacted() {
        let read = |body: &[u8]| read::<Hash>(&Call::for_hash(7), 200, body).unwrap().compared();
        assert_eq!(
            read(br#"{"header":{"revision":"7"},"hash":1084519789,"compact_revision":"-1"}"#),
            (1_084_519_789, -1)
        );
        assert_eq!(read(br#"{"hash":3,"compact_revision":"5","hash_revision":"7"}"#), (3, 5));
        assert_eq!(Call::for_hash(7).body, r#"{"revision":"7"}"#);
    }

    #[test]
    fn etcd_is_told_ids_in_decimal() {
        let body = |change: MemberChange| Call::of(&change).map(|call| call.body.into_owned());
        let id = || "8211f1d0f64f3269".to_owned();
        assert_eq!(body(MemberChange::Remove { id: id() }).unwrap(), r#"{"ID":"9372538179322589801"}"#);
        assert_eq!(body(MemberChange::MoveLeader { id: id() }).unwrap(), r#"{"targetID":"9372538179322589801"}"#);
        assert!(body(MemberChange::Promote { id: "etcd-0".into() }).is_err());
    }

    #[test]
    fn refusals_and_nonsense_are_told_apart() {
        let refused = read::<Members>(&MEMBERS, 503, br#"{"error":"x","code":14,"message":"etcdserver: no leader"}"#);
        assert_eq!(refused.unwrap_err().to_string(), "HTTP 503: etcdserver: no leader");
        let refused = read::<Members>(&MEMBERS, 404, b"404 page not found\n");
        assert_eq!(refused.unwrap_err().to_string(), "HTTP 404: 404 page not found");
        let refused = read::<Status>(
            &STATUS,
            503,
            br#"{"message":"write tcp 1.2.3.4:34786->1.2.3.4:41745: write: broken pipe"}"#,
        );
        assert_eq!(refused.unwrap_err().to_string(), "HTTP 503: write tcp write: broken pipe");
        let garbled = read::<Status>(&STATUS, 200, b"<html>").unwrap_err();
        assert!(matches!(garbled, CallError::Garbled { call: "/v3/maintenance/status", .. }), "{garbled}");
    }
}
