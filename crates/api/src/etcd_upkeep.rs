//! What Berth does to keep an etcd's databases small and the same, as its status shows it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The upkeep that is under way, or the last one. Losing it costs no more than that a step is done twice.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upkeep {
    /// Why.
    pub reason: UpkeepReason,
    /// When it began.
    pub since: Time,
    /// The member that is being defragmented.
    pub member: Option<String>,
    /// Members that were defragmented.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// NoSpace: the revision that etcd was compacted at.
    pub compacted_revision: Option<i64>,
    /// When etcd was compacted.
    pub compacted_at: Option<Time>,
    /// When etcd was told something last.
    pub at: Option<Time>,
    /// When it was done. None: it is under way.
    pub finished: Option<Time>,
    /// The value of the annotation `berth.dev/defrag` that was acted on last.
    pub request: Option<String>,
}

/// Why databases are looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpkeepReason {
    /// Most of a member's database is free.
    Fragmented,
    /// The alarm NOSPACE: the database has reached its quota.
    NoSpace,
    /// Somebody asked for it, by the annotation `berth.dev/defrag`.
    Requested,
    /// Something that only a newer build knows.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// The last comparison of the members' data, by the hash that each has of it at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HashCheck {
    /// When.
    pub checked_at: Time,
    /// At which revision.
    pub revision: i64,
    /// How often the members had been changed by then.
    #[serde(default)]
    pub serial: i64,
    /// Members whose data differ from those of the majority, or all where there is none. Empty: all have the same data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing: Vec<String>,
    /// The comparison before found the same members to differ. Berth replaces those that differ from a majority then.
    #[serde(default, rename = "confirmed", skip_serializing_if = "std::ops::Not::not")]
    pub is_confirmed: bool,
}
