//! How a Job goes, and how it ended.

use super::Owner;
use crate::model::State;
use crate::observed::label;
use crate::workload::pod_problem;
use berth_api::backup::{At, Failure, Outcome};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_render::Kind;
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
        let silent = || Outcome::Failed(Failure { at: At::Other, message: format!("its Job failed: {why}") });
        return Some(said.last().cloned().unwrap_or_else(silent));
    }
    // It did its work, and nobody knows what: the pod was deleted before it was looked at.
    let lost = || {
        Outcome::Failed(Failure { at: At::Other, message: "its Job's pod is gone, and with it what it said".into() })
    };
    condition("Complete").map(|_| lost())
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
        At::Proof => Reason::BackupNotProven,
        At::Etcd | At::Other => Reason::BackupFailed,
    }
}
