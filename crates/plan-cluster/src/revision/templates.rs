//! What a release is rendered with: what is recorded as finished, and beside it what components go to until that succeeded.

use super::decide::RollbackWrite;
use super::record::Revision;
use super::rollout::Rollout;
use crate::record::{self, Pin};
use crate::release::Release;
use crate::sizes::come_to;
use crate::subject::Tenant;
use crate::update::{self, Update};
use berth_api::cluster::Templates;
use berth_api::revision::{RevisionCause, RevisionOutcome as Outcome};

impl<'a> Rollout<'a> {
    /// What a tenant that asks for the newest templates takes up: those that it never ran, or that somebody asks for once more. An operator
    /// that goes one version back has others, too: what ran before is not newer.
    pub(super) fn adopted(&self, t: &Tenant<'_>) -> Option<Pin> {
        let newest = self.all.last().filter(|newest| newest.release() == Some(&self.wanted))?;
        let Update { old, new } = update::newer(t).filter(|_| t.cluster.spec.upgrade.templates == Templates::Newest)?;
        let new = Pin { sizes: come_to(t), ..new };
        let failed = newest.is_by_templates() && newest.failed();
        let again = failed && newest.is_asked_again(self.roll.as_ref());
        let ended = newest.succeeded() || (failed && newest.status.outcome == Some(Outcome::RolledBack));
        if again || !ended {
            return again.then_some(new);
        }
        let ran = self.all.iter().any(|r| r.pin().is_some_and(|pin| pin.templates == new.templates));
        // A value of the chart may come back, but not by itself what failed.
        let values = |pin: &Pin| (pin.helper_resources.clone(), pin.proxy.clone(), pin.jwt.clone());
        let tried = newest.pin().is_some_and(|pin| values(&pin) == values(&new));
        if !ran {
            return Some(new);
        }
        (!tried).then_some(Pin { helper_resources: new.helper_resources, proxy: new.proxy, jwt: new.jwt, ..old })
    }

    /// The release in the spec is recorded, but is to be rendered with other templates: newer ones, or those before newer ones that failed.
    pub(super) fn takes_other_templates(&self, t: &Tenant<'_>) -> bool {
        let gives_up = || {
            let failed = self.all.last().is_some_and(|newest| newest.is_by_templates() && newest.failed());
            failed && t.cluster.spec.upgrade.templates == Templates::WithVersion
        };
        self.adopts.is_some() || gives_up()
    }

    /// What changed from the newest one.
    pub(super) fn cause(&self) -> RevisionCause {
        let stays = self.stays() || self.adopts.is_none();
        if stays { super::record::cause(&self.wanted, &self.all) } else { RevisionCause::Templates }
    }

    /// The release that a person goes back to. What is pinned already stays as it is.
    fn back_by_hand(&self, t: &Tenant<'_>, pin: &Pin) -> Option<&Revision<'a>> {
        if t.live_namespace().and_then(record::pin).is_none_or(|pinned| pinned.version == pin.version) {
            return None;
        }
        let is_wanted = |revision: &&Revision<'_>| {
            revision.release() == Some(&self.wanted) || (!self.stays() && self.asks_for(revision))
        };
        let mut before = self.all.iter().rev().filter(|r| r.succeeded() && self.is_way_back());
        before.find(is_wanted).filter(|r| r.pin().is_some_and(|was| t.templates_of(&was).is_some()))
    }

    /// What is recorded on the namespace names the old release until the new one has succeeded: older operators go by it, and what is inside
    /// the tenant follows it. Without a revision nothing tells how a release came out, so it is recorded at once.
    pub(crate) fn settle(&self, t: &Tenant<'_>, release: &mut Release) {
        let Some(newest) = self.all.last() else {
            release.pin = release.next.take().unwrap_or_else(|| release.pin.clone());
            return;
        };
        let at_hand = |pin: &Pin| t.templates_of(pin).is_some();
        if let Some(back) = self.back_to() {
            let pin = release.next.take().unwrap_or_else(|| release.pin.clone());
            release.pin = back.pin().filter(|was| was.version == pin.version).unwrap_or(pin);
            return;
        }
        if self.judged.as_ref().is_none_or(|(_, next)| next.write == Some(RollbackWrite::Revision)) {
            let adopts = self.adopts.clone().filter(|_| !self.stays());
            let before = |next: &Pin| self.back_by_hand(t, next).and_then(Revision::pin);
            release.next = adopts.or_else(|| release.next.take().map(|next| before(&next).unwrap_or(next)));
            return;
        }
        let is_it = newest.release() == Some(&self.wanted);
        let other = newest.pin().filter(|was| newest.is_by_templates() && !was.renders_as(&release.pin));
        let target = release.target().version;
        let recorded = newest.pin().filter(|was| is_it && was.version == target && at_hand(was));
        if release.next.is_none() && (other.is_none() || recorded.is_none()) {
            return;
        }
        let target = recorded.or_else(|| release.next.take());
        if newest.succeeded() && is_it {
            release.pin = target.unwrap_or_else(|| release.pin.clone());
            release.next = None;
        } else {
            release.next = target;
        }
    }
}
