//! What the order of the fleet asks of a tenant's releases.

use super::decide::RollbackWrite;
use super::record::{self, Revision};
use super::rollout::Rollout;
use crate::subject::Tenant;
use crate::turn::{Hold, asleep, target_of_templates, turn, window};
use berth_api::revision::{Release, RevisionOutcome as Outcome};
use berth_api::version::Version;
use berth_plan::model::State;

/// What a turn leads to: the version; or, where that stays and the templates change, both.
fn target(revision: &Revision<'_>) -> Option<String> {
    let (version, spec) = (revision.version()?, revision.spec.as_ref()?);
    Some(if revision.is_by_templates() { target_of_templates(version, &spec.pin) } else { version.clone() })
}

/// They differ in nothing but the version. An earlier build recorded no copy of an audit webhook's Secret.
fn only_version(before: &Revision<'_>, after: &Revision<'_>) -> bool {
    let (Some(before), Some(after)) = (before.release(), after.release()) else { return false };
    let audit_copy = before.audit_copy.as_ref().and(after.audit_copy.clone());
    Release { version: before.version.clone(), audit_copy, ..after.clone() } == *before
}

impl<'a> Rollout<'a> {
    /// The newest release goes on, whatever the spec asks for.
    pub(super) fn stays(&self) -> bool {
        self.hold.is_some() || self.refusal.is_some()
    }

    /// Why nothing begins of the release that the spec asks for. A release is one thing: where its version is refused, so are its flags.
    pub(crate) fn refusal(&self) -> Option<&State> {
        self.refusal.as_ref()
    }

    /// The newest is rolled out.
    pub(crate) fn newest_rolls(&self) -> bool {
        self.all.last().is_some_and(|newest| newest.status.outcome.is_none())
    }

    /// A release is recorded by this plan.
    pub(crate) fn begins(&self) -> bool {
        self.judged.as_ref().is_some_and(|(_, next)| next.write == Some(RollbackWrite::Revision))
    }

    /// Why the release of the spec does not begin.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// The release of the spec.
    pub(crate) fn asked(&self) -> &Release {
        &self.asked
    }

