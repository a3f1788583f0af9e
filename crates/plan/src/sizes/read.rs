//! What is read of a pod. All else of it is passed over while parsing: the pods of a whole fleet are read each minute.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// A pod, as an API server writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReadPod {
    pub(super) metadata: ReadMeta,
    pub(super) spec: ReadSpec,
    pub(super) status: ReadStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadMeta {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadSpec {
    pub(super) containers: Vec<ReadContainer>,
    pub(super) init_containers: Vec<ReadContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadContainer {
    pub(super) name: String,
    pub(super) resources: Value,
    pub(super) resize_policy: Vec<ReadPolicy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadPolicy {
    pub(super) restart_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadStatus {
    pub(super) phase: String,
    pub(super) qos_class: String,
    pub(super) start_time: Option<String>,
    pub(super) conditions: Vec<ReadCondition>,
    pub(super) container_statuses: Vec<ReadContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadCondition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadContainerStatus {
    pub(super) name: String,
    pub(super) state: ReadState,
    pub(super) resources: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadState {
    pub(super) running: Option<IgnoredAny>,
}
