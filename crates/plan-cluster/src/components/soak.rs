//! How a Deployment lets its first new pod serve alone, for `spec.upgrade.soak`.

use crate::subject::Tenant;
use berth_api::labels;
use berth_plan::objects::diff::contains;
use berth_plan::observed::annotation;
use berth_plan::workload;
use berth_render::{Binary, Kind, Object};
use jiff::SignedDuration;
use serde_json::Value;

/// As long as the controller says nothing of a rollout that makes no progress, beside the soak: it has to be longer.
const PROGRESS: SignedDuration = SignedDuration::from_mins(10);

/// The Deployment with `minReadySeconds`, while the first new pod of a release is to come or serves alone. Nothing of that is in the pod
/// template, so it restarts nobody.
pub(super) fn with_canary(t: &Tenant<'_>, binary: Binary, object: Object) -> Object {
    let canary = t.release.canary.filter(|canary| binary == Binary::ApiServer && !canary.is_proven(t));
    let live = t.observed.get(object.key()).filter(|_| object.key().kind == Kind::Deployment);
    let (Some(canary), Some(live)) = (canary, live) else { return object };
    let held = held(&object, canary.soak);
    let is_held = live.pointer("/spec/minReadySeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds > 0);
    let rolls = !has_template(live, [&object, &held]) || (is_held && !workload::rollout(live).settled);
    if rolls { held } else { object }
}

fn held(object: &Object, soak: SignedDuration) -> Object {
    let mut spec = object.value()["spec"].clone();
    spec["minReadySeconds"] = soak.as_secs().into();
    spec["progressDeadlineSeconds"] = (soak + PROGRESS).as_secs().into();
    object.clone().with("/spec", spec)
}

/// Whether it has that pod template, however many pods of it. The digest tells what was taken out of the template, too.
fn has_template(live: &Value, wanted: [&Object; 2]) -> bool {
    let applied = annotation(live, labels::APPLIED_DIGEST);
    let replicas = &live["spec"]["replicas"];
    let same = |object: &Object| applied == Some(&*object.clone().with("/spec/replicas", replicas.clone()).digest());
    wanted.into_iter().any(same) && contains(&live["spec"]["template"], &wanted[0].value()["spec"]["template"])
}
