//! etcd's JSON: numbers of 64 bits are strings, and what is zero is left out.

use crate::error::CallError;
use berth_api::conditions::shortened;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// A call of the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) path: &'static str,
    pub(crate) body: &'static str,
    pub(crate) doing: &'static str,
}

/// A member's own view.
pub(crate) const STATUS: Call =
    Call { path: "/v3/maintenance/status", body: "{}", doing: "asking for the member's status" };
/// Linearizable, so that it proves a quorum.
pub(crate) const MEMBERS: Call =
    Call { path: "/v3/cluster/member/list", body: r#"{"linearizable":true}"#, doing: "asking for the member list" };
/// All members' alarms.
pub(crate) const ALARMS: Call =
    Call { path: "/v3/maintenance/alarm", body: r#"{"action":"GET"}"#, doing: "asking for alarms" };

/// An ID, as etcd's own tools print it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Id(u64);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| D::Error::custom("an ID is not a number"))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Header {
    pub(crate) cluster_id: Id,
    pub(crate) member_id: Id,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) header: Header,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) leader: Id,
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
    #[serde(rename = "isLearner", default)]
    pub(crate) learner: bool,
}

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
pub(crate) fn read<T: DeserializeOwned>(call: Call, status: u16, body: &[u8]) -> Result<T, CallError> {
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
        let status: Status = read(STATUS, 200, body).unwrap();
        assert_eq!(status.header.cluster_id.to_string(), "ef37ad9dc622a7c4");
        assert_eq!(status.header.member_id.to_string(), "8211f1d0f64f3269");
        assert_eq!((status.leader.to_string().as_str(), status.version.as_str()), ("0", "3.6.16"));
    }

    #[test]
    fn refusals_and_nonsense_are_told_apart() {
        let refused = read::<Members>(MEMBERS, 503, br#"{"error":"x","code":14,"message":"etcdserver: no leader"}"#);
        assert_eq!(refused.unwrap_err().to_string(), "HTTP 503: etcdserver: no leader");
        let refused = read::<Members>(MEMBERS, 404, b"404 page not found\n");
        assert_eq!(refused.unwrap_err().to_string(), "HTTP 404: 404 page not found");
        let refused =
            read::<Status>(STATUS, 503, br#"{"message":"write tcp 1.2.3.4:34786->1.2.3.4:41745: write: broken pipe"}"#);
        assert_eq!(refused.unwrap_err().to_string(), "HTTP 503: write tcp write: broken pipe");
        let garbled = read::<Status>(STATUS, 200, b"<html>").unwrap_err();
        assert!(matches!(garbled, CallError::Garbled { call: "/v3/maintenance/status", .. }), "{garbled}");
    }
}
