//! What becomes of the release in the spec.

use super::decide::{RollbackFacts, RollbackNext, RollbackWrite, Runs};
use super::issuers::Issuers;
use super::progress::Failure;
use super::record::{self, Revision};
use crate::audit;
use crate::planned::Input;
use crate::record::Pin;
use crate::release::{self, Canary};
use crate::subject::Tenant;
use crate::turn::Hold;
use berth_api::cluster::{Cluster, FormerIssuer};
use berth_api::names;
use berth_api::revision::Release;
use berth_api::version::Version;
use berth_plan::model::{Action, State};
use berth_render::{Kind, ObjectKey};

/// What becomes of the release in the spec.
#[derive(Debug)]
pub(crate) struct Rollout<'a> {
    pub(super) input: Input<'a>,
    pub(super) cp_namespace: String,
    /// `ClusterRevision`s can be read, and there is a namespace for them.
    pub(super) known: bool,
    /// All there are, the oldest first.
    pub(super) all: Vec<Revision<'a>>,
    /// What is to run: the release of the spec, or the newest one while that has to wait.
    pub(super) wanted: Release,
    /// That of the spec, with the issuers of service-account tokens that are accepted beside those of the spec.
    pub(super) asked: Release,
    /// Those issuers.
    pub(super) issuers: Issuers,
    /// The copy of an audit webhook's Secret that a release of the spec ran with of which an earlier build recorded none.
    pub(super) former_copy: Option<String>,
    /// Why that does not begin yet.
    pub(super) hold: Option<Hold>,
    /// Why nothing of that begins, and nothing is waited for.
    pub(super) refusal: Option<State>,
    /// The annotation that asks once more.
    pub(super) roll: Option<String>,
    /// Newer templates that are taken up, or are to be, by `spec.upgrade.templates`.
    pub(super) adopts: Option<Pin>,
    /// None: nothing is recorded yet.
    pub(super) judged: Option<(RollbackFacts, RollbackNext)>,
    /// What it fails by.
    pub(super) failure: Option<Failure>,
    /// What is asked of its first new API server, while it is rolled out.
    pub(crate) canary: Option<Canary>,
}

impl<'a> Rollout<'a> {
    /// The last release that succeeded, before the newest.
    pub(super) fn good(&self) -> Option<&Revision<'a>> {
        let (_, before) = self.all.split_last()?;
        before.iter().rev().find(|revision| revision.succeeded())
    }

    /// Why no other release can run.
    pub(super) fn no_way_back(&self, t: &Tenant<'_>) -> Option<String> {
        let Some(good) = self.good() else { return Some("no other release that succeeded is recorded".into()) };
        let pin = good.pin().unwrap_or_default();
        let version: Option<Version> = good.release().and_then(|release| release.version.parse().ok());
        let served = t.live_namespace().and_then(release::served);
        match version {
            Some(version) if Some(version.minor()) < served => Some(format!(
                "{} counts as served, and etcd may hold what {version} cannot read",
                served.unwrap_or_default()
            )),
            Some(_) if t.templates_of(&pin).is_some() => {
                let gone = good.release().is_some_and(|of| !audit::is_at_hand(t, (of, &pin), &self.copies()));
                gone.then(|| format!("the Secret of the audit webhook of {} is gone", good.key))
            }
            _ => Some(format!("the templates of {} are not at hand", good.key)),
        }
    }

    /// The release that is gone back to, if it is.
    pub(super) fn back_to(&self) -> Option<&Revision<'a>> {
        let (_, next) = self.judged.as_ref()?;
        self.good().filter(|_| next.runs == Runs::Good)
    }

    /// The `Cluster` that the plan is made for, if that is not the one that was read.
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        let own = Release { audit_copy: self.wanted.audit_copy.clone(), ..Release::of(&self.input.object.spec) };
        let other = self.stays() || self.wanted != own;
        let other = || other.then_some(&self.wanted);
        self.back_to().and_then(Revision::release).or_else(other).map(|release| release.put_into(self.input.object))
    }

    /// The copies of an audit webhook's Secret that are recorded.
    pub(super) fn copies(&self) -> Vec<&String> {
        self.all.iter().filter_map(|revision| revision.release()?.audit_copy.as_ref()).collect()
    }

    /// The copy that the release which is to run is recorded with.
    pub(crate) fn audit_copy(&self, t: &Tenant<'_>) -> Option<String> {
        let runs = self.back_to().and_then(Revision::release).unwrap_or(&self.wanted);
        audit::copy_of(t, runs, &self.copies())
    }

    /// That of the release that Berth may go back to from the newest.
    pub(crate) fn copy_of_good(&self, t: &Tenant<'_>) -> Option<String> {
        let good = self.good().filter(|_| !self.newest_succeeded())?;
        audit::copy_of(t, good.release()?, &self.copies())
    }

    /// What people see of issuers of service-account tokens that are accepted beside those of the spec.
    pub(crate) fn former_issuers(&self) -> Vec<FormerIssuer> {
        self.issuers.status()
    }

    /// What changes of what runs wait for. `refused`: the release of the spec is, so it is not recorded.
    pub(crate) fn awaits(&self, refused: bool) -> Option<String> {
        let (_, next) = self.judged.as_ref().filter(|_| !refused)?;
        (next.write == Some(RollbackWrite::Revision))
            .then(|| format!("{} to be recorded", self.key(self.next_number())))
    }

    pub(super) fn next_number(&self) -> i64 {
        self.all.last().map_or(1, |newest| newest.number + 1)
    }

    pub(super) fn key(&self, number: i64) -> ObjectKey {
        ObjectKey::namespaced(Kind::ClusterRevision, self.cp_namespace.clone(), names::revision(number))
    }

    /// Revisions that nobody needs any more.
    pub(crate) fn surplus(&self) -> Vec<Action> {
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
    pub(crate) fn templates(&self) -> Vec<ObjectKey> {
        let kept = self.all.iter().filter(|revision| revision.succeeded());
        let digests = kept.filter_map(|revision| Some(&revision.spec.as_ref()?.pin.templates));
        let mut names: Vec<String> = digests.map(|digest| names::templates(digest)).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| ObjectKey::namespaced(Kind::ConfigMap, self.cp_namespace.clone(), name)).collect()
    }
}
