//! What is known of the members' volumes, by their claims and by what a member's guard found.

use crate::subject::Subject;
use berth_api::labels;
use berth_plan::object_meta::label;
use berth_plan::workload::has_lost_its_data;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// The claim that a member's pod mounts, whoever made it: people make one before a restore, and it has no label.
pub(crate) fn mounted<'a>(s: &Subject<'a>, member: &str) -> Option<(ObjectKey, &'a Value)> {
    let key = s.key(Kind::PersistentVolumeClaim, format!("data-{member}"));
    Some((key.clone(), s.observed.get(&key)?))
}

/// A member's claim that Berth may change and delete.
pub(crate) fn claim<'a>(s: &Subject<'a>, member: &str) -> Option<(ObjectKey, &'a Value)> {
    mounted(s, member).filter(|(_, claim)| label(claim, labels::ETCD_CLUSTER) == Some(s.name))
}

/// A claim whose volume is gone.
pub(crate) fn is_lost(claim: &Value) -> bool {
    claim["status"]["phase"] == "Lost"
}

/// Whether a member's data is lost, as far as that is proven: its guard found the volume empty, or the claim has lost its volume.
pub(crate) fn has_lost(s: &Subject<'_>, name: &str) -> bool {
    let is_gone = claim(s, name).is_some_and(|(_, claim)| is_lost(claim));
    s.said(name).is_none() && (is_gone || s.pod(name).is_some_and(has_lost_its_data))
}
