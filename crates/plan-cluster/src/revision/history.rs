//! Releases that were.

use super::record::{self, Revision};
use berth_api::cluster::RevisionSummary;
use berth_api::common::Images;
use berth_api::revision::{Release, RevisionOutcome};
use berth_plan::observed::Observed;
use std::collections::BTreeSet;

/// The last releases in short, the newest first. None: they were not read.
pub(crate) fn history(observed: &Observed, cp_namespace: &str) -> Option<Vec<RevisionSummary>> {
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

/// The release that is rolled out or runs, and those that Berth may go back to.
pub(crate) fn releases(observed: &Observed, cp_namespace: &str) -> Vec<Release> {
    let all = record::all(observed, cp_namespace);
    let good = all.iter().rev().filter(|revision| revision.succeeded()).take(2);
    all.last().into_iter().chain(good).filter_map(|revision| revision.release().cloned()).collect()
}

/// `spec.images` of the releases that ran, the newest first; also of those that were not through when the next came, since add-ons take
/// theirs up at once. What was taken back runs no more.
pub(crate) fn images_that_ran(observed: &Observed, cp_namespace: &str) -> Vec<Images> {
    let all = record::all(observed, cp_namespace);
    let ran = all.iter().rev().filter(|revision| revision.status.outcome != Some(RevisionOutcome::RolledBack));
    ran.filter_map(|revision| Some(revision.release()?.images.clone())).collect()
}

/// Digests of the templates that the plan may need beside those that a tenant is pinned to: of the newest release, and of those that it may
/// go back to.
pub fn revision_templates(observed: &Observed, cp_namespace: &str) -> Vec<String> {
    let all = record::all(observed, cp_namespace);
    let good = all.iter().rev().filter(|revision| revision.succeeded()).take(2);
    let digest = |revision: &Revision<'_>| Some(revision.spec.as_ref()?.pin.templates.clone());
    // The newest is rendered with what it began with, whatever operator goes on.
    let mut digests: Vec<String> = all.last().into_iter().chain(good).filter_map(digest).collect();
    let mut seen = BTreeSet::new();
    digests.retain(|digest| seen.insert(digest.clone()));
    digests
}
