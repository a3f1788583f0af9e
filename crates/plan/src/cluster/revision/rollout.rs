//! How a release comes up: what is seen of it, and since when it makes no progress.

use super::Course;
use super::record::Revision;
use crate::cluster::components::{self, Component};
use crate::cluster::subject::{Tenant, is_ours};
use crate::model::{Plan, StageId};
use crate::observed::ApiProbe;
use crate::workload;
use berth_api::cluster::{OnFailure, RolloutStatus};
use berth_api::conditions::{ConditionType, is_true};
use berth_render::Kind;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// The step in which all components run the release, for `spec.upgrade.soak`.
const SOAK: &str = "soak";

/// Clocks that differ by more say nothing about a deadline.
const CLOCKS: SignedDuration = SignedDuration::from_mins(2);

/// From the spec. What cannot be read as a duration, no API server takes.
fn duration(text: &str, default: SignedDuration) -> SignedDuration {
    text.parse().unwrap_or(default)
}

fn deadline(t: &Tenant<'_>) -> SignedDuration {
    duration(&t.cluster.spec.upgrade.progress_deadline, SignedDuration::from_mins(5))
}

fn soak(t: &Tenant<'_>) -> SignedDuration {
    duration(&t.cluster.spec.upgrade.soak, SignedDuration::from_secs(60))
}

/// Whether one that does not come up is taken back.
pub(super) fn goes_back(t: &Tenant<'_>) -> bool {
    t.cluster.spec.upgrade.on_failure == OnFailure::Rollback
}

/// What is recorded of the rollout of that revision.
fn recorded(t: &Tenant<'_>, revision: i64) -> Option<RolloutStatus> {
    t.status().rollout.filter(|rollout| rollout.revision == revision)
}

/// How long a step lasts already, without progress.
fn lasts(t: &Tenant<'_>, rollout: &RolloutStatus) -> Option<SignedDuration> {
    rollout.since.as_ref().map(|Time(since)| t.now.duration_since(*since))
}

/// The first workload whose pods are not all of its newest template and ready, and how many are at least.
fn moving<'a>(t: &Tenant<'a>) -> Option<(&'static Component, &'a str, i32)> {
    components::ALL.into_iter().find_map(|component| {
        let live = t.workloads(component.binary).that(is_ours);
        live.live().find_map(|live| {
            let rollout = workload::rollout(live);
            let name = live.pointer("/metadata/name")?.as_str()?;
            (!rollout.settled).then(|| (component, name, new_and_ready(live)))
        })
    })
}

/// Pods of the newest template that are ready, if all of an earlier one are: a status does not tell which are.
fn new_and_ready(live: &Value) -> i32 {
    let count = |field: &str| live["status"][field].as_i64().unwrap_or_default();
    let old = count("replicas") - count("updatedReplicas");
    i32::try_from((count("availableReplicas") - old).max(0)).unwrap_or_default() * i32::from(workload::taken_up(live))
}

/// The component that makes no progress for too long, and does not now.
pub(super) fn failing(t: &Tenant<'_>, revision: i64) -> Option<&'static Component> {
    let rollout = recorded(t, revision).filter(|rollout| lasts(t, rollout) >= Some(deadline(t)))?;
    let (component, name, ready) = moving(t)?;
    (!t.stands_still() && name == rollout.step && ready <= rollout.ready).then_some(component)
}

/// Whether the component serves as it did before, by pods of an earlier template. A slot is changed in its place, so one of several is not
/// there.
pub(super) fn old_are_well(t: &Tenant<'_>, component: &Component) -> bool {
    let live = t.workloads(component.binary).that(is_ours);
    let Some(rollout) = live.rollout() else { return false };
    if live.keys().iter().all(|key| key.kind == Kind::StatefulSet) {
        let down = live.live().filter(|set| !workload::rollout(set).settled).count();
        return down <= 1 && live.keys().len() > 1 && live.live().count() == live.keys().len();
    }
    let available = live.live().filter_map(|d| d.pointer("/status/availableReplicas")?.as_i64()).sum::<i64>();
    rollout.old > 0 && available >= i64::from(rollout.desired)
}

/// Whether etcd has quorum and the clocks agree: otherwise nothing says that it is the release which fails.
pub(super) fn rest_is_well(t: &Tenant<'_>) -> bool {
    let status = t.etcd.as_ref().and_then(|etcd| etcd.status.as_ref());
    let etcd = status.is_some_and(|status| is_true(&status.conditions, ConditionType::Available));
    etcd && t.observed.meta.clock_ahead.abs() < CLOCKS
}

/// Whether all components run the release; of a minor, when its first step is through.
pub(super) fn is_through(t: &Tenant<'_>, plan: &Plan) -> bool {
    let release = &t.release;
    let no_step = (release.change.is_none() && release.upgrade.is_none()) || release.pending.is_some();
    let done = |component: &&Component| {
        plan.stage(StageId::ControlPlane(component.binary)).is_some_and(|stage| stage.state.is_done())
    };
    no_step && matches!(t.observed.api, ApiProbe::Answered { .. }) && components::ALL.iter().all(done)
}

/// Whether that is so for long enough.
pub(super) fn soaked(t: &Tenant<'_>, revision: i64) -> bool {
    let since = recorded(t, revision).filter(|rollout| rollout.step == SOAK);
    soak(t).is_zero() || since.is_some_and(|rollout| lasts(t, &rollout) >= Some(soak(t)))
}

/// The rollout as it is now; None: nothing is being replaced.
pub(super) fn now(course: &Course<'_>, t: &Tenant<'_>, newest: &Revision<'_>, through: bool) -> Option<RolloutStatus> {
    let (step, ready) = if through {
        (SOAK, 0)
    } else {
        let (_, name, ready) = moving(t)?;
        (name, ready)
    };
    let step = step.to_owned();
    let before = recorded(t, newest.number).filter(|rollout| rollout.step == step);
    let progress = before.as_ref().is_none_or(|before| ready > before.ready);
    let since = before.as_ref().and_then(|before| before.since.clone()).filter(|_| !progress);
    Some(RolloutStatus {
        revision: newest.number,
        from: course.good().and_then(|good| Some(good.release()?.version.clone())),
        to: course.wanted.version.clone(),
        step,
        ready: ready.max(before.map_or(0, |before| before.ready)),
        since: (!t.stands_still()).then(|| since.unwrap_or(Time(t.now))),
    })
}

/// When time alone changes what is decided.
pub(super) fn due(t: &Tenant<'_>, rollout: Option<&RolloutStatus>) -> Option<SignedDuration> {
    let rollout = rollout?;
    let longest = if rollout.step == SOAK { soak(t) } else { deadline(t) };
    Some(longest - lasts(t, rollout)?).filter(SignedDuration::is_positive)
}
