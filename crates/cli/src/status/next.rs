//! The next thing to do.

use super::report::Report;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::{Cluster, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// An operator that runs sees a new `Cluster` within moments.
const UNSEEN: SignedDuration = SignedDuration::from_secs(30);

/// A certificate that ends later is nobody's worry yet.
const NEAR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The shortest life that the chart lets certificates have.
const SHORTEST: SignedDuration = SignedDuration::from_hours(24);

/// Their messages are the words of kubelet, scheduler or an API server: what is wrong, and not what to do about it.
const WORDS_OF_OTHERS: &[Reason] = &[
    Reason::PodsNotReady,
    Reason::ImageUnavailable,
    Reason::ContainerFailing,
    Reason::Unschedulable,
    Reason::QuorumLost,
    Reason::APINotReachable,
    Reason::PermissionDenied,
    Reason::Rejected,
    Reason::Error,
];

/// What to do, as a sentence; what comes by itself begins with `wait`.
pub(super) fn next(cluster: &Cluster, report: &Report, lifetime: Option<SignedDuration>, now: Timestamp) -> String {
    let conditions = cluster.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let of = |type_| find(conditions, type_);
    let ready = of(ConditionType::Ready);
    let Report { name, namespace, .. } = report;
    let patch = |spec: &str| {
        format!("kubectl -n {namespace} patch clusters.berth.dev {name} --type merge -p '{{\"spec\":{spec}}}'")
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        return match ready {
            Some(c) if cluster.spec.deletion.protected => {
                format!("{}: {}", c.message, patch("{\"deletion\":{\"protected\":false}}"))
            }
            Some(c) => format!("wait: {}", c.message),
            None => "wait: being deleted".to_owned(),
        };
    }
    let Some(ready) = ready else { return unseen(cluster, now) };
    if !report.observed {
        return "wait: the operator has not reconciled the newest spec yet; if that lasts: kubectl -n berth-system get pods".to_owned();
    }
    if let Some(problem) = of(ConditionType::Degraded).filter(|c| c.status == "True") {
        return degraded(problem, report);
    }
    if cluster.spec.paused {
        return format!(
            "nothing is changed, repaired or renewed until spec.paused is false: {}",
            patch("{\"paused\":false}")
        );
    }
    if ready.status != "True" {
        let mut pods = report.components.iter().flat_map(|c| &c.pods);
        if let Some(problem) = pods.find_map(|p| p.problem.as_deref()) {
            return format!("look into it: {problem}");
        }
        let moving = of(ConditionType::Progressing).filter(|c| c.status == "True");
        return match moving {
            Some(c) => format!("wait: {}", c.message),
            None => format!("look into it: {}", advised(ready)),
        };
    }
    if report.next_expiry.is_some_and(|at| overdue(at, lifetime, now)) {
        return "a certificate expires soon and was not renewed; read the operator's log: kubectl -n berth-system logs -l app.kubernetes.io/name=berth".to_owned();
    }
    "nothing to do".to_owned()
}

/// A certificate ends so soon that it matters how long they live.
pub(super) fn near(at: Timestamp, now: Timestamp) -> bool {
    at < now + NEAR
}

/// A certificate that lives this long should have been renewed: that is due at two thirds of its life, give or take a twentieth of that,
/// with three tenths left. Where the lifetime is not known, the shortest is assumed, so that nothing is said too soon.
fn overdue(at: Timestamp, lifetime: Option<SignedDuration>, now: Timestamp) -> bool {
    near(at, now) && at < now + lifetime.unwrap_or(SHORTEST) / 4
}

/// Nothing was said about it.
fn unseen(cluster: &Cluster, now: Timestamp) -> String {
    let young = cluster.metadata.creation_timestamp.as_ref().is_some_and(|t| now.duration_since(t.0) < UNSEEN);
    if young {
        "wait: the operator has not reconciled it yet".to_owned()
    } else {
        "check that the operator runs, since this Cluster has no status: kubectl -n berth-system get pods".to_owned()
    }
}

fn degraded(problem: &Condition, report: &Report) -> String {
    let adopt = || format!("kubectl berth adopt {} -n {}", report.name, report.namespace);
    match problem.reason.parse() {
        // Somebody else comes first.
        Ok(Reason::AdoptionRequired) if problem.message.contains(labels::ALLOW_ADOPTION) => problem.message.clone(),
        Ok(Reason::AdoptionRequired) => format!("to take over the existing control plane: {}", adopt()),
        Ok(Reason::ControlPlaneLost) => format!("{}. To set the annotation: {}", problem.message, adopt()),
        // Of a host that is not in DNS, with what to do.
        Ok(Reason::APINotReachable) => problem.message.clone(),
        _ => advised(problem),
    }
}

/// The message, which ends with the way out where Berth wrote it, and what the reference says where others did.
fn advised(condition: &Condition) -> String {
    match condition.reason.parse::<Reason>() {
        Ok(reason) if WORDS_OF_OTHERS.contains(&reason) => {
            format!("{}. {}", condition.message.trim_end_matches('.'), reason.what_to_do())
        }
        _ => condition.message.clone(),
    }
}
