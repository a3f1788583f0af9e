//! Judges the release in the spec.

use super::decide::{RollbackFacts, RollbackWrite, decide_rollback};
use super::fleet::hold_of_asked;
use super::issuers::{self, Issuers};
use super::progress;
use super::record::{self, Revision};
use super::refusal::{refusal, refuses_pods};
use super::rollout::Rollout;
use crate::audit;
use crate::ours::is_ours;
use crate::planned::Input;
use crate::release::{self, Canary};
use crate::subject::Tenant;
use berth_api::hibernation::SleepState;
use berth_api::revision::{Release, RevisionOutcome as Outcome};
use berth_plan::model::State;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

impl<'a> Rollout<'a> {
    /// From what is there. `t`: as the spec asks for it.
    /// `of_the_version`: what is wrong with that of the spec.
    pub(crate) fn judge(input: Input<'a>, t: &Tenant<'a>, of_the_version: Option<&State>) -> Self {
        let Input { object: cluster, observed, .. } = input;
        let is_up = cluster.metadata.deletion_timestamp.is_none() && t.live_namespace().is_some_and(is_ours);
        let known = observed.revisions_are_readable && is_up && !observed.denied;
        let all = if known { record::all(observed, &t.cp_namespace) } else { vec![] };
        let (asked, issuers) = asked(t, &all);
        let mut rollout = Self {
            input,
            cp_namespace: t.cp_namespace.clone(),
            known,
            all,
            wanted: asked.clone(),
            asked,
            issuers,
            former_copy: None,
            hold: None,
            refusal: None,
            adopts: None,
            roll: record::roll(cluster),
            judged: None,
            failure: None,
            canary: None,
        };
        let unrecorded = Release { audit_copy: None, ..rollout.asked.clone() };
        rollout.former_copy = audit::copy_of(t, &unrecorded, &rollout.copies());
        rollout.adopts = rollout.adopted(t);
        rollout.canary = rollout.canary(t);
        rollout.failure = rollout
            .all
            .last()
            .and_then(|newest| progress::failing(t, rollout.canary, (newest.number, rollout.asks_more_of_nodes())));
        rollout.judged = rollout.facts(t).map(|facts| (facts, decide_rollback(facts)));
        rollout.wait(t, of_the_version);
        rollout
    }

    /// Whether the newest release asks other things of nodes than the one to which it would go back.
    fn asks_more_of_nodes(&self) -> bool {
        let of = |revision: &Revision<'_>| {
            let release = revision.release()?;
            let (api, sizes) = (&release.api_server, revision.pin()?.sizes);
            Some((api.resources.clone(), api.placement.clone(), release.helper_resources.clone(), sizes))
        };
        self.all.last().and_then(of) != self.good().and_then(of)
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
        let failing = self.failure.as_ref().and_then(|failure| failure.component(t));
        Some(RollbackFacts {
            recorded: newest.status.outcome,
            same: newest.release() == Some(&self.wanted) && (self.stays() || !self.takes_other_templates(t)),
            asked_again: newest.is_asked_again(self.roll.as_ref()),
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

    /// With the templates that are taken up.
    fn adopting<'t>(&self, t: &Tenant<'t>) -> Tenant<'t> {
        let mut t = t.clone();
        t.release.next = self.adopts.clone().or(t.release.next);
        t
    }

    /// Where the release of the spec may not begin, or not yet, the newest one goes on as if the spec asked for it.
    fn wait(&mut self, t: &Tenant<'_>, of_the_version: Option<&State>) {
        let begins = self.judged.as_ref().is_some_and(|(_, next)| next.write == Some(RollbackWrite::Revision));
        let Some(newest) = self.all.last().and_then(|newest| newest.spec.clone()).filter(|_| begins) else { return };
        self.refusal = refusal(&self.adopting(t), of_the_version).or_else(|| self.issuers.refusal(&self.asked));
        self.hold = if self.refusal.is_none() { hold_of_asked(self, t) } else { None };
        if self.stays() {
            // How many there are of each does not wait, if so many may be. Of one that came back, the number is that of what runs.
            let scaled = newest.release.scaled_as(&self.asked);
            let is_back = self.all.last().is_some_and(|newest| newest.status.outcome == Some(Outcome::RolledBack));
            let sleeps = t.sleep.state() != SleepState::Awake;
            let stays = is_back || sleeps || refuses_pods(&scaled, t);
            self.issuers = issuers::of_newest(self.input.object, &self.all);
            (self.wanted, self.roll) = (if stays { newest.release } else { scaled }, newest.roll);
            self.judged = self.facts(t).map(|facts| (facts, decide_rollback(facts)));
        }
    }
}

/// The release of the spec, with what it is to run with beside that: the newest, where that is still right.
fn asked(t: &Tenant<'_>, all: &[Revision<'_>]) -> (Release, Issuers) {
    let with =
        |audit_copy| issuers::of_release(t.cluster, Release { audit_copy, ..Release::of(&t.cluster.spec) }, all, t.now);
    let newest = all.last().and_then(Revision::release).filter(|newest| audit::goes_on(t, newest));
    let same = newest.map(|newest| with(newest.audit_copy.clone())).filter(|(asked, _)| Some(asked) == newest);
    same.unwrap_or_else(|| with(audit::copy_of_next(t)))
}
