//! Releases: the part of a `Cluster`'s spec that runs, each recorded as a `ClusterRevision`; and the way back to the last good one.
//!
//! When a release does not come up, the plan is made as if the spec asked for the last one that succeeded ([`Rollout::cluster`]): all that
//! holds for a person who sets it back, such as the order of a minor, holds for Berth. The spec itself is left alone.

mod canary;
mod decide;
mod fleet;
mod progress;
mod record;
mod refusal;
mod say;
mod templates;

use super::ours::{ensure, is_ours};
use super::record::Pin;
use super::release::{self, Canary};
use super::subject::Tenant;
use super::turn::Hold;
use super::{ClusterPlan, Input};
use berth_api::cluster::{Cluster, RevisionSummary};
use berth_api::names;
use berth_api::revision::{
    ClusterRevisionSpec, ClusterRevisionStatus, Release, RevisionCause, RevisionOutcome as Outcome, RevisionPin,
};
use berth_api::version::Version;
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::objects::owner_references::has_owner;
use berth_plan::observed::Observed;
use berth_render::{Kind, Object, ObjectKey};
use decide::{RollbackFacts, RollbackNext, RollbackWrite, Runs, decide_rollback};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use progress::Failure;
use record::Revision;
pub(super) use record::roll;

/// What becomes of the release in the spec.
#[derive(Debug)]
pub(super) struct Rollout<'a> {
    input: Input<'a>,
    cp_namespace: String,
    /// `ClusterRevision`s can be read, and there is a namespace for them.
    known: bool,
    /// All there are, the oldest first.
    all: Vec<Revision<'a>>,
    /// What is to run: the release of the spec, or the newest one while that has to wait.
    wanted: Release,
    /// That of the spec.
    asked: Release,
    /// Why that does not begin yet.
    hold: Option<Hold>,
    /// Why nothing of that begins, and nothing is waited for.
    refusal: Option<State>,
    /// The annotation that asks once more.
    roll: Option<String>,
    /// Newer templates that are taken up, or are to be, by `spec.upgrade.templates`.
    adopts: Option<Pin>,
    /// None: nothing is recorded yet.
    judged: Option<(RollbackFacts, RollbackNext)>,
    /// What it fails by.
    failure: Option<Failure>,
    /// What is asked of its first new API server, while it is rolled out.
    pub(super) canary: Option<Canary>,
}

impl<'a> Rollout<'a> {
    pub(super) fn judge(input: Input<'a>) -> Self {
        let Input { object: cluster, observed, .. } = input;
        let t = Tenant::new(input);
        let is_up = cluster.metadata.deletion_timestamp.is_none() && t.live_namespace().is_some_and(is_ours);
        let known = observed.revisions_are_readable && is_up && !observed.denied;
        let mut rollout = Self {
            input,
            cp_namespace: t.cp_namespace.clone(),
            known,
            all: if known { record::all(observed, &t.cp_namespace) } else { vec![] },
            wanted: Release::of(&cluster.spec),
            asked: Release::of(&cluster.spec),
            hold: None,
            refusal: None,
            adopts: None,
            roll: record::roll(cluster),
            judged: None,
            failure: None,
            canary: None,
        };
        rollout.adopts = rollout.adopted(&t);
        rollout.canary = rollout.canary(&t);
        rollout.failure = rollout.all.last().and_then(|newest| progress::failing(&t, rollout.canary, newest.number));
        rollout.judged = rollout.facts(&t).map(|facts| (facts, decide_rollback(facts)));
        rollout.wait(&t);
        rollout
    }

    /// The canary of a release that is rolled out. A minor's second step has none: there is nothing to go back to.
    fn canary(&self, t: &Tenant<'_>) -> Option<Canary> {
        let newest = self.all.last()?;
        let ended = matches!(newest.status.outcome, Some(Outcome::Succeeded | Outcome::RolledBack));
        let Time(started) = newest.status.started.as_ref().filter(|_| !ended)?;
        let soak = progress::soak(t);
        let second = || release::is_in_second_step(t.live_namespace()?).then_some(());
        (soak.is_positive() && second().is_none()).then_some(Canary { soak, started: *started })
    }

