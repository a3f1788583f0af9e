//! What is known of the members' volumes, by their claims and by what a member's guard found.

use crate::subject::Subject;
use berth_api::labels;
use berth_plan::observed::label;
use berth_plan::workload::has_lost_its_data;
use berth_render::Kind;
use serde_json::Value;

/// A member's claim, with its name.
pub(crate) fn claim<'a>(s: &Subject<'a>, member: &str) -> Option<(String, &'a Value)> {
    let key = s.key(Kind::PersistentVolumeClaim, format!("data-{member}"));
    Some((key.name.clone(), s.observed.get(&key)?))
}

/// A claim whose volume is gone.
pub(crate) fn is_lost(claim: &Value) -> bool {
    claim["status"]["phase"] == "Lost"
}

/// Whether a member's data is lost, as far as that is proven: its guard found the volume empty, or the claim has lost its volume.
pub(crate) fn has_lost(s: &Subject<'_>, name: &str) -> bool {
    let answers = s.observed.etcd.as_ref().is_some_and(|p| matches!(p.members.get(name), Some(Ok(_))));
    let is_gone =
        claim(s, name).is_some_and(|(_, claim)| is_lost(claim) && label(claim, labels::ETCD_CLUSTER) == Some(s.name));
    !answers && (is_gone || s.pod(name).is_some_and(has_lost_its_data))
}
