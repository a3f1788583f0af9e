//! What people read of a release that failed.

use super::decide::RollbackWrite;
use super::nodes::Unplaced;
use super::progress::{self, Failure};
use super::record::Revision;
use super::rollout::Rollout;
use crate::components;
use crate::subject::Tenant;
use berth_api::conditions::Reason;
use berth_api::revision::{Release, RevisionOutcome as Outcome};
use berth_api::{Cluster, labels};
use berth_plan::model::{Plan, Stage, StageId, State};
use berth_plan::room::recorded_without_nodes;

fn version<'a>(revision: &'a Revision<'_>) -> &'a str {
    revision.version().map_or("?", String::as_str)
}

/// What is recorded as the cause of an outcome.
pub(super) fn why(rollout: &Rollout<'_>, t: &Tenant<'_>, plan: &Plan, outcome: Outcome) -> Option<String> {
    if !matches!(outcome, Outcome::RolledBack | Outcome::Held) {
        return None;
    }
    let soak = &t.cluster.spec.upgrade.soak;
    let mut stages = components::ALL.iter().filter_map(|c| plan.stage(StageId::ControlPlane(c.binary)));
    let what = stages.find_map(Stage::sentence).or_else(|| plan.first_problem());
    let what = what.map_or_else(|| "the API does not answer".to_owned(), |(_, text)| text);
    let deadline = &t.cluster.spec.upgrade.progress_deadline;
    let failed = match &rollout.failure {
        Some(Failure::Canary(pod)) => {
            format!("pod {pod}, the first new kube-apiserver, became unready within {soak} (spec.upgrade.soak): {what}")
        }
        Some(Failure::Answers(why)) => why.clone(),
        Some(Failure::Unplaced(Unplaced { pod, why, .. })) => {
            format!("no node took pod {pod} for 30 s, and no other API server served: {why}")
        }
        _ => format!("no progress for {deadline} (spec.upgrade.progressDeadline): {what}"),
    };
    if outcome == Outcome::RolledBack {
        return Some(failed);
    }
    let (facts, _) = rollout.judged.as_ref()?;
    let why = if !facts.goes_back {
        "spec.upgrade.onFailure is Hold".to_owned()
    } else if let Some(why) = rollout.no_way_back(t) {
        why
    } else if !progress::rest_is_well(t) {
        "etcd has no quorum, or the operator's clock is wrong".to_owned()
    } else if matches!(rollout.failure, Some(Failure::Stuck)) {
        "no pod of it fails".to_owned()
    } else {
        "its old pods are not well, either".to_owned()
    };
    Some(format!("{failed}. No rollback: {why}"))
}

fn message(revision: &Revision<'_>) -> String {
    recorded_without_nodes(revision.status.message.as_deref().unwrap_or("?")).trim_end_matches('.').to_owned()
}

/// Of one that was taken back.
pub(super) fn rolled_back(cluster: &Cluster, newest: &Revision<'_>, good: &Revision<'_>) -> State {
    let meta = &cluster.metadata;
    let (name, namespace) = (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
    let again = roll_value(newest, meta.generation.unwrap_or_default());
    if newest.is_by_templates() {
        return State::blocked(
            Reason::RolledBack,
            format!(
                "revision {}, newer templates of {}, failed and was rolled back to revision {}: {}. To keep the old templates, set spec.upgrade.templates to WithVersion. Or retry the newer ones: kubectl annotate clusters.berth.dev {name} -n {namespace} {}={again} --overwrite",
                newest.number,
                version(newest),
                good.number,
                message(newest),
                labels::ROLL,
            ),
        );
    }
    if let Some(secret) = only_secret(good, newest) {
        return State::blocked(
            Reason::RolledBack,
            format!(
                "revision {}, with what Secret {namespace}/{secret} says since (spec.apiServer.audit.webhook.secretRef), failed and was rolled back to revision {}: {}. API servers go on with what it said before. Correct the Secret. Or retry: kubectl annotate clusters.berth.dev {name} -n {namespace} {}={again} --overwrite",
                newest.number,
                good.number,
                message(newest),
                labels::ROLL,
            ),
        );
    }
    State::blocked(
        Reason::RolledBack,
        format!(
            "revision {} ({}) of the spec failed and was rolled back to revision {} ({}): {}. Correct the spec. Or set what runs: kubectl berth rollback {name} -n {namespace}. Or retry: kubectl annotate clusters.berth.dev {name} -n {namespace} {}={again} --overwrite",
            newest.number,
            version(newest),
            good.number,
            version(good),
            message(newest),
            labels::ROLL,
        ),
    )
}

/// The Secret of an audit webhook, if what it says is all in which they differ.
fn only_secret<'a>(good: &Revision<'_>, newest: &'a Revision<'_>) -> Option<&'a str> {
    let (good, newest) = (good.release()?, newest.release()?);
    let same = Release { audit_copy: good.audit_copy.clone(), ..newest.clone() } == *good;
    let webhook = newest.api_server.audit.webhook.as_ref().filter(|_| same && newest != good)?;
    Some(&webhook.secret_ref.name)
}

/// The value of the annotation that asks once more: another one than asked for this.
fn roll_value(newest: &Revision<'_>, generation: i64) -> String {
    match newest.spec.as_ref().and_then(|spec| spec.roll.as_deref()) {
        Some(roll) if roll.split('-').next() == Some(&generation.to_string()) => {
            format!("{generation}-{}", newest.number)
        }
        _ => generation.to_string(),
    }
}

/// Of one that is held.
pub(super) fn held(cluster: &Cluster, newest: &Revision<'_>) -> State {
    let meta = &cluster.metadata;
    let (name, namespace) = (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
    State::blocked(
        Reason::Held,
        format!(
            "revision {} ({}) of the spec failed: {}. What runs stays. Correct the cause, and the rollout continues; or set an earlier release: kubectl berth rollback {name} -n {namespace}",
            newest.number,
            version(newest),
            message(newest),
        ),
    )
}

impl Rollout<'_> {
    /// What the spec's stage says of a release that failed.
    pub(crate) fn state(&self) -> Option<State> {
        let (facts, next) = self.judged.as_ref().filter(|_| self.hold.is_none())?;
        let newest = self.all.last()?;
        if let Some(good) = self.back_to() {
            return Some(rolled_back(self.input.object, newest, good));
        }
        let is_held =
            facts.recorded == Some(Outcome::Held) && next.write != Some(RollbackWrite::Revision) && facts.same;
        is_held.then(|| held(self.input.object, newest))
    }
}