    fn facts(&self, t: &Tenant<'_>) -> Option<RollbackFacts> {
        let newest = self.all.last()?;
        let failing = self.failure.as_ref().and_then(Failure::component);
        Some(RollbackFacts {
            recorded: newest.status.outcome,
            same: newest.release() == Some(&self.wanted) && (self.stays() || !self.takes_other_templates(t)),
            asked_again: self.roll.is_some() && newest.spec.as_ref().is_some_and(|spec| spec.roll != self.roll),
            paused: t.stands_still(),
            through: false,
            soaked: false,
            late: self.failure.is_some(),
            goes_back: progress::goes_back(t),
            old_well: failing.is_some_and(|component| progress::old_are_well(t, component)),
            rest_well: progress::rest_is_well(t),
            way_back: self.no_way_back(t).is_none(),
        })
    }

    /// The last release that succeeded, before the newest.
    fn good(&self) -> Option<&Revision<'a>> {
        let (_, before) = self.all.split_last()?;
        before.iter().rev().find(|revision| revision.succeeded())
    }

    /// Why no other release can run.
    fn no_way_back(&self, t: &Tenant<'_>) -> Option<String> {
        let Some(good) = self.good() else { return Some("no other release that succeeded is recorded".into()) };
        let pin = good.pin().unwrap_or_default();
        let version: Option<Version> = good.release().and_then(|release| release.version.parse().ok());
        let served = t.live_namespace().and_then(release::served);
        match version {
            Some(version) if Some(version.minor()) < served => Some(format!(
                "{} counts as served, and etcd may hold what {version} cannot read",
                served.unwrap_or_default()
            )),
            Some(_) if t.templates_of(&pin).is_some() => None,
            _ => Some(format!("the templates of {} are not at hand", good.key)),
        }
    }

    /// The release that is gone back to, if it is.
    fn back_to(&self) -> Option<&Revision<'a>> {
        let (_, next) = self.judged.as_ref()?;
        self.good().filter(|_| next.runs == Runs::Good)
    }

    /// The `Cluster` that the plan is made for, if that is not the one that was read.
    pub(super) fn cluster(&self) -> Option<Cluster> {
        let waits = || self.stays().then_some(&self.wanted);
        self.back_to().and_then(Revision::release).or_else(waits).map(|release| release.put_into(self.input.object))
    }

    /// The release that a person goes back to. What is pinned already stays as it is.
    fn back_by_hand(&self, t: &Tenant<'_>, pin: &Pin) -> Option<&Revision<'a>> {
        if t.live_namespace().and_then(super::record::pin).is_none_or(|pinned| pinned.version == pin.version) {
            return None;
        }
        let is_wanted = |revision: &&Revision<'_>| revision.release() == Some(&self.wanted);
        let mut before = self.all.iter().rev().filter(|r| r.succeeded() && self.is_way_back());
        before.find(is_wanted).filter(|r| r.pin().is_some_and(|was| t.templates_of(&was).is_some()))
    }

    /// What changes of what runs wait for. `refused`: the release of the spec is, so it is not recorded.
    pub(super) fn awaits(&self, refused: bool) -> Option<String> {
        let (_, next) = self.judged.as_ref().filter(|_| !refused)?;
        (next.write == Some(RollbackWrite::Revision))
            .then(|| format!("{} to be recorded", self.key(self.next_number())))
    }

    /// What the spec's stage says of a release that failed.
    pub(super) fn state(&self) -> Option<State> {
        let (facts, next) = self.judged.as_ref().filter(|_| self.hold.is_none())?;
        let newest = self.all.last()?;
        if let Some(good) = self.back_to() {
            return Some(say::rolled_back(self.input.object, newest, good));
        }
        let is_held =
            facts.recorded == Some(Outcome::Held) && next.write != Some(RollbackWrite::Revision) && facts.same;
        is_held.then(|| say::held(self.input.object, newest))
    }

    fn next_number(&self) -> i64 {
        self.all.last().map_or(1, |newest| newest.number + 1)
    }

    fn key(&self, number: i64) -> ObjectKey {
        ObjectKey::namespaced(Kind::ClusterRevision, self.cp_namespace.clone(), names::revision(number))
    }

    /// Puts into the plan what is to be recorded, how far the rollout is, and when that is looked at again.
    pub(super) fn record(&self, t: &Tenant<'_>, out: &mut ClusterPlan, refused: bool) {
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
                out.rollout = watched.then(|| progress::now(self, t, newest, through));
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
            match Object::new(object) {
                Ok(object) => ensure(&mut stage, t.observed, object),
                Err(error) => stage.state = State::blocked(berth_api::conditions::Reason::Error, error),
            }
        }
        if stage.actions.is_empty() && stage.state.is_done() {
            return;
        }
        let after = out.plan.stages.iter().position(|stage| stage.id == StageId::Namespace).map_or(0, |at| at + 1);
        out.plan.stages.insert(after, stage);
    }

    /// The first revision of a tenant, which is up.
    fn first(&self, t: &Tenant<'_>) -> serde_json::Value {
        let spec = ClusterRevisionSpec { cause: RevisionCause::Creation, roll: None, ..self.spec(t) };
        record::new(t.cluster, &self.cp_namespace, &spec, &status(t, &started(t), Outcome::Succeeded, None))
    }

    /// A new one, and before that the end of the one that did not come to one.
    fn begin(&self, t: &Tenant<'_>, newest: &Revision<'_>) -> Vec<serde_json::Value> {
        let ended = newest.status.outcome.is_none_or(|outcome| outcome == Outcome::Held).then(|| {
            let message = newest.status.message.clone();
            newest.with(t.cluster, &status(t, &newest.status, Outcome::Superseded, message))
        });
        let status = ClusterRevisionStatus { unwell: !progress::is_well(t), ..started(t) };
        let new = record::new(t.cluster, &self.cp_namespace, &self.spec(t), &status);
        ended.into_iter().chain([new]).collect()
    }

    fn spec(&self, t: &Tenant<'_>) -> ClusterRevisionSpec {
        let Pin { version, templates, agent_image, agent_delivery } = t.release.wanted_pin();
        ClusterRevisionSpec {
            number: self.next_number(),
            cause: self.cause(),
            change_cause: record::change_cause(self.input.object),
            roll: self.roll.clone(),
            skip_checks: t.cluster.spec.upgrade.skip_checks.clone(),
            release: self.wanted.clone(),
            pin: RevisionPin { version, templates, agent_image, agent_delivery },
        }
    }

    /// Revisions that nobody needs any more.
    pub(super) fn surplus(&self) -> Vec<Action> {
        let kept = self.all.len().saturating_sub(record::KEPT);
        let (old, _) = self.all.split_at(kept);
        let good = self.all.iter().rev().find(|revision| revision.succeeded()).map(|revision| revision.number);
        let good_before = self.good().map(|revision| revision.number);
        old.iter()
            .filter(|revision| ![good, good_before].contains(&Some(revision.number)))
            .map(|revision| Action::delete(revision.key, revision.live, None))
            .collect()
    }

    /// The ConfigMaps with templates of the releases that Berth may go back to.
    pub(super) fn templates(&self) -> Vec<ObjectKey> {
        let kept = self.all.iter().filter(|revision| revision.succeeded());
        let digests = kept.filter_map(|revision| Some(&revision.spec.as_ref()?.pin.templates));
        let mut names: Vec<String> = digests.map(|digest| names::templates(digest)).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| ObjectKey::namespaced(Kind::ConfigMap, self.cp_namespace.clone(), name)).collect()
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

