//! What is to be recorded of releases.

use super::decide::{RollbackFacts, RollbackNext, RollbackWrite, decide_rollback};
use super::progress::Target;
use super::record::{self, Revision};
use super::rollout::Rollout;
use super::{progress, say};
use crate::ours::ensure_manifest;
use crate::planned::ClusterPlan;
use crate::release;
use crate::subject::Tenant;
use berth_api::revision::{ClusterRevisionSpec, ClusterRevisionStatus, RevisionCause, RevisionOutcome as Outcome};
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::objects::owner_references::has_owner;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

impl Rollout<'_> {
    /// Puts into the plan what is to be recorded, how far the rollout is, and when that is looked at again.
    pub(crate) fn record(&self, t: &Tenant<'_>, out: &mut ClusterPlan, refused: bool) {
        if !self.known {
            return;
        }
        let through = progress::is_through(t, &out.plan);
        let writes = match (&self.judged, self.all.last()) {
            (Some((facts, _)), Some(newest)) => {
                let soaked = progress::soaked(t, newest.number);
                let next = decide_rollback(RollbackFacts { through, soaked: through && soaked, ..*facts });
                // A minor's second step is watched, too, though nothing goes back in it.
                let second = t.live_namespace().is_some_and(release::is_in_second_step) && t.release.change.is_some();
                let watched = !refused && (open(next, *facts) || (second && next.write.is_none()));
                out.rollout = watched.then(|| progress::now(t, self.target(newest), self.canary, through));
                match next.write {
                    Some(RollbackWrite::Revision) if !refused => self.begin(t, newest),
                    Some(RollbackWrite::Outcome(outcome)) => {
                        let message = say::why(self, t, &out.plan, outcome);
                        vec![newest.with(t.cluster, &status(t, &newest.status, outcome, message))]
                    }
                    _ => vec![],
                }
            }
            // Of a tenant that is being made, nothing is there to go back to.
            _ if through && !refused => vec![self.first(t)],
            _ => vec![],
        };
        out.due = [out.due, progress::due(t, self.canary, out.rollout.as_ref())].into_iter().flatten().min();
        let repairs = self.all.iter().filter(|revision| !revision.is_labelled(t.cluster));
        let repairs: Vec<_> = repairs.map(|revision| revision.with(t.cluster, &revision.status)).collect();
        let mut stage = Stage::new(StageId::Revision, State::Ready);
        let owned = self.all.iter().filter(|revision| has_owner(revision.live));
        stage.actions.extend(owned.map(|revision| Action::clear_owner_references(revision.key, revision.live)));
        // Of one that is written anyway, the labels are right then.
        for object in if writes.is_empty() { repairs } else { writes } {
            ensure_manifest(&mut stage, t.observed, object);
        }
        if stage.actions.is_empty() && stage.state.is_done() {
            return;
        }
        let after = out.plan.stages.iter().position(|stage| stage.id == StageId::Namespace).map_or(0, |at| at + 1);
        out.plan.stages.insert(after, stage);
    }

    fn target(&self, newest: &Revision<'_>) -> Target {
        let from = self.good().and_then(|good| Some(good.release()?.version.clone()));
        Target { revision: newest.number, from, to: self.wanted.version.clone() }
    }

    /// The first revision of a tenant, which is up.
    fn first(&self, t: &Tenant<'_>) -> Value {
        let spec = ClusterRevisionSpec { cause: RevisionCause::Creation, roll: None, ..self.spec(t) };
        record::new(t.cluster, &self.cp_namespace, &spec, &status(t, &started(t), Outcome::Succeeded, None))
    }

    /// A new one, and before that the end of the one that did not come to one.
    fn begin(&self, t: &Tenant<'_>, newest: &Revision<'_>) -> Vec<Value> {
        let ended = newest.status.outcome.is_none_or(|outcome| outcome == Outcome::Held).then(|| {
            let message = newest.status.message.clone();
            newest.with(t.cluster, &status(t, &newest.status, Outcome::Superseded, message))
        });
        let status = ClusterRevisionStatus { unwell: !progress::is_well(t), ..started(t) };
        let new = record::new(t.cluster, &self.cp_namespace, &self.spec(t), &status);
        ended.into_iter().chain([new]).collect()
    }

    fn spec(&self, t: &Tenant<'_>) -> ClusterRevisionSpec {
        ClusterRevisionSpec {
            number: self.next_number(),
            cause: self.cause(),
            change_cause: record::change_cause(self.input.object),
            roll: self.roll.clone(),
            skip_checks: t.cluster.spec.upgrade.skip_checks.clone(),
            release: self.wanted.clone(),
            pin: t.release.wanted_pin(),
            kept_issuers: self.issuers.kept.clone(),
            listed_issuers: self.issuers.listed.clone(),
        }
    }
}

/// Whether it is being rolled out.
fn open(next: RollbackNext, facts: RollbackFacts) -> bool {
    let ends = matches!(next.write, Some(RollbackWrite::Revision | RollbackWrite::Outcome(_)));
    !ends && facts.same && !matches!(facts.recorded, Some(Outcome::Succeeded | Outcome::RolledBack))
}

fn started(t: &Tenant<'_>) -> ClusterRevisionStatus {
    ClusterRevisionStatus { started: Some(Time(t.now)), ..ClusterRevisionStatus::default() }
}

fn status(
    t: &Tenant<'_>,
    old: &ClusterRevisionStatus,
    outcome: Outcome,
    message: Option<String>,
) -> ClusterRevisionStatus {
    let message = message.map(|message| record::short(&message));
    ClusterRevisionStatus { outcome: Some(outcome), since: Some(Time(t.now)), message, ..old.clone() }
}
