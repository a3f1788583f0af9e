//! The plan for an `AppInstallation`: a Job beside the tenant's control plane does what is asked for, and its pod's termination message
//! becomes the status. At rest there is no Job. What is asked for is on record before a Job is made for it.

mod deletion;
mod drift;
mod job;
mod status;
mod target;

#[cfg(test)]
pub(crate) mod tests;

use crate::requeue::{AT_REST, RUNNING, SLOW, WAITING};
use berth_api::app::{AppInstallationStatus, CheckStatus, phase};
use berth_api::apps::Outcome;
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::{AppInstallation, labels, names};
use berth_plan::backup_jobs::owner_labels;
use berth_plan::jobs::{self, JobKind, JobOwner};
use berth_plan::model::{Action, Plan, Stage, StageId, State};
use berth_plan::object_meta::{deleting, label, uid};
use berth_plan::requeue::SOON;
use berth_plan::{Input, Planner};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use job::Asked;
use std::ops::Deref;
use target::Tenant;

pub use job::chart;
pub use target::Target;

/// What the controller of the `Cluster` makes for an installation is there by then.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_mins(2);

/// What became of a Job.
type JobStatus = jobs::JobStatus<Outcome>;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct InstallationPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// What is asked for, and is to be on record.
    asked: Option<String>,
    /// A look for drift that is about to begin, and is to be on record.
    check: Option<CheckStatus>,
    /// What a Job came to.
    result: Option<JobResult>,
    /// The phase for people.
    phase: &'static str,
}

/// How a Job ended.
#[derive(Clone, Debug)]
struct JobResult {
    /// UID of the Job.
    job: String,
    /// What it was asked for.
    asked: String,
    /// Whether it looked for drift.
    is_check: bool,
    /// What came of it.
    outcome: Outcome,
}

/// An `AppInstallation` with what several steps need to know of it.
#[derive(Clone, Copy, Debug)]
struct InstallationInput<'a>(Input<'a, AppInstallation>);

impl<'a> Deref for InstallationInput<'a> {
    type Target = Input<'a, AppInstallation>;

    fn deref(&self) -> &Input<'a, AppInstallation> {
        &self.0
    }
}

impl<'a> InstallationInput<'a> {
    fn target(&self) -> Target {
        Target::from(self.0.object)
    }

    fn status(&self) -> AppInstallationStatus {
        self.0.object.status.clone().unwrap_or_default()
    }

    fn owner(&self) -> JobOwner<'a> {
        let kind = JobKind {
            container: "apps",
            component: names::APPS,
            known_by: owner_labels(Kind::AppInstallation),
            deadline: job::DEADLINE,
            outlasts: |_| false,
        };
        JobOwner::new(self.0, kind)
    }

    /// When a failed one is tried again.
    fn next_try(&self) -> Option<Timestamp> {
        let status = self.status();
        let failures = status.failures.filter(|failures| *failures > 0)?;
        let minutes = 1_i64 << (failures - 1).clamp(0, 5);
        status.failed_at?.0.checked_add(SignedDuration::from_mins(minutes.min(30))).ok()
    }

    /// Whether it has not been deployed for longer than what is on its way takes.
    fn has_waited(&self) -> bool {
        let status = self.status();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).filter(|ready| ready.status != "True");
        ready.is_some_and(|ready| self.now.duration_since(ready.last_transition_time.0) >= ON_ITS_WAY)
    }

    /// A pod of an earlier Job that may still be at work. Until it has ended, nobody may say that a release which is pending is nobody's.
    fn pod_left(&self) -> Option<&'a ObjectKey> {
        let owner = self.owner();
        let works =
            |pod: &serde_json::Value| !["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == **phase);
        let mut all = self.0.observed.objects.iter().filter(|(key, _)| key.kind == Kind::Pod);
        all.find(|(_, pod)| owner.is_ours(pod) && works(pod)).map(|(key, _)| key)
    }
}

