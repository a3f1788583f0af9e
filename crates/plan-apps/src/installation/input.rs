//! An `AppInstallation` as it was observed.

use super::target::Target;
use berth_api::app::{AppInstallationStatus, OnFailure};
use berth_api::apps::longest_job;
use berth_api::conditions::{self, ConditionType};
use berth_api::{AppInstallation, names};
use berth_plan::Input;
use berth_plan::backup_jobs::owner_labels;
use berth_plan::jobs::{JobKind, JobOwner};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use std::ops::Deref;

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
        status.failed_at?.0.checked_add(SignedDuration::from_mins(minutes.min(30))).ok()
    }

    /// Whether it has not been deployed for longer than what is on its way takes.
    pub(super) fn has_waited(&self) -> bool {
        let status = self.status();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).filter(|ready| ready.status != "True");
        ready.is_some_and(|ready| self.now.duration_since(ready.last_transition_time.0) >= ON_ITS_WAY)
    }

    /// A pod of an earlier Job that may still be at work. Until it has ended, nobody may say that a release which is pending is nobody's.
    pub(super) fn pod_left(&self) -> Option<&'a ObjectKey> {
        let owner = self.owner();
        let works =
            |pod: &serde_json::Value| !["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == **phase);
        let mut all = self.0.observed.objects.iter().filter(|(key, _)| key.kind == Kind::Pod);
        all.find(|(_, pod)| owner.is_ours(pod) && works(pod)).map(|(key, _)| key)
    }
}
