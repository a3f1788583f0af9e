//! A tenant, or an etcd, that has no pods while nobody uses it.

mod wake;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

pub use wake::{ByItself, CONNECTION, Event, Happened, UNUSED, Wake};

/// What a person asks an etcd for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdHibernation {
    /// True: all members stop, and keep their volumes. They start again when it is false. Stop what uses this etcd before: a `Cluster` does
    /// so for its own. It waits while a change of members or of the version, a restore or an upkeep runs. Default false.
    #[serde(default)]
    pub enabled: bool,
}

impl EtcdHibernation {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When a tenant has no pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hibernation {
    /// True: the tenant sleeps, whatever else is asked for. All pods of its control plane end; its data, address, certificates and
    /// kubeconfigs stay. A change of the spec takes effect once it is awake. Default false: `kubectl berth sleep` and `kubectl berth wake`
    /// say it.
    #[serde(default)]
    pub enabled: bool,
    /// When it sleeps and wakes by itself. Of all times that have passed since the `Cluster` was created the latest counts, also one that
    /// passed before it was written here, unless `kubectl berth sleep` or `wake` came later. Default: never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = json!([{
        "rule": "self.all(a, !has(a.sleep) || !self.exists(b, has(b.wake) && b.wake == a.sleep && b.timeZone == a.timeZone))",
        "message": "hibernation.schedules: sleep and wake are the same time: change one of them",
    }])))]
    pub schedules: Vec<SleepSchedule>,
    /// True: before it sleeps, once nothing writes any more, a backup of its last revision is taken and proven; without that it does not
    /// sleep. It is kept where the backups of the tenant's `EtcdBackupSchedule` are (the first one by name), or else in the store of the chart's
    /// value `backups.default`, or the first of `backups.stores`. The one before it is deleted once it is proven. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backup_first: bool,
    /// The tenant sleeps once no client was connected for so long: `5m` to `8760h`. Only Berth's gateway knows who is: with another
    /// `endpoint.type` than Gateway, or with nodes, it stays awake, and `Ready` says so. Default: it never sleeps by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) >= duration('5m') && duration(self) <= duration('8760h')",
            "message": "hibernation.afterIdle: must be a duration from 5m to 8760h, such as 1h",
        }]))
    )]
    pub after_idle: Option<String>,
    /// What wakes it beside `kubectl berth wake`.
    #[serde(default, skip_serializing_if = "Wake::is_default")]
    pub wake: Wake,
}

/// Times at which a tenant sleeps, or wakes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "has(self.sleep) || has(self.wake)", "message": "hibernation.schedules: set sleep, wake, or both"}
])))]
pub struct SleepSchedule {
    /// When it sleeps, in cron's five fields (minute, hour, day of the month, month, day of the week), such as `0 20 * * 1-5`. Tenants with
    /// the same time are spread over the two minutes after it. Default: another schedule, or a person, says so.
    #[schemars(length(min = 9, max = 100), extend("x-kubernetes-validations" = [five_fields()]))]
    pub sleep: Option<String>,
    /// When it wakes, likewise, such as `0 7 * * 1-5`. Its API answers some seconds later. Default: another schedule, or a person, says so.
    #[schemars(length(min = 9, max = 100), extend("x-kubernetes-validations" = [five_fields()]))]
    pub wake: Option<String>,
    /// Time zone of both, such as `Europe/Berlin`. A time that clocks skip comes when they go on; one that they show twice, the first time.
    /// Default UTC.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 60))]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".into()
}

fn five_fields() -> Value {
    let rule = r"self.matches('^[^ ]+( +[^ ]+){4}$')";
    json!({"rule": rule, "message": "must be a cron schedule with five fields, such as 0 20 * * 1-5"})
}

impl Hibernation {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a tenant is between awake and asleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum SleepState {
    /// It serves, or is to.
    #[default]
    Awake,
    /// Its pods end.
    FallingAsleep,
    /// It has no pods.
    Asleep,
    /// Its pods start, as they were when it fell asleep.
    Waking,
}

/// What is recorded of a tenant's sleep: the annotation `berth.dev/sleep` of its control-plane namespace. It decides what runs, whatever
/// becomes of the `Cluster` and its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleepRecord {
    /// Where it is.
    pub state: SleepState,
    /// Since when.
    pub since: Time,
    /// What asked for it.
    pub cause: String,
    /// When it last fell awake again, since it had not come to sleep in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,
    /// The `EtcdBackup` that was taken before etcd stopped, or that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// What holds up its wake, as far as it was seen before it slept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hindrance: Option<String>,
    /// How it slept by itself, and was woken by connections.
    #[serde(default, rename = "byItself", skip_serializing_if = "ByItself::is_default")]
    pub by_itself: ByItself,
}

impl SleepRecord {
    /// From the annotation. What cannot be read counts as awake: nothing of a tenant is stopped for it.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// For the annotation.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a person asks for once, by the annotation `berth.dev/hibernate` of a `Cluster`: `sleep@<time>` or `wake@<time>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepRequest {
    /// Sleep; else wake.
    pub sleep: bool,
    /// When.
    pub at: Timestamp,
}

impl SleepRequest {
    /// From the annotation. None: it says neither.
    pub fn parse(text: &str) -> Option<Self> {
        let (verb, at) = text.split_once('@')?;
        let sleep = match verb {
            "sleep" => true,
            "wake" => false,
            _ => return None,
        };
        Some(Self { sleep, at: at.parse().ok()? })
    }
}

impl std::fmt::Display for SleepRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.sleep { "sleep" } else { "wake" };
        write!(f, "{verb}@{}", self.at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

/// A tenant's sleep, as its status shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HibernationStatus {
    /// Awake, FallingAsleep, Asleep or Waking.
    pub state: SleepState,
    /// Since when.
    pub since: Time,
    /// What asked for it.
    pub cause: String,
    /// When time alone changes what is asked for next. Absent without `spec.hibernation.schedules`, and where something holds above those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextSleep>,
}

/// The next time at which a schedule puts a tenant to sleep, or wakes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextSleep {
    /// Asleep or Awake: what is asked for then.
    pub state: SleepState,
    /// When.
    pub at: Time,
    /// What asks for it, such as `schedules[0].sleep (0 20 * * 1-5 Europe/Berlin)`.
    pub cause: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_is_written() {
        for text in ["sleep@2026-11-29T20:00:00Z", "wake@2026-11-30T07:00:00Z"] {
            assert_eq!(SleepRequest::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "sleep", "sleep@", "nap@2026-11-29T20:00:00Z", "sleep@tomorrow"] {
            assert_eq!(SleepRequest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let text = r#"{"state":"Asleep","since":"2026-11-29T20:00:00Z","cause":"spec.hibernation.enabled"}"#;
        assert_eq!(SleepRecord::parse(text).unwrap().to_json(), text);
        assert_eq!(SleepRecord::parse("Asleep"), None);
    }
}
