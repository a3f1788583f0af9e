//! Which field of an `EtcdCluster` feeds which values of templates, and the message for fields that the pinned templates do not read.

use super::subject::Subject;
use berth_plan::unread::{self, Row, row};
use berth_render::Binary;
use std::sync::LazyLock;

/// Every field of the spec.
pub static FIELDS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let cluster = Binary::Etcd.folder();
    vec![
        row("version", &[(cluster, "workload.image")]),
        row("replicas", &[(cluster, "derived.replicas"), ("services", "members")]),
        row("storage.className", &[(cluster, "storage.class_name")]),
        row("storage.size", &[(cluster, "storage.size")]),
        row("quotaBackendBytes", &[(cluster, "quota_bytes")]),
        row("heartbeatInterval", &[(cluster, "heartbeat_ms")]),
        row("electionTimeout", &[(cluster, "election_ms")]),
        row("snapshotCount", &[(cluster, "snapshot_count")]),
        row("images.registry", &[(cluster, "workload.image"), (cluster, "workload.agent_image")]),
        row("images.overrides", &[(cluster, "workload.image")]),
        row("keepOldData", &[(cluster, "keep_old_data")]),
        // Added to rendered pods.
        row("resources", &[]),
        row("placement", &[]),
        row("helpers", &[]),
        row("images.pullSecrets", &[]),
        // Of a Cluster's add-ons.
        row("images.layout", &[]),
        // What the planner does, or leaves.
        row("clients", &[]),
        row("dataPolicy", &[]),
        row("paused", &[]),
        row("clientsStopped", &[]),
        row("recovery", &[]),
        row("hibernation", &[]),
        row("autoscaling", &[]),
        row("shrinkWindow", &[]),
    ]
});

/// The fields that have no effect, and the way out.
pub(super) fn message(s: &Subject<'_>) -> Option<String> {
    let fields = unread::fields(&FIELDS, &s.etcd.spec, s.templates()?);
    let way_out = "Set spec.version to a newer patch version, which brings newer templates, or remove the field";
    (!fields.is_empty()).then(|| unread::message(&fields, way_out))
}
