//! An `AppInstallation` as it was observed.

use super::target::Target;
use berth_api::app::{AppInstallationStatus, OnFailure};
use berth_api::apps::longest_job;
use berth_api::conditions::{self, ConditionType};
use berth_api::{AppInstallation, names};
use berth_plan::Input;
use berth_plan::backup_jobs::owner_labels;
use berth_plan::jobs::{JobKind, JobOwner};
use berth_plan::object_meta::deleting;
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::ops::Deref;

/// A pod that is there for so long after its grace is on a node that is down.
const STUCK: SignedDuration = SignedDuration::from_mins(1);
/// What the controller of the `Cluster` makes for an installation is there by then.
pub(super) const ON_ITS_WAY: SignedDuration = SignedDuration::from_mins(2);

/// An `AppInstallation` with what several steps need to know of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstallationInput<'a>(pub(super) Input<'a, AppInstallation>);

impl<'a> Deref for InstallationInput<'a> {
    type Target = Input<'a, AppInstallation>;

    fn deref(&self) -> &Input<'a, AppInstallation> {
        &self.0
    }
}

impl<'a> InstallationInput<'a> {
    pub(super) fn target(&self) -> Target {
        Target::from(self.0.object)
    }

    pub(super) fn status(&self) -> AppInstallationStatus {
        self.0.object.status.clone().unwrap_or_default()
    }

    pub(super) fn owner(&self) -> JobOwner<'a> {
        let kind = JobKind {
            container: "apps",
            component: names::APPS,
            known_by: owner_labels(Kind::AppInstallation),
            deadline: self.deadline().as_secs(),
            outlasts: |_| false,
        };
        JobOwner::new(self.0, kind)
    }

    /// Something of it could not be read, so nothing is decided: what is not seen is not gone. In a namespace that ends rights go before what they are for.
    pub(super) fn is_unseen(&self) -> bool {
        let home = self.0.observed.get(&self.target().namespace());
        self.0.observed.denied && !(self.0.is_deleted() && home.is_some_and(deleting))
    }

    /// Whether Helm sets a change back that fails.
    pub(super) fn rolls_back(&self) -> bool {
        self.0.object.spec.release.on_failure == OnFailure::Rollback
    }

    /// How long a Job may take with all its tries: less than its certificate lives.
    pub(super) fn deadline(&self) -> SignedDuration {
        SignedDuration::from_secs(longest_job(self.0.object.spec.release.timeout_seconds, self.rolls_back()))
    }

    /// When a failed one is tried again.
    pub(super) fn next_try(&self) -> Option<Timestamp> {
        let status = self.status();
        let failures = status.failures.filter(|failures| *failures > 0)?;
        let minutes = 1_i64 << (failures - 1).clamp(0, 5);
        // One that is ahead is of a clock that was set: it counts as now, which is on record then.
        status.failed_at?.0.min(self.now).checked_add(SignedDuration::from_mins(minutes.min(30))).ok()
    }

    /// Whether it has not been deployed for longer than what is on its way takes.
    pub(super) fn has_waited(&self) -> bool {
        let status = self.status();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).filter(|ready| ready.status != "True");
        ready.is_some_and(|ready| self.now.duration_since(ready.last_transition_time.0) >= ON_ITS_WAY)
    }

    /// A pod of an earlier Job that may still be at work. Until it has ended, nobody may say that a release which is pending is nobody's.
    pub(super) fn pod_left(&self) -> Option<PodLeft<'a>> {
        let owner = self.owner();
        let works = |pod: &Value| !["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == **phase);
        let mut all = self.0.observed.objects.iter().filter(|(key, _)| key.kind == Kind::Pod);
        let (key, pod) = all.find(|(_, pod)| owner.is_ours(pod) && works(pod))?;
        // It has the end of the pod's grace.
        let end: Option<Timestamp> = pod["metadata"]["deletionTimestamp"].as_str().and_then(|at| at.parse().ok());
        let overdue = end.filter(|end| self.now.duration_since(*end) >= STUCK);
        Some(PodLeft { key, overdue, node: pod["spec"]["nodeName"].as_str().unwrap_or_default() })
    }
}

/// A pod that may still be at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodLeft<'a> {
    key: &'a ObjectKey,
    /// When it was to be gone, if that is long ago: its node says nothing.
    overdue: Option<Timestamp>,
    node: &'a str,
}

impl PodLeft<'_> {
    /// What is waited for, for people. The name of the node is not the team's: the command says it to whoever may know.
    pub(super) fn awaited(&self) -> String {
        let Some(end) = self.overdue else { return format!("{} of an earlier Job to end", self.key) };
        let (home, name) = (self.key.namespace.as_deref().unwrap_or_default(), &self.key.name);
        format!(
            "{} of an earlier Job to end: it was to be gone by {end}, and its node does not say that it is. The platform team sees which node that is: kubectl -n {home} get pod {name} -o wide. If that machine is off, and only then, delete its Node, and Kubernetes deletes the pod",
            self.key
        )
    }

    /// What the platform team alone is told.
    pub(super) fn for_platform(&self) -> Option<String> {
        let (end, node) = (self.overdue?, self.node);
        Some(format!(
            "{} was to be gone by {end}, and node {node} does not say that it is. Confirm that this machine is off, and then: kubectl delete node {node}",
            self.key
        ))
    }
}
