//! Taking an etcd down. Needs no member to be healthy, and no spec to be valid.

use crate::planned::EtcdPlan;
use crate::subject::{self, Input};
use berth_api::cluster::DataPolicy;
use berth_api::names;
use berth_plan::etcd_home::name_of;
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::object_meta::deleting;
use berth_plan::{ending, requeue, run_level};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Seconds that pods get: etcd needs no more to close its files, and nobody is to be served.
const GRACE: i64 = 1;

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(input: Input<'_>) -> EtcdPlan {
    let mut stage = Stage::new(StageId::Deletion, State::Ready);
    let mut left = members(input, &mut stage);
    if left.is_empty() {
        left = rest(input, &mut stage);
    } else {
        claims(input, &mut stage);
    }
    if !left.is_empty() {
        stage.state = State::waiting(format!("{} to be deleted", ending::first(&left)));
    }
    let again = requeue::while_deleting(&input.object.metadata, input.now, &stage);
    let mut out = EtcdPlan { requeue_after: Some(again), ..EtcdPlan::default() };
    out.plan.finished = stage.state.is_done();
    out.plan.stages.push(stage);
    out
}

/// Only the label counts here: what lost it is not worth a mistake.
fn children(input: Input<'_>, kind: Kind) -> impl Iterator<Item = (&ObjectKey, &Value)> {
    subject::children(input.object, input.observed, kind)
}

/// First the processes, so that nothing writes any more. Who tells a pod first sets its grace, and a StatefulSet starts no other
/// one before this is gone. Returns what is still there.
fn members(input: Input<'_>, stage: &mut Stage) -> Vec<String> {
    let mut left = vec![];
    for (key, pod) in children(input, Kind::Pod) {
        let given = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
        if given.is_none_or(|g| g > GRACE) {
            stage.actions.push(Action::delete(key, pod, Some(GRACE)));
        }
        left.push(ending::pod(key, pod, input.now));
    }
    for (key, set) in children(input, Kind::StatefulSet) {
        run_level::stop(stage, key, set);
    }
    left
}

/// Volumes that are not kept are deleted with the processes: Kubernetes keeps a claim as long as a pod uses it.
fn claims(input: Input<'_>, stage: &mut Stage) {
    if input.object.spec.data_policy == DataPolicy::Delete {
        for (key, claim) in children(input, Kind::PersistentVolumeClaim).filter(|(_, c)| !deleting(c)) {
            stage.actions.push(Action::delete(key, claim, None));
        }
    }
}

/// Then what they needed; `Retain` leaves what an `EtcdCluster` of the same name needs to find its data.
fn rest(input: Input<'_>, stage: &mut Stage) -> Vec<String> {
    let (name, _) = name_of(input.object);
    let retain = input.object.spec.data_policy == DataPolicy::Retain;
    let kept = |key: &ObjectKey| match key.kind {
        Kind::PersistentVolumeClaim => true,
        Kind::Secret => [names::etcd::peer_ca(name), names::etcd::client_ca(name)].contains(&key.name),
        Kind::ConfigMap => key.name == names::etcd::bootstrap(name),
        _ => false,
    };
    let mut left = vec![];
    for kind in super::OBSERVED.into_iter().rev() {
        for (key, object) in children(input, kind).filter(|(key, _)| !(retain && kept(key))) {
            if !deleting(object) {
                stage.actions.push(Action::delete(key, object, None));
            }
            left.push(key.to_string());
        }
    }
    left
}
