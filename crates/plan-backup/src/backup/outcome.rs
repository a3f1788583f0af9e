//! How a Job goes, and how it ended.

use super::Owner;
use berth_api::backup::{At, Failure, Outcome};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::backup_jobs::DEADLINE;
use berth_plan::model::State;
use berth_plan::observed::label;
use berth_plan::workload::pod_problem;
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Label of a Job's pods with its UID.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// The container of a Job's pod.
pub(crate) const CONTAINER: &str = "backup";

/// How it ended, once the Job does not try again.
pub(crate) fn of(input: &Owner<'_>, job: &Value) -> Option<Outcome> {
    let said = said(input, job);
    if let Some(done) = said.last().filter(|said| !matches!(said, Outcome::Failed(_))) {
        return Some(done.clone());
    }
    let condition = |type_: &str| {
        let all = job.pointer("/status/conditions").and_then(Value::as_array);
        all.into_iter().flatten().find(|c| c["type"] == type_ && c["status"] == "True").cloned()
    };
    if let Some(failed) = condition("Failed") {
        let why = failed["message"].as_str().unwrap_or("no message");
        let refused = refused(input, job).map(|why| format!("; it had no pod: {why}")).unwrap_or_default();
        let silent = || Outcome::Failed(Failure { at: At::Other, message: format!("its Job failed: {why}{refused}") });
        return Some(said.last().cloned().unwrap_or_else(silent));
    }
    // It did its work, and nobody knows what: the pod was deleted before it was looked at.
    let lost = || {
        Outcome::Failed(Failure { at: At::Other, message: "its Job's pod is gone, and with it what it said".into() })
    };
    condition("Complete").map(|_| lost())
}

/// How long after its deadline a Job may take to say how it ended.
const GRACE: i64 = 600;

/// How one ends that has not ended by its deadline: nobody counts its time, or `spec.suspend` stopped it.
pub(crate) fn overdue(key: &ObjectKey, job: &Value, now: Timestamp) -> Option<Outcome> {
    let message = format!(
        "{key} has not ended {} minutes after its creation, though it has a deadline of {} (spec.activeDeadlineSeconds), so Berth gives it up. If its spec.suspend is not true, look whether kube-controller-manager runs",
        (DEADLINE + GRACE) / 60,
        DEADLINE / 60
    );
    (age(job, now).as_secs() >= DEADLINE + GRACE).then_some(Outcome::Failed(Failure { at: At::Other, message }))
}

/// How long ago it was created, by the API server's clock.
pub(crate) fn age(job: &Value, now: Timestamp) -> SignedDuration {
    let created: Option<Timestamp> = job["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
    created.map(|at| now.duration_since(at)).unwrap_or_default()
}

/// Whether none of its pods has begun.
pub(crate) fn is_starting(input: &Owner<'_>, job: &Value) -> bool {
    pods(input, job).all(|pod| pod["status"]["phase"] == "Pending")
}

/// What refuses its pods, if it has none.
fn refused<'a>(input: &'a Owner<'_>, job: &Value) -> Option<&'a String> {
    input.observed.refused.get(job["metadata"]["name"].as_str()?).filter(|_| pods(input, job).next().is_none())
}

/// What it is doing, for people.
pub(crate) fn progress(input: &Owner<'_>, job: &Value, ended: Option<&Outcome>, does: &str) -> State {
    if ended.is_some() {
        return State::waiting("its result to be recorded");
    }
    let problem = pods(input, job).filter(|pod| pod["status"]["phase"] == "Pending").find_map(pod_problem);
    if let Some((reason, on)) = problem {
        return State::Waiting { reason, on };
    }
    if let Some(why) = refused(input, job) {
        let on = format!(
            "a pod of its Job, which the API server refuses: {why}. Once that is allowed, Kubernetes makes one by itself, until the Job's deadline of {} minutes",
            DEADLINE / 60
        );
        return State::Waiting { reason: Reason::Rejected, on };
    }
    match said(input, job).pop() {
        Some(Outcome::Failed(failure)) => {
            State::waiting(format!("another try of its Job; the last one: {}", failure.message))
        }
        _ => State::Waiting { reason: Reason::Waiting, on: does.into() },
    }
}

fn pods<'a>(input: &'a Owner<'_>, job: &'a Value) -> impl Iterator<Item = &'a Value> {
    let all = input.observed.objects.iter().filter(|(key, _)| key.kind == Kind::Pod).map(|(_, pod)| pod);
    let (name, uid) = (job["metadata"]["name"].as_str(), job["metadata"]["uid"].as_str());
    // Pods of an earlier Job of this name may not be gone yet.
    let is_its = move |pod: &Value| label(pod, CONTROLLER_UID).is_none_or(|of| Some(of) == uid);
    all.filter(move |pod| input.is_ours(pod) && label(pod, labels::JOB_NAME) == name && is_its(pod))
}

/// What its pods said, in the order of their ends; what proves something comes last.
fn said(input: &Owner<'_>, job: &Value) -> Vec<Outcome> {
    let one = |pod: &Value| {
        let all = pod.pointer("/status/containerStatuses")?.as_array()?;
        let end = &all.iter().find(|c| c["name"] == CONTAINER)?["state"]["terminated"];
        let outcome: Outcome = serde_json::from_str(end["message"].as_str()?).ok()?;
        Some((!matches!(outcome, Outcome::Failed(_)), end["finishedAt"].as_str()?.to_owned(), outcome))
    };
    let mut said: Vec<_> = pods(input, job).filter_map(one).collect();
    said.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    said.into_iter().map(|(.., outcome)| outcome).collect()
}

/// The reason that a condition has for it.
pub(crate) fn reason(failure: &Failure) -> Reason {
    match failure.at {
        At::Store => Reason::StoreUnavailable,
        At::Proof | At::Damaged => Reason::BackupNotProven,
        At::Etcd | At::Other => Reason::BackupFailed,
    }
}
