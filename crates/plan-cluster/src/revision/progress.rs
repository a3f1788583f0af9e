//! How a release comes up: what is seen of it, and since when it makes no progress.

use super::nodes::Unplaced;
use crate::admission::{is_obstructed, is_overruled};
use crate::leads;
use crate::ours::is_ours;
use crate::release::Canary;
use crate::subject::Tenant;
use berth_api::cluster::{CanaryStatus, OnFailure, RolloutStatus};
use berth_api::conditions::{ConditionType, Reason, is_true};
use berth_api::names;
use berth_plan::model::{Plan, StageId, State};
use berth_plan::observed::ApiProbe;
use berth_plan::workload;
use berth_render::{Binary, Kind};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// The step in which all components run the release, for `spec.upgrade.soak`.
const SOAK: &str = "soak";

/// The step in which no pods are replaced, and something else is waited for.
const WAITING: &str = "waiting";

/// Clocks that differ by more say nothing about a deadline.
const CLOCKS: SignedDuration = SignedDuration::from_mins(2);

/// From the spec. What cannot be read as a duration, no API server takes.
fn duration(text: &str, default: SignedDuration) -> SignedDuration {
    text.parse().unwrap_or(default)
}

fn deadline(t: &Tenant<'_>) -> SignedDuration {
    duration(&t.cluster.spec.upgrade.progress_deadline, SignedDuration::from_mins(5))
}

pub(super) fn soak(t: &Tenant<'_>) -> SignedDuration {
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
    since(t, rollout).map(|since| t.now.duration_since(since))
}

/// Since when it makes no progress. While the canary serves, nothing else is to go on. From when the clock was set it begins anew.
fn since(t: &Tenant<'_>, rollout: &RolloutStatus) -> Option<Timestamp> {
    let Time(since) = rollout.since.as_ref()?;
    let serves = rollout.canary.as_ref().and_then(|canary| canary.since.as_ref());
    let since = serves.map_or(*since, |Time(serves)| (*serves + soak(t)).max(*since));
    Some(t.observed.meta.clock_set.map_or(since, |set| since.max(set)))
}

/// The first workload whose pods are not all of its newest template and ready, and how many are at least.
fn moving<'a>(t: &Tenant<'a>) -> Option<(Binary, &'a str, i32)> {
    t.distribution.awaited().find_map(|binary| {
        let live = t.workloads(binary).that(is_ours);
        live.live().find_map(|live| {
            let rollout = workload::rollout(live);
            let name = live.pointer("/metadata/name")?.as_str()?;
            (!rollout.settled).then(|| (binary, name, new_and_ready(live)))
        })
    })
}

/// Pods of the newest template that are ready, if all of an earlier one are: a status does not tell which are.
fn new_and_ready(live: &Value) -> i32 {
    let count = |field: &str| live["status"][field].as_i64().unwrap_or_default();
    let old = count("replicas") - count("updatedReplicas");
    i32::try_from((count("availableReplicas") - old).max(0)).unwrap_or_default() * i32::from(workload::taken_up(live))
}

/// What a release fails by.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The component makes no progress for too long.
    Late(Binary),
    /// The first new API server was ready, and then was not, before `spec.upgrade.soak` was over.
    Canary(String),
    /// No pod is replaced any more, and still it is not through: the API does not answer, or nothing can be written.
    Stuck,
    /// No node takes an API server, and no other serves.
    Unplaced(Unplaced),
    /// It fails its clients: what of its answers.
    Answers(String),
}

impl Failure {
    pub(super) fn component(&self, t: &Tenant<'_>) -> Option<Binary> {
        match self {
            Self::Late(component) => Some(*component),
            Self::Canary(_) | Self::Answers(_) | Self::Unplaced(_) => Some(t.distribution.api()),
            Self::Stuck => None,
        }
    }
}

/// What it fails by now. `asks_more`: it asks other things of nodes than the release to which it would go back; else that would find no node
/// either.
pub(super) fn failing(t: &Tenant<'_>, canary: Option<Canary>, (revision, asks_more): (i64, bool)) -> Option<Failure> {
    let recorded = recorded(t, revision)?;
    if t.stands_still() {
        return None;
    }
    if let Some(canary) = failed(t, canary, &recorded) {
        return Some(Failure::Canary(canary.pod.clone()));
    }
    if let Some(why) = canary.and_then(|canary| canary.answers_badly(t)) {
        return Some(Failure::Answers(why));
    }
    if let Some(unplaced) = Unplaced::for_long(t).filter(|_| asks_more) {
        return Some(Failure::Unplaced(unplaced));
    }
    if is_obstructed(t) {
        return None;
    }
    let rollout = Some(recorded).filter(|rollout| lasts(t, rollout) >= Some(deadline(t)))?;
    let Some((component, name, ready)) = moving(t) else { return (rollout.step == WAITING).then_some(Failure::Stuck) };
    let late =
        name == rollout.step && ready <= rollout.ready && lasts(t, &rollout) >= Some(deadline(t) + min_ready(t, name));
    late.then_some(Failure::Late(component))
}