/// Decides for an `AppInstallation`.
#[derive(Clone, Copy, Debug)]
pub struct InstallationPlanner;

impl Planner for InstallationPlanner {
    type Object = AppInstallation;
    type Planned = InstallationPlan;
    type Status = AppInstallationStatus;

    fn plan(input: Input<'_, AppInstallation>) -> InstallationPlan {
        let input = InstallationInput(input);
        let mut out = InstallationPlan::default();
        let id = if input.is_deleted() { StageId::Deletion } else { StageId::App };
        let mut stage = Stage::new(id, State::Ready);
        if input.is_deleted() {
            deletion::plan(input, &mut stage, &mut out);
        } else if is_orphan(input) {
            let own = ObjectKey::namespaced(Kind::AppInstallation, input.namespace(), input.name());
            let uid = input.uid().to_owned();
            stage.actions.push(Action::Delete { key: own, uid, grace: None });
            stage.state =
                State::waiting(format!("itself to be deleted: {} does not exist any more", input.target().app));
            (out.phase, out.requeue_after) = (phase::DELETING, Some(SOON));
        } else {
            deploy(input, &mut stage, &mut out);
        }
        if !stage.actions.is_empty() || out.result.is_some() {
            out.requeue_after = Some(SOON);
        }
        out.plan.stages.push(stage);
        out
    }

