//! A plan as a person wants to know it.

use super::foresee::{Future, Later};
use super::paths;
use berth_api::Cluster;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_plan::fleet::wave;
use berth_plan::observed::{ApiProbe, Observed};
use berth_plan::{Action, Stage, StageId, State};
use berth_plan_cluster::ClusterPlan;
use berth_plan_cluster::window::{self, At};
use berth_render::Kind;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

/// All of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub(super) struct Report {
    pub(super) cluster: String,
    /// The `Cluster` is there.
    pub(super) exists: bool,
    pub(super) paused: bool,
    /// When its changes of the version come: label `berth.dev/wave`.
    pub(super) wave: u8,
    /// Whether what replaces pods may begin now, and until when that is so. None: it has no window.
    pub(super) window: Option<String>,
    /// What the operator lets it wait for.
    pub(super) waits: Option<String>,
    /// The operator has other templates of the version that runs: when they are taken up.
    pub(super) update: Option<String>,
    /// What the operator found that stands in the way of the next minor version.
    pub(super) upgrade_blocked: Option<String>,
    /// Something is to be done, or waits to be.
    pub(super) pending: bool,
    pub(super) stages: Vec<Part>,
    /// Leftovers that are removed.
    pub(super) prune: Vec<Change>,
    /// Pods that are replaced, now or then.
    pub(super) restarts: Vec<Restart>,
    /// What follows once this is done, if all goes well; by both controllers.
    pub(super) then: Vec<Later>,
    /// More is planned than could be foreseen.
    pub(super) more_follows: bool,
    pub(super) warnings: Vec<String>,
}

/// A stage.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    pub(super) stage: String,
    pub(super) state: StageStatus,
    /// What for, or why.
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) changes: Vec<Change>,
}

/// The state of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StageStatus {
    Ready,
    Changes,
    Waiting,
    Blocked,
    Disabled,
    NotLookedAt,
}

/// One write.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Change {
    pub(super) what: String,
    pub(super) differences: Vec<String>,
}

/// Pods that are replaced.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Restart {
    pub(super) workload: String,
    pub(super) pods: i64,
}

/// The tenant's own API is not asked: that takes a certificate made with the tenant's CA.
const UNASKED: &str = "only the operator compares the objects in the tenant";

/// From a plan and what it was made from.
pub(super) fn report(
    cluster: &Cluster,
    exists: bool,
    observed: &Observed,
    planned: &ClusterPlan,
    future: Future,
    now: Timestamp,
) -> Report {
    let plan = &planned.plan;
    let meta = &cluster.metadata;
    let stages: Vec<Part> = plan.stages.iter().map(|s| part(s, observed)).collect();
    let open = |p: &Part| !matches!(p.state, StageStatus::Ready | StageStatus::Disabled | StageStatus::NotLookedAt);
    let deleting = meta.deletion_timestamp.is_some();
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let said = |type_, counts: fn(&Condition) -> bool| {
        find(conditions, type_).filter(|found| counts(found)).map(|found| found.message.clone())
    };
    Report {
        cluster: format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        ),
        exists,
        paused: cluster.spec.paused && !deleting,
        pending: !exists || deleting || stages.iter().any(open) || !plan.is_empty() || !future.then.is_empty(),
        wave: wave(cluster),
        window: window(cluster, now),
        waits: said(ConditionType::Ready, waits),
        update: said(ConditionType::UpdateAvailable, |_| true),
        upgrade_blocked: said(ConditionType::UpgradeReady, |ready| ready.status == "False"),
        prune: plan.prune.iter().map(|a| change(a, observed)).collect(),
        restarts: plan.actions().filter_map(|a| restart(a, observed)).chain(future.restarts).collect(),
        then: future.then,
        more_follows: future.more,
        warnings: planned.certificates.warnings.iter().chain(&planned.unread).cloned().chain(plan.notes()).collect(),
        stages,
    }
}

fn window(cluster: &Cluster, now: Timestamp) -> Option<String> {
    let at = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Some(match window::at(cluster.spec.upgrade.window.as_ref()?, now) {
        Ok(At::Open(until)) => format!("open until {}", at(until)),
        Ok(At::Closed(until)) => format!("closed until {}", at(until)),
        Err(why) => why,
    })
}

/// Whether it waits for its turn or its window.
fn waits(ready: &Condition) -> bool {
    matches!(ready.reason.parse(), Ok(Reason::WaitingForTurn | Reason::WaitingForWindow | Reason::FleetStopped))
}

fn part(stage: &Stage, observed: &Observed) -> Part {
    let changes: Vec<Change> = stage.actions.iter().map(|a| change(a, observed)).collect();
    let unasked = stage.id == StageId::Tenant && observed.api == ApiProbe::NotAsked;
    let (state, message) = match &stage.state {
        State::Waiting { .. } if unasked => (StageStatus::NotLookedAt, Some(UNASKED.to_owned())),
        State::Blocked { message, .. } => (StageStatus::Blocked, Some(message.clone())),
        State::Waiting { .. } | State::Reported { .. } | State::Ready if !changes.is_empty() => {
            (StageStatus::Changes, None)
        }
        State::Waiting { on, .. } => (StageStatus::Waiting, Some(on.clone())),
        State::Reported { message, .. } => {
            (StageStatus::Waiting, Some(format!("its controller, which says: {message}")))
        }
        State::Ready => (StageStatus::Ready, None),
        State::Disabled => (StageStatus::Disabled, None),
    };
    let reason = matches!(state, StageStatus::Blocked | StageStatus::Waiting)
        .then(|| stage.state.problem().map(|(r, _)| r.as_str().to_owned()))
        .flatten();
    Part { stage: stage.id.name().to_owned(), state, reason, message, changes }
}

pub(super) fn change(action: &Action, observed: &Observed) -> Change {
    let differences = match action {
        Action::Apply(object) | Action::RemoveAdditions { object, .. } => {
            observed.get(object.key()).map(|live| paths::differences(live, object.value())).unwrap_or_default()
        }
        _ => vec![],
    };
    let mut what = action.describe();
    if matches!(action, Action::Apply(o) if observed.get(o.key()).is_none()) {
        what.push_str(" (new)");
    }
    Change { what, differences }
}

/// Pods of a Deployment whose template changes, or one of etcd's, which are replaced one by one.
pub(super) fn restart(action: &Action, observed: &Observed) -> Option<Restart> {
    let object = match action {
        Action::Delete { key, .. } if key.kind == Kind::Pod => {
            return Some(Restart { workload: key.to_string(), pods: 1 });
        }
        Action::Apply(object) | Action::RemoveAdditions { object, .. } if object.key().kind == Kind::Deployment => {
            object
        }
        _ => return None,
    };
    let live = observed.get(object.key())?;
    let template = object.get("/spec/template")?;
    let rolls = match action {
        Action::RemoveAdditions { additions, .. } => additions.iter().any(|a| a.field.starts_with("spec.template")),
        _ => false,
    } || paths::differs(live.pointer("/spec/template"), template, "template");
    rolls.then(|| Restart {
        workload: object.key().to_string(),
        pods: live.pointer("/spec/replicas").and_then(serde_json::Value::as_i64).unwrap_or_default(),
    })
}