/// How much longer a pod of a workload may take, since it is ready and its controller lets it serve for a while: `minReadySeconds`.
fn min_ready(t: &Tenant<'_>, name: &str) -> SignedDuration {
    let Some(live) = t.get(Kind::Deployment, name) else { return SignedDuration::ZERO };
    let count = |field: &str| live.pointer(field).and_then(Value::as_i64).unwrap_or_default();
    let serves = count("/status/readyReplicas") > count("/status/availableReplicas");
    SignedDuration::from_secs(if serves { count("/spec/minReadySeconds") } else { 0 })
}

/// The canary that is recorded, if it failed.
fn failed<'a>(t: &Tenant<'_>, canary: Option<Canary>, rollout: &'a RolloutStatus) -> Option<&'a CanaryStatus> {
    let recorded = rollout.canary.as_ref()?;
    canary?.has_failed(t, recorded).then_some(recorded)
}

/// Whether the component serves as it did before, by pods of an earlier template. A slot is changed in its place, so one is not there; of a
/// single one nothing serves, and nothing is lost by going back.
pub(super) fn old_are_well(t: &Tenant<'_>, component: Binary) -> bool {
    let live = t.workloads(component).that(is_ours);
    let Some(rollout) = live.rollout() else { return false };
    if live.keys().iter().all(|key| key.kind == Kind::StatefulSet) {
        let down = live.live().filter(|set| !workload::rollout(set).settled).count();
        return down <= 1 && live.live().count() == live.keys().len();
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

/// Whether the tenant serves before a release begins.
pub(super) fn is_well(t: &Tenant<'_>) -> bool {
    let serves = |binary| t.workloads(binary).that(is_ours).rollout().is_some_and(|r| r.serving);
    let leads = |binary| leads::not_leading(t, binary).is_none();
    let awaited = || t.distribution.awaited();
    rest_is_well(t)
        && matches!(t.observed.api, ApiProbe::Answered { .. })
        && awaited().all(serves)
        && awaited().all(leads)
}

/// Whether all components run the release; of a minor, when its first step is through.
pub(super) fn is_through(t: &Tenant<'_>, plan: &Plan) -> bool {
    let release = &t.release;
    let no_step = (release.change.is_none() && release.upgrade.is_none()) || release.pending.is_some();
    let is_done = |state: &State| {
        // It is rolled out, and only that may keep it from leading.
        state.is_done()
            || (is_overruled(t) && state.problem().is_some_and(|(reason, _)| reason == Reason::WebhookInTheWay))
    };
    let done = |binary| plan.stage(StageId::ControlPlane(binary)).is_some_and(|stage| is_done(&stage.state));
    no_step && matches!(t.observed.api, ApiProbe::Answered { .. }) && t.distribution.awaited().all(done)
}

/// Whether that is so for long enough.
pub(super) fn soaked(t: &Tenant<'_>, revision: i64) -> bool {
    let since = recorded(t, revision).filter(|rollout| rollout.step == SOAK);
    soak(t).is_zero() || since.is_some_and(|rollout| lasts(t, &rollout) >= Some(soak(t)))
}

/// What is rolled out.
pub(super) struct Target {
    /// The number of its revision.
    pub(super) revision: i64,
    /// The version before, if it is known.
    pub(super) from: Option<String>,
    /// Its version.
    pub(super) to: String,
}

/// The rollout as it is now.
pub(super) fn now(t: &Tenant<'_>, target: Target, canary: Option<Canary>, through: bool) -> RolloutStatus {
    let Target { revision, from, to } = target;
    let recorded = recorded(t, revision);
    let canary = canary.filter(|_| !through);
    let (step, ready) = match moving(t) {
        _ if through => (SOAK, 0),
        Some((_, name, ready)) => (name, ready),
        // A slot that changed, of which others are to follow.
        None if canary.is_some_and(|canary| canary.until(t).is_some()) => (names::APISERVER, 0),
        None => (WAITING, 0),
    };
    let step = step.to_owned();
    let before = recorded.clone().filter(|rollout| rollout.step == step);
    let progress = before.as_ref().is_none_or(|before| ready > before.ready);
    let since = before.as_ref().and_then(|before| since(t, before)).filter(|_| !progress);
    RolloutStatus {
        revision,
        from,
        to,
        step,
        ready: ready.max(before.map_or(0, |before| before.ready)),
        // What stands still, or meets a webhook of the tenant's, has its whole time from when it goes on.
        since: (!t.stands_still() && !is_obstructed(t)).then(|| Time(since.unwrap_or(t.now).min(t.now))),
        canary: canary.and_then(|canary| serving(t, canary, recorded.as_ref())),
    }
}

/// The canary that serves, or has failed and is not judged yet.
fn serving(t: &Tenant<'_>, canary: Canary, recorded: Option<&RolloutStatus>) -> Option<CanaryStatus> {
    if let Some(failed) = recorded.and_then(|recorded| failed(t, Some(canary), recorded)) {
        return Some(failed.clone());
    }
    canary.status(t)
}

/// When time alone changes what is decided.
pub(super) fn due(t: &Tenant<'_>, canary: Option<Canary>, rollout: Option<&RolloutStatus>) -> Option<SignedDuration> {
    let rollout = rollout?;
    let longest = if rollout.step == SOAK { soak(t) } else { deadline(t) };
    let late = Some(longest - lasts(t, rollout)?).filter(SignedDuration::is_positive);
    let proven = canary.and_then(|canary| canary.until(t)).map(|until| until.duration_since(t.now));
    [late, proven, Unplaced::due(t)].into_iter().flatten().min()
}
