//! Flags of `spec.apiServer.audit.webhook`.

use super::{API_SERVER, Flag, Source};
use berth_api::ClusterSpec;
use berth_api::cluster::AuditWebhook;

const fn of(names: &'static [&'static str], values: fn(&ClusterSpec) -> Vec<String>) -> Flag {
    Flag { components: API_SERVER, names, source: Source::Field(values), instead: "spec.apiServer.audit.webhook" }
}

fn value(spec: &ClusterSpec, of: impl Fn(&AuditWebhook) -> Option<String>) -> Vec<String> {
    spec.api_server.audit.webhook.as_ref().and_then(of).into_iter().collect()
}

fn number(of: Option<i32>) -> Option<String> {
    of.map(|number| number.to_string())
}

/// No request waits for the webhook, and none fails for it: the other modes of upstream do one or the other.
pub(super) const MODE: Flag = of(&["audit-webhook-mode"], |spec| value(spec, |_| Some("batch".to_owned())));

/// Otherwise a buffer of events with what requests held could be larger than the API server's memory.
pub(super) const TRUNCATE: Flag =
    of(&["audit-webhook-truncate-enabled"], |spec| value(spec, |_| Some("true".to_owned())));

pub(super) const INITIAL_BACKOFF: Flag =
    of(&["audit-webhook-initial-backoff"], |spec| value(spec, |webhook| webhook.initial_backoff.clone()));

pub(super) const BUFFER_SIZE: Flag =
    of(&["audit-webhook-batch-buffer-size"], |spec| value(spec, |webhook| number(webhook.batch.buffer_size)));

pub(super) const MAX_SIZE: Flag =
    of(&["audit-webhook-batch-max-size"], |spec| value(spec, |webhook| number(webhook.batch.max_size)));

pub(super) const MAX_WAIT: Flag =
    of(&["audit-webhook-batch-max-wait"], |spec| value(spec, |webhook| webhook.batch.max_wait.clone()));

pub(super) const THROTTLE_QPS: Flag =
    of(&["audit-webhook-batch-throttle-qps"], |spec| value(spec, |webhook| number(webhook.batch.throttle_qps)));

pub(super) const THROTTLE_BURST: Flag =
    of(&["audit-webhook-batch-throttle-burst"], |spec| value(spec, |webhook| number(webhook.batch.throttle_burst)));