    /// The revision that runs, or is rolled out.
    fn runs(&self) -> Option<&Revision<'a>> {
        let newest = self.all.last()?;
        if newest.status.outcome == Some(Outcome::RolledBack) { self.good().or(Some(newest)) } else { Some(newest) }
    }

    pub(crate) fn runs_version(&self) -> Option<&String> {
        self.runs()?.version()
    }

    pub(crate) fn runs_target(&self) -> Option<String> {
        target(self.runs()?)
    }

    /// What it takes a turn for, of what the spec asks for.
    pub(crate) fn turn_to(&self) -> Option<String> {
        let templates = self.adopts.as_ref().map(|pin| target_of_templates(&self.asked.version, pin));
        templates.or_else(|| self.changes_version().then(|| self.asked.version.clone()))
    }

    /// Newer templates are, or are to be, taken up.
    pub(crate) fn adopts(&self) -> bool {
        self.adopts.is_some()
    }

    pub(crate) fn newest_target(&self) -> Option<String> {
        target(self.all.last()?)
    }

    pub(crate) fn newest_version(&self) -> Option<&String> {
        self.all.last()?.version()
    }

    /// The spec asks for another version than runs, and that is no way back.
    pub(crate) fn changes_version(&self) -> bool {
        let (Some(newest), Some(runs)) = (self.all.last(), self.runs_version()) else { return false };
        let asked = &self.asked.version;
        let again = self.stays() || self.judged.as_ref().is_some_and(|(facts, _)| facts.asked_again);
        let is_wish = newest.release() != Some(&self.asked) || again;
        is_wish && asked != runs && !self.is_way_back()
    }

    /// The spec asks for what runs, with another number of pods.
    pub(crate) fn is_scale(&self) -> bool {
        let runs = self.runs().and_then(Revision::release);
        !self.newest_failed() && runs.is_some_and(|runs| runs.scaled_as(&self.asked) == self.asked)
    }

    /// The spec asks for what ran before, or for its version, and that is no newer. Which issuers are accepted beside it is no part of that:
    /// they are added, and expire, without anybody asking.
    pub(crate) fn is_way_back(&self) -> bool {
        let parsed = |text: Option<&String>| text.and_then(|text| text.parse::<Version>().ok());
        let Some(good) = self.good() else { return false };
        let (asked, newest) = (parsed(Some(&self.asked.version)), parsed(self.newest_version()));
        let is_new = !self.all.last().is_some_and(|newest| self.asks_for(newest));
        let leads_to = |good: &Revision<'_>, from: &Option<Version>| {
            (asked < *from && good.version() == Some(&self.asked.version))
                || (asked <= *from && is_new && self.asks_for(good))
        };
        let runs = parsed(self.runs_version());
        leads_to(good, &newest) || self.all.iter().any(|older| older.succeeded() && leads_to(older, &runs))
    }

    /// Whether the spec asks for it: the issuers that were accepted beside what it asked for aside.
    pub(super) fn asks_for(&self, revision: &Revision<'_>) -> bool {
        let cluster = self.input.object;
        let own = record::plain(cluster, Release::of(&cluster.spec));
        let copy = self.asked.audit_copy.as_ref();
        let is_its_copy = |of: Option<&String>| copy.is_none_or(|copy| of.or(self.former_copy.as_ref()) == Some(copy));
        revision.asked(cluster).is_some_and(|(asked, of)| asked == own && is_its_copy(of))
    }

    pub(crate) fn newest_failed(&self) -> bool {
        self.all.last().is_some_and(Revision::failed)
    }

    pub(crate) fn newest_succeeded(&self) -> bool {
        self.all.last().is_some_and(Revision::succeeded)
    }

    /// The newest has another version than the last good one before it, or other templates of it.
    pub(crate) fn newest_takes_a_turn(&self) -> bool {
        self.all.last().is_some_and(Revision::is_by_templates)
            || self.good().and_then(Revision::version).is_some_and(|good| Some(good) != self.newest_version())
    }

    /// Since the last good one, a release came back that differed from it in nothing but that version.
    pub(crate) fn came_back_from(&self, to: &str) -> bool {
        let Some(good) = self.all.iter().rev().find(|revision| revision.succeeded()) else { return false };
        let counts = |r: &Revision<'_>| r.failed() && !r.status.unwell && target(r).is_some_and(|target| target == to);
        self.all.iter().any(|r| r.number > good.number && counts(r) && only_version(good, r))
    }

    /// The second step of the newest minor makes no progress.
    pub(crate) fn is_stuck(&self) -> bool {
        self.newest_succeeded() && self.failure.is_some()
    }

    /// That is so, by a change of nothing but the version.
    pub(crate) fn is_stuck_by_version(&self) -> bool {
        let (Some(newest), Some(good)) = (self.all.last(), self.good()) else { return false };
        self.is_stuck() && !newest.status.unwell && only_version(good, newest)
    }
}

/// Of a change of the release that would begin. None: it may.
pub(super) fn hold_of_asked(rollout: &Rollout<'_>, t: &Tenant<'_>) -> Option<Hold> {
    let asked = &rollout.asked().version;
    let to = rollout.turn_to();
    let is_at_once = !rollout.adopts() && (rollout.is_way_back() || rollout.is_scale());
    if is_at_once {
        return asleep(t, "change of what runs");
    }
    let what = if rollout.adopts() {
        format!("newer templates of {asked} (spec.upgrade.templates)")
    } else if to.is_some() {
        format!("spec.version: change from {} to {asked}", rollout.runs_version()?)
    } else {
        "change of what runs".to_owned()
    };
    match (window(t, &what), to) {
        (Ok(until), Some(to)) => turn(t, &to, &what, until),
        (Ok(_), None) => None,
        (Err(hold), _) => Some(hold),
    }
}
