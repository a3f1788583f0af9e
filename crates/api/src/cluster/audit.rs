//! Auditing by the API server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// Type of the Secret of an audit webhook. Who gives it to a Secret lets Berth read it.
pub const AUDIT_SECRET: &str = "berth.dev/audit-webhook";

/// Key of that Secret, and of its copy.
pub const AUDIT_KUBECONFIG: &str = "kubeconfig";

/// Auditing by the API server. The audit log is in the output of its container, whatever is set here.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// What is logged, and sent to `webhook`, in upstream's shape (`Policy` of `audit.k8s.io/v1`; `apiVersion` and `kind` may be left out):
    /// at most 64 KiB as JSON, with at least one rule. The first rule that fits a request decides. What kube-apiserver would refuse, and what
    /// it would pass over, such as a field that it does not know, is refused before anything runs, with its place. A rule of level Request or
    /// RequestResponse puts what requests hold into the log, such as the content of Secrets. Default: Berth's own, which logs who did
    /// what at level Metadata, but for what the control plane and nodes read and renew every few seconds. A change rolls the API servers, as
    /// every release.
    #[serde(default)]
    #[schemars(schema_with = "policy_schema")]
    pub policy: Option<serde_json::Value>,
    /// A server that events are sent to, beside the log. Default: none.
    pub webhook: Option<AuditWebhook>,
}

/// Not typed: a schema with fields prunes all others without a word.
fn policy_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// A server that takes events. They are sent in batches, beside requests (`--audit-webhook-mode=batch`): one that hangs or is gone loses
/// events, and holds up no request. An event of more than 100 KiB is sent without what the request and its answer held.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditWebhook {
    /// Where it is, and what kube-apiserver shows it: a Secret in the namespace of the `Cluster`, of type `berth.dev/audit-webhook`, with a
    /// kubeconfig of at most 64 KiB in key `kubeconfig`. API servers get a copy. A change of the Secret is a release, which is seen within
    /// minutes.
    pub secret_ref: AuditSecret,
    /// How long kube-apiserver waits before it sends a batch once more that was refused, half as long again each time: `1s` to
    /// `30s`. It tries five times, and holds the batch in memory meanwhile. Default `10s`.
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) >= duration('1s') && duration(self) <= duration('30s')",
            "message": "must be a duration from 1s to 30s, such as 10s",
        }]))
    )]
    pub initial_backoff: Option<String>,
    /// How events are gathered, and how fast they are sent.
    #[serde(default, skip_serializing_if = "AuditBatch::is_default")]
    pub batch: AuditBatch,
}

/// A Secret of type `berth.dev/audit-webhook`, in the namespace of the `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditSecret {
    /// Name of the Secret, at most 63 characters.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// How events are gathered, and how fast they are sent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditBatch {
    /// Events that wait at most; those beyond are lost. They are in the memory of the API server, as are batches that are
    /// tried again. Default 10000.
    #[schemars(range(min = 1, max = 50_000))]
    pub buffer_size: Option<i32>,
    /// Events in a batch at most. Default 400.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_size: Option<i32>,
    /// How long a batch is waited for that is not full: `1s` to `5m`. Default `30s`.
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) >= duration('1s') && duration(self) <= duration('5m')",
            "message": "must be a duration from 1s to 5m, such as 30s",
        }]))
    )]
    pub max_wait: Option<String>,
    /// Batches a second, on average. Default 10.
    #[serde(rename = "throttleQPS")]
    #[schemars(range(min = 1, max = 1000))]
    pub throttle_qps: Option<i32>,
    /// Batches at once, after a time with fewer. Default 15.
    #[schemars(range(min = 1, max = 1000))]
    pub throttle_burst: Option<i32>,
}

impl Audit {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl AuditBatch {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
