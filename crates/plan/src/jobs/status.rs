//! How a Job goes, and how it ended.

use super::JobOwner;
use crate::backup_jobs::{age, condition};
use crate::model::State;
use crate::object_meta::label;
use crate::objects::foreign;
use crate::workload::{explained, pod_problem};
use berth_api::conditions::Reason;
use berth_api::jobs::{Failure, Said};
use berth_api::labels;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Label of a Job's pods with its UID.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// How long after its deadline a Job may take to say how it ended.
const GRACE: i64 = 600;

/// What became of a Job.
#[derive(Clone, Debug)]
pub enum JobStatus<S: Said> {
    /// There is none.
    Absent,
    /// One of this name is not Berth's.
    Foreign(State),
    /// It is at work, or tries again.
    Active(State),
    /// It has not ended by its deadline, so it is given up.
    Overdue(Failure<S::At>),
    /// It does not try again.
    Failed(Failure<S::At>),
    /// It did what it was to do, and said this.
    Complete(Box<S>),
}

/// How one ended.
type Ended<S> = Result<S, Failure<<S as Said>::At>>;

fn failed<S: Said>(message: String) -> Failure<S::At> {
    Failure { at: S::At::default(), message }
}

impl JobOwner<'_> {
    /// What became of a Job. `does`: what is waited for, for people.
    pub fn status<S: Said>(&self, key: &ObjectKey, does: &str) -> JobStatus<S> {
        let Some(job) = self.observed.get(key) else { return JobStatus::Absent };
        if !self.is_ours(job) {
            return JobStatus::Foreign(foreign(key));
        }
        match self.outcome(job) {
            Some(Err(failure)) => JobStatus::Failed(failure),
            Some(Ok(said)) => JobStatus::Complete(Box::new(said)),
            None => self
                .overdue::<S>(key, job)
                .map_or_else(|| JobStatus::Active(self.progress::<S>(job, does)), JobStatus::Overdue),
        }
    }

    /// How it ended, once the Job does not try again.
    fn outcome<S: Said>(&self, job: &Value) -> Option<Ended<S>> {
        let said = self.said::<S>(job);
        if let Some(done) = said.last().filter(|said| said.failure().is_none()) {
            return Some(Ok(done.clone()));
        }
        if let Some(condition) = condition(job, "Failed") {
            let why = condition["message"].as_str().unwrap_or("no message");
            let refused = self.refused(job).map(|why| format!("; it had no pod: {why}")).unwrap_or_default();
            let last = said.last().and_then(|said| said.failure().cloned());
            return Some(Err(last.unwrap_or_else(|| failed::<S>(format!("its Job failed: {why}{refused}")))));
        }
        // It did its work, and nobody knows what: the pod was deleted before it was looked at.
        condition(job, "Complete").map(|_| Err(failed::<S>("its Job's pod is gone, and with it the result".into())))
    }

    /// How one ends that has not ended by its deadline: nobody counts its time, or `spec.suspend` stopped it.
    fn overdue<S: Said>(&self, key: &ObjectKey, job: &Value) -> Option<Failure<S::At>> {
        // Its own: that of the kind may follow a field that was changed since.
        let deadline = job["spec"]["activeDeadlineSeconds"].as_i64().unwrap_or(self.kind.deadline);
        // What the clock was set by is no time that passed.
        let since_set = self.observed.meta.clock_set.map(|set| self.now.duration_since(set));
        let age = since_set.map_or_else(|| age(job, self.now), |since| age(job, self.now).min(since));
        // One that writes to a member's volume may do so still, whoever gives it up.
        if age.as_secs() < deadline + GRACE || (self.kind.outlasts)(job) {
            return None;
        }
        Some(failed::<S>(format!(
            "{key} has not ended {} minutes after its creation, though it has a deadline of {} (spec.activeDeadlineSeconds), so Berth gives it up. If its spec.suspend is not true, check that kube-controller-manager runs",
            (deadline + GRACE) / 60,
            deadline / 60
        )))
    }

    /// What it is doing, for people.
    fn progress<S: Said>(&self, job: &Value, does: &str) -> State {
        let problem = self.pods(job).filter(|pod| pod["status"]["phase"] == "Pending").find_map(pod_problem);
        if let Some((reason, on)) = problem {
            return State::Waiting { reason, on };
        }
        if let Some(why) = self.refused(job) {
            let on = format!(
                "a pod of its Job, which the API server refuses: {why}. Once that is allowed, Kubernetes makes one by itself, until the Job's deadline of {} minutes",
                self.kind.deadline / 60
            );
            return State::Waiting { reason: Reason::Rejected, on };
        }
        match self.said::<S>(job).last().and_then(Said::failure) {
            Some(failure) => State::waiting(format!("a retry of its Job; the last error: {}", failure.message)),
            None => State::waiting(does),
        }
    }

    /// Whether none of its pods has begun.
    pub fn is_starting(&self, job: &Value) -> bool {
        self.pods(job).all(|pod| pod["status"]["phase"] == "Pending")
    }

    /// Whether pods of a Job are there.
    pub fn has_pods(&self, key: &ObjectKey) -> bool {
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
    fn said<S: Said>(&self, job: &Value) -> Vec<S> {
        let one = |pod: &Value| {
            let all = pod.pointer("/status/containerStatuses")?.as_array()?;
            let end = &all.iter().find(|c| c["name"] == self.kind.container)?["state"]["terminated"];
            let said: S = serde_json::from_str(end["message"].as_str()?).ok()?;
            Some((said.failure().is_none(), end["finishedAt"].as_str()?.to_owned(), said))
        };
        let mut said: Vec<_> = self.pods(job).filter_map(one).collect();
        said.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        said.into_iter().map(|(.., said)| said).collect()
    }
}