/// The last releases in short, the newest first. None: they were not read.
pub(super) fn history(observed: &Observed, cp_namespace: &str) -> Option<Vec<RevisionSummary>> {
    let summary = |revision: &Revision<'_>| {
        let spec = revision.spec.as_ref()?;
        Some(RevisionSummary {
            revision: revision.number,
            version: spec.release.version.clone(),
            cause: spec.cause,
            change_cause: spec.change_cause.clone(),
            outcome: revision.status.outcome,
            started: revision.status.started.clone(),
        })
    };
    let all = observed.revisions_are_readable.then(|| record::all(observed, cp_namespace))?;
    Some(all.iter().rev().take(record::KEPT).filter_map(summary).collect())
}

/// Digests of the templates that the plan may need beside those that a tenant is pinned to: of the newest release, and of those that it may
/// go back to.
pub fn revision_templates(observed: &Observed, cp_namespace: &str) -> Vec<String> {
    let all = record::all(observed, cp_namespace);
    let good = all.iter().rev().filter(|revision| revision.succeeded()).take(2);
    let digest = |revision: &Revision<'_>| Some(revision.spec.as_ref()?.pin.templates.clone());
    // The newest is rendered with what it began with, whatever operator goes on.
    let mut digests: Vec<String> = all.last().into_iter().chain(good).filter_map(digest).collect();
    let mut seen = std::collections::BTreeSet::new();
    digests.retain(|digest| seen.insert(digest.clone()));
    digests
}
