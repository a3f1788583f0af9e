//! How a Job goes, and how it ended.

use super::{JobOwner, task_of};
use berth_api::backup::{At, Failure, Outcome, Task};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::backup_jobs::{DEADLINE, age, condition};
use berth_plan::model::State;
use berth_plan::object_meta::label;
use berth_plan::objects::foreign;
use berth_plan::workload::{explained, pod_problem};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Label of a Job's pods with its UID.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// The container of a Job's pod.
pub(super) const CONTAINER: &str = "backup";

/// How long after its deadline a Job may take to say how it ended.
const GRACE: i64 = 600;

/// What became of a Job.
#[derive(Clone, Debug)]
pub(crate) enum JobStatus {
    /// There is none.
    Absent,
    /// One of this name is not Berth's.
    Foreign(State),
    /// It is at work, or tries again.
    Active(State),
    /// It has not ended by its deadline, so it is given up.
    Overdue(Failure),
    /// It does not try again.
    Failed(Failure),
    /// It did what it was to do, and said this.
    Complete(Box<Outcome>),
}

impl JobOwner<'_> {
    /// What became of a Job. `does`: what is waited for, for people.
    pub(crate) fn status(&self, key: &ObjectKey, does: &str) -> JobStatus {
        let Some(job) = self.observed.get(key) else { return JobStatus::Absent };
        if !self.is_ours(job) {
            return JobStatus::Foreign(foreign(key));
        }
        match self.outcome(job) {
            Some(Outcome::Failed(failure)) => JobStatus::Failed(failure),
            Some(said) => JobStatus::Complete(Box::new(said)),
            None => {
                self.overdue(key, job).map_or_else(|| JobStatus::Active(self.progress(job, does)), JobStatus::Overdue)
            }
        }
    }

    /// How it ended, once the Job does not try again.
    fn outcome(&self, job: &Value) -> Option<Outcome> {
        let said = self.said(job);
        if let Some(done) = said.last().filter(|said| !matches!(said, Outcome::Failed(_))) {
            return Some(done.clone());
        }
        let failed = |message| Outcome::Failed(Failure { at: At::Other, message });
        if let Some(condition) = condition(job, "Failed") {
            let why = condition["message"].as_str().unwrap_or("no message");
            let refused = self.refused(job).map(|why| format!("; it had no pod: {why}")).unwrap_or_default();
            return Some(said.last().cloned().unwrap_or_else(|| failed(format!("its Job failed: {why}{refused}"))));
        }
        // It did its work, and nobody knows what: the pod was deleted before it was looked at.
        condition(job, "Complete").map(|_| failed("its Job's pod is gone, and with it the result".into()))
    }

    /// How one ends that has not ended by its deadline: nobody counts its time, or `spec.suspend` stopped it.
    fn overdue(&self, key: &ObjectKey, job: &Value) -> Option<Failure> {
        // One that writes to a member's volume may do so still, whoever gives it up.
        if age(job, self.now).as_secs() < DEADLINE + GRACE || matches!(task_of(job), Some(Task::Restore(_))) {
            return None;
        }
        let message = format!(
            "{key} has not ended {} minutes after its creation, though it has a deadline of {} (spec.activeDeadlineSeconds), so Berth gives it up. If its spec.suspend is not true, check that kube-controller-manager runs",
            (DEADLINE + GRACE) / 60,
            DEADLINE / 60
        );
        Some(Failure { at: At::Other, message })
    }

    /// What it is doing, for people.
    fn progress(&self, job: &Value, does: &str) -> State {
        let problem = self.pods(job).filter(|pod| pod["status"]["phase"] == "Pending").find_map(pod_problem);
        if let Some((reason, on)) = problem {
            return State::Waiting { reason, on };
        }
        if let Some(why) = self.refused(job) {
            let on = format!(
                "a pod of its Job, which the API server refuses: {why}. Once that is allowed, Kubernetes makes one by itself, until the Job's deadline of {} minutes",
                DEADLINE / 60
            );
            return State::Waiting { reason: Reason::Rejected, on };
        }
        match self.said(job).pop() {
            Some(Outcome::Failed(failure)) => {
                State::waiting(format!("a retry of its Job; the last error: {}", failure.message))
            }
            _ => State::waiting(does),
        }
    }

    /// Whether none of its pods has begun.
    pub(crate) fn is_starting(&self, job: &Value) -> bool {
        self.pods(job).all(|pod| pod["status"]["phase"] == "Pending")
    }

    /// Whether pods of a Job are there.
    pub(crate) fn has_pods(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some_and(|job| self.pods(job).next().is_some())
    }

    /// What refuses its pods, if it has none, and what would allow them: fields of theirs, or else of what refuses them.
    fn refused(&self, job: &Value) -> Option<String> {
        let why = self.observed.refused.get(job["metadata"]["name"].as_str()?);
        let why = why.filter(|_| self.pods(job).next().is_none())?;
        let home = job["metadata"]["namespace"].as_str().unwrap_or_default();
        Some(explained(why, &job["spec"]["template"], home))
    }

    fn pods<'s>(&'s self, job: &'s Value) -> impl Iterator<Item = &'s Value> {
        let all = self.observed.objects.iter().filter(|(key, _)| key.kind == Kind::Pod).map(|(_, pod)| pod);
        let (name, uid) = (job["metadata"]["name"].as_str(), job["metadata"]["uid"].as_str());
        // Pods of an earlier Job of this name may not be gone yet.
        let is_its = move |pod: &Value| label(pod, CONTROLLER_UID).is_none_or(|of| Some(of) == uid);
        all.filter(move |pod| self.is_ours(pod) && label(pod, labels::JOB_NAME) == name && is_its(pod))
    }

    /// What its pods said, in the order of their ends; what proves something comes last.
    fn said(&self, job: &Value) -> Vec<Outcome> {
        let one = |pod: &Value| {
            let all = pod.pointer("/status/containerStatuses")?.as_array()?;
            let end = &all.iter().find(|c| c["name"] == CONTAINER)?["state"]["terminated"];
            let outcome: Outcome = serde_json::from_str(end["message"].as_str()?).ok()?;
            Some((!matches!(outcome, Outcome::Failed(_)), end["finishedAt"].as_str()?.to_owned(), outcome))
        };
        let mut said: Vec<_> = self.pods(job).filter_map(one).collect();
        said.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        said.into_iter().map(|(.., outcome)| outcome).collect()
    }
}

/// The reason that a condition has for it.
pub(crate) fn reason(failure: &Failure) -> Reason {
    match failure.at {
        At::Store => Reason::StoreUnavailable,
        At::Proof | At::Damaged => Reason::BackupNotProven,
        At::Etcd | At::Other => Reason::BackupFailed,
    }
}
