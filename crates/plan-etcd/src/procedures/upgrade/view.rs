//! What a change of the version is decided from, as it was observed.

use super::decide::{Parity, RAN, Seat, UpgradeView};
use crate::health::Health;
use crate::procedures::parity;
use crate::subject::{Input, Subject, children, pod_version};
use crate::{roll, validate};
use berth_api::etcd_bootstrap::{BootstrapState, Operation, OperationKind, Phase, Record, Release};
use berth_api::etcd_cluster::MemberState;
use berth_api::names;
use berth_api::version::Version;
use berth_plan::etcd_home::Home;
use berth_plan::observed::RaisedAlarm;
use berth_plan::settings::Settings;
use berth_plan::workload::{pod_problem, pod_ready, ready_since, taken_up};
use berth_render::{Catalog, Kind};
use jiff::Timestamp;
use serde_json::Value;

/// The view of a reconcile; `is_applied`: nothing is to be written.
pub(crate) fn view_upgrade<'a>(s: &'a Subject<'_>, health: &Health, is_applied: bool) -> UpgradeView<'a> {
    let (record, wanted) = (&s.record, validate::wanted_version(s).ok());
    let raised = |storage: &str| version(storage).is_some_and(|v| v.minor() > record.version.minor());
    let is_space = |alarm: &RaisedAlarm| alarm.kind == RaisedAlarm::NOSPACE;
    UpgradeView {
        now: s.now,
        restore: Home::of(s.etcd).command("restore"),
        record,
        wanted,
        release: wanted.and_then(|wanted| release(s.settings, wanted)),
        members: s.members().iter().map(|name| seat(s, health, name)).collect(),
        is_formed: record.bootstrap.state == BootstrapState::Established,
        is_well: health.complete && s.alarms().iter().all(is_space) && pods_are_ready(s),
        is_full: s.alarms().iter().any(is_space),
        is_settled: is_applied && roll::next(s, health) == (None, None) && health.deleting_volume.is_none(),
        parity: agreement(s),
        knows_current: s.get(Kind::StatefulSet, s.name).is_some_and(knows_current),
        is_raised: s.answers().any(|m| raised(&m.storage_version)),
    }
}

fn pods_are_ready(s: &Subject<'_>) -> bool {
    s.members().iter().all(|member| s.pod(member).is_some_and(pod_ready))
}

fn agreement(s: &Subject<'_>) -> Parity {
    match parity::last(s) {
        Some(check) if !check.differing.is_empty() => Parity::Differs,
        Some(check) if s.now.duration_since(check.checked_at.0) < parity::FRESH => Parity::Same,
        _ if !parity::may_ask(s) => Parity::Silent,
        _ => Parity::Unknown,
    }
}

/// By `RollingUpdate` alone it keeps what pods were made from before.
fn knows_current(set: &Value) -> bool {
    let status = |field: &str| set["status"][field].as_str();
    let rolls = set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
    rolls
        && taken_up(set)
        && status("currentRevision").is_some()
        && status("currentRevision") == status("updateRevision")
}

fn seat(s: &Subject<'_>, health: &Health, name: &str) -> Seat {
    let pod = s.pod(name);
    let known = health.members.iter().find(|m| m.name == name);
    Seat {
        name: name.to_owned(),
        id: known.and_then(|m| m.id.clone()).unwrap_or_default(),
        pod: pod.and_then(pod_version),
        says: s.said(name).and_then(|m| version(&m.version)),
        well: pod.is_some_and(pod_ready)
            && known.is_some_and(|m| m.state == MemberState::Answers && m.problem.is_none()),
        has_run: pod.is_some_and(|pod| pod_ready(pod) || has_run(pod, s.now)),
        since: pod.and_then(ready_since),
        leads: known.is_some_and(|m| m.leader),
        problem: pod.and_then(pod_problem),
    }
}

/// Whether a pod's containers ran for a while, now or before. Kubelet tells of the last run only; of one before, nobody knows.
fn has_run(pod: &Value, now: Timestamp) -> bool {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let at = |state: &Value, field: &str| state[field].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let ran = |state: &Value, ended: Option<Timestamp>| {
        state.is_object()
            && at(state, "startedAt").zip(ended).is_none_or(|(begun, ended)| ended.duration_since(begun) >= RAN)
    };
    let has_ended = |state: &Value| ran(state, at(state, "finishedAt"));
    statuses.into_iter().flatten().any(|c| {
        ran(&c["state"]["running"], Some(now))
            || has_ended(&c["state"]["terminated"])
            || has_ended(&c["lastState"]["terminated"])
    })
}

/// A registry may hold a build such as `3.6.16-rc.1+somebody`.
fn version(text: &str) -> Option<Version> {
    let all = semver::Version::parse(text).ok()?;
    format!("{}.{}.{}", all.major, all.minor, all.patch).parse().ok()
}

/// The lowest version that members say they run.
pub(crate) fn lowest(s: &Subject<'_>) -> Option<Version> {
    s.answers().filter_map(|m| version(&m.version)).min()
}

/// What members get with a version, if there are templates for it.
fn release(settings: &Settings, version: Version) -> Option<Release> {
    Some(Release {
        version,
        templates: Catalog::builtin().etcd(version.minor())?.digest(),
        agent_image: settings.agent_image.clone(),
        agent_delivery: settings.agent_delivery,
        helper_resources: settings.helpers.resources.clone(),
    })
}

/// An older operator writes the record without what it does not know; that it was a change of the version, the target still says.
pub(crate) fn pick_up(input: Input<'_>, record: &mut Record) {
    // Nor is it known what a change comes to that has lost its release.
    let is_torn = record.next.is_none();
    let is_left = |o: &&mut Operation| o.kind == OperationKind::Other || o.kind == OperationKind::Upgrade && is_torn;
    let Some(operation) = record.operation.as_mut().filter(is_left) else { return };
    let version = operation.target.split_once('@').and_then(|(_, version)| version.parse::<Version>().ok());
    let Some(next) = version.and_then(|version| release(input.settings, version)) else { return };
    let mut pods = children(input.object, input.observed, Kind::Pod);
    let has_begun = pods.any(|(_, pod)| pod_version(pod) == Some(next.version));
    operation.kind = OperationKind::Upgrade;
    operation.phase = if has_begun { Phase::Roll } else { Phase::Prepare };
    record.next = Some(next);
}

/// The ordinal from which on pods have the new template. None: its turn is yet to come.
pub(crate) fn partition(s: &Subject<'_>) -> Option<i32> {
    let operation = s.record.under_way(OperationKind::Upgrade)?;
    match operation.phase {
        // All pods have the same template: its controller takes note of it, and replaces none.
        Phase::Prepare => Some(0),
        _ => names::etcd::ordinal(s.name, operation.target.split_once('@')?.0),
    }
}
