//! A tenant that sleeps once nobody uses it, and wakes when somebody calls.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The cause of a wake by a connection, in records and statuses.
pub const CONNECTION: &str = "a connection";

/// The cause of a sleep of one that a connection woke, and nobody used.
pub const UNUSED: &str = "spec.hibernation.wake.stayFor";

/// What connections do to a tenant that sleeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.from) || self.from.all(c, isCIDR(c))", "message": "hibernation.wake.from: each must be a network in CIDR form, such as 203.0.113.0/24"}
])))]
pub struct Wake {
    /// True: a connection that comes to it through Berth's gateway wakes it, whatever put it to sleep but `hibernation.enabled`. The gateway
    /// holds the connection for up to 9 seconds, and closes it if the tenant is not awake by then; clients' reads try again. Anybody who knows the
    /// tenant's name and may connect can wake it: nobody is asked who they are before its API server runs. Default false.
    #[serde(default)]
    pub on_connect: bool,
    /// Networks, in CIDR notation, from which a connection wakes it; from elsewhere one fails while it sleeps. Default: from wherever clients may
    /// come (`endpoint.gateway.sourceRanges`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 43)), extend("x-kubernetes-list-type" = "set"))]
    pub from: Option<Vec<String>>,
    /// How long it stays awake after a connection woke it and nobody uses it: `1m` to `24h`. Then it sleeps again, and for a time that doubles
    /// with each such wake, from 5 minutes to an hour, no connection wakes it. Default `10m`.
    #[serde(default = "ten_minutes")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) >= duration('1m') && duration(self) <= duration('24h')",
            "message": "hibernation.wake.stayFor: must be a duration from 1m to 24h, such as 10m",
        }]))
    )]
    pub stay_for: String,
}

fn ten_minutes() -> String {
    "10m".to_owned()
}

impl Default for Wake {
    fn default() -> Self {
        Self { on_connect: false, from: None, stay_for: ten_minutes() }
    }
}

impl Wake {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is recorded of how a tenant slept by itself and was woken by connections: who uses it is in memory alone, and what it led to must outlast the
/// operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByItself {
    /// What led to the state that is recorded. None: something that is written elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Event>,
    /// When connections woke it within the last hour, from the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub woken: Vec<Time>,
    /// How often in a row a connection woke it and nobody used it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unused: u32,
    /// Until then no connection wakes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Time>,
}

/// Something that happened to a tenant by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What.
    pub what: Happened,
    /// When.
    pub at: Time,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    /// Nobody had used it for `hibernation.afterIdle`.
    Idle,
    /// A connection came.
    Connection,
    /// A connection had woken it, and nobody used it for `hibernation.wake.stayFor`.
    Unused,
    /// Something that only a newer build knows.
    #[serde(other)]
    Other,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ByItself {
    /// True if nothing is recorded.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_as_it_is_written() {
        let text = r#"{"by":{"what":"Connection","at":"2026-11-29T20:00:00Z"},"woken":["2026-11-29T20:00:00Z"],"unused":2,"quiet":"2026-11-29T21:00:00Z"}"#;
        let read: ByItself = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(serde_json::from_str::<ByItself>("{}").unwrap().is_default());
        let later: ByItself = serde_json::from_str(&text.replace("Connection", "Dream")).unwrap();
        assert_eq!(later.by.unwrap().what, Happened::Other);
    }
}
