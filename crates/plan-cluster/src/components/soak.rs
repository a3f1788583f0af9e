//! How a Deployment lets its first new pod serve alone, for `spec.upgrade.soak`.

use crate::subject::Tenant;
use berth_api::labels;
use berth_plan::object_meta::annotation;
use berth_plan::objects::diff::has_pods_of;
use berth_plan::settings::MayChange;
use berth_plan::workload;
use berth_render::{Binary, Kind, Object};
use jiff::SignedDuration;
use serde_json::Value;

/// As long as the controller says nothing of a rollout that makes no progress, beside the soak: it has to be longer.
const PROGRESS: SignedDuration = SignedDuration::from_mins(10);

/// The Deployment with `minReadySeconds`, while the first new pod of a release is to come or serves alone. Nothing of that is in the pod
/// template, so it restarts nobody.
pub(super) fn with_canary(t: &Tenant<'_>, binary: Binary, object: Object) -> Object {
    let canary = t.release.canary.filter(|canary| binary == t.distribution.api() && !canary.is_proven(t));
    let live = t.observed.get(object.key()).filter(|_| object.key().kind == Kind::Deployment);
    let (Some(canary), Some(live)) = (canary, live) else { return object };
    let held = held(&object, canary.soak);
    let is_held = live.pointer("/spec/minReadySeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds > 0);
    let rolls = !has_template(live, [&object, &held], &t.observed.meta.may_change)
        || (is_held && !workload::rollout(live).settled);
    if rolls { held } else { object }
}

fn held(object: &Object, soak: SignedDuration) -> Object {
    let mut spec = object.value()["spec"].clone();
    spec["minReadySeconds"] = soak.as_secs().into();
    spec["progressDeadlineSeconds"] = (soak + PROGRESS).as_secs().into();
    object.clone().with("/spec", spec)
}

/// Whether the API server is there with another pod template than this one: as it was applied, and as it is. What admission changed is neither.
pub(super) fn replaces_pods(t: &Tenant<'_>, object: &Object) -> bool {
    let live = t.observed.get(object.key()).filter(|_| object.key().kind == Kind::Deployment);
    let Some(live) = live else { return false };
    let object = workload::with_registry_annotation(object.clone(), &t.cluster.spec.images, Binary::ApiServer);
    !was_applied(live, [&object]) && !has_pods_of(live, &object, &t.observed.meta.may_change)
}

/// Whether it has that pod template, however many pods of it. The digest tells what was taken out of the template, too.
fn has_template(live: &Value, wanted: [&Object; 2], may: &MayChange) -> bool {
    was_applied(live, wanted) && has_pods_of(live, wanted[0], may)
}

fn was_applied<const N: usize>(live: &Value, wanted: [&Object; N]) -> bool {
    let applied = annotation(live, labels::APPLIED_DIGEST);
    let replicas = &live["spec"]["replicas"];
    let same = |object: &Object| applied == Some(&*object.clone().with("/spec/replicas", replicas.clone()).digest());
    wanted.into_iter().any(same)
}