    fn outcome(planned: &InstallationPlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn status(
        input: Input<'_, AppInstallation>,
        planned: &InstallationPlan,
        failure: Option<&berth_plan::Failure>,
    ) -> AppInstallationStatus {
        status::status(InstallationInput(input), planned, failure)
    }
}

/// Its `App` is gone, or another one of that name.
fn is_orphan(input: InstallationInput<'_>) -> bool {
    input.observed.get(&input.target().app).is_none_or(|app| uid(app) != input.object.spec.app.uid)
}

/// One that is to be there.
fn deploy(input: InstallationInput<'_>, stage: &mut Stage, out: &mut InstallationPlan) {
    let job = input.target().job;
    stage.owns.push(job.clone());
    (out.phase, out.requeue_after) = (phase::WAITING, Some(WAITING));
    let status = input.status();
    let is_there = |asked: &Asked| {
        let said = |of: Option<&String>| of == Some(&asked.digest);
        said(status.asked.as_ref()) && said(status.release.as_ref().map(|there| &there.asked))
    };
    if let Some(state) = look_at_job(input, &job, stage, out, "its Job to install or upgrade it") {
        stage.state = state;
        // What is compared is there meanwhile.
        if input.owner().get(&job).is_some_and(drift::is_check) && asked(input).is_some_and(|asked| is_there(&asked)) {
            (stage.state, out.phase) = (State::Ready, phase::DEPLOYED);
        }
        return;
    }
    stage.state = match input.target().tenant(input.observed, &input.object.spec.cluster.uid) {
        // Its App, which sees that too, deletes it.
        Tenant::Gone => {
            let Target { app, cluster, .. } = input.target();
            State::waiting(format!("{app} to delete this: {cluster} is gone, or being deleted"))
        }
        Tenant::There { epoch, waits } => {
            let asked = job::deploy(input, epoch.unwrap_or_default());
            match (asked, waits) {
                (Ok(asked), waits) if is_there(&asked) => {
                    (out.phase, out.requeue_after) = (phase::DEPLOYED, Some(AT_REST));
                    drift::plan(input, &asked, waits.is_some(), stage, out);
                    State::Ready
                }
                // A tenant that sleeps may do so for weeks.
                (_, Some(state)) | (Err(state), None) => {
                    out.requeue_after = Some(if status.release.is_some() { SLOW } else { WAITING });
                    state
                }
                (Ok(asked), None) => begin(input, &asked, stage, out),
            }
        }
    };
    if stage.actions.is_empty() {
        // Keys are there while a Job runs, and for no longer.
        input.owner().clean_secret(stage, &job);
    }
}

/// What is asked of the tenant, as far as it can be said.
fn asked(input: InstallationInput<'_>) -> Option<Asked> {
    match input.target().tenant(input.observed, &input.object.spec.cluster.uid) {
        Tenant::There { epoch, .. } => job::deploy(input, epoch.unwrap_or_default()).ok(),
        Tenant::Gone => None,
    }
}

/// Looks after a Job that is there. None: there is none.
fn look_at_job(
    input: InstallationInput<'_>,
    job: &ObjectKey,
    stage: &mut Stage,
    out: &mut InstallationPlan,
    does: &str,
) -> Option<State> {
    let owner = input.owner();
    if let Some(live) = owner.get(job) {
        let is_recorded = input.status().job.as_deref() == Some(uid(live));
        let of = if drift::is_check(live) { labels::APP_CHECK_UID } else { labels::APP_INSTALLATION_UID };
        if is_recorded || deleting(live) || label(live, of) != Some(input.uid()) {
            owner.clean(stage, job);
            out.requeue_after = Some(SOON);
            return Some(State::waiting(format!("{job}, which is over, to be gone")));
        }
    }
    let is_check = owner.get(job).is_some_and(drift::is_check);
    let does = if is_check { "its Job to look for drift" } else { does };
    let outcome = match owner.status(job, does) {
        JobStatus::Absent => return None,
        JobStatus::Foreign(state) => return Some(state),
        JobStatus::Active(state) => {
            (out.phase, out.requeue_after) = (phase::RUNNING, Some(RUNNING));
            return Some(state);
        }
        JobStatus::Overdue(failure) | JobStatus::Failed(failure) => Outcome::Failed(failure),
        JobStatus::Complete(said) => *said,
    };
    let live = owner.get(job)?;
    let asked = label(live, labels::APP_ASKED).unwrap_or_default().to_owned();
    out.result = Some(JobResult { job: uid(live).to_owned(), asked, is_check, outcome });
    out.phase = phase::RUNNING;
    Some(State::waiting("its result to be recorded"))
}

/// One without a Job that needs one.
fn begin(input: InstallationInput<'_>, asked: &Asked, stage: &mut Stage, out: &mut InstallationPlan) -> State {
    let (owner, target, status) = (input.owner(), input.target(), input.status());
    if !input.settings.apps.are_enabled() {
        return State::blocked(
            Reason::NotAllowed,
            "the operator was started without an image for apps: set apps.image in the values of Berth's chart",
        );
    }
    if let (true, Some(at)) =
        (status.asked.as_ref() == Some(&asked.digest), input.next_try().filter(|at| *at > input.now))
    {
        out.phase = phase::FAILED;
        out.requeue_after = Some(at.duration_since(input.now).max(SOON));
        let why = status.message.unwrap_or_default();
        return State::Reported {
            reason: Reason::AppFailed,
            message: format!("{why}. It is tried again at {at}, or at once after a change"),
        };
    }
    out.requeue_after = Some(WAITING);
    // What takes a moment is a part of its turn: as one that waits it would leave its place, and its wave, to others.
    out.phase = phase::RUNNING;
    if input.observed.get(&target.policy()).is_none() {
        if input.has_waited() {
            out.phase = phase::WAITING;
        }
        return State::waiting(format!("{}, which lets its Job out", target.policy()));
    }
    if let Some(pod) = input.pod_left() {
        return State::waiting(format!("{pod} of an earlier Job to end"));
    }
    if status.asked.as_ref() != Some(&asked.digest) {
        out.asked = Some(asked.digest.clone());
        out.requeue_after = Some(SOON);
        return State::waiting("what is asked for to be recorded");
    }
    let created = owner.secret(&target.job, asked.entries(input)).and_then(|secret| {
        let shape = asked.shape(input, &target.job)?;
        owner.create(stage, shape, Some(secret))
    });
    created.unwrap_or_else(|state| state)
}
