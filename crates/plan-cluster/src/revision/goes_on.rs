//! What a tenant has already is not judged by a rule that is newer than it.

use super::record::{self, Revision};
use crate::subject::Tenant;
use berth_api::revision::Release;
use berth_render::Binary;

/// Whether a component's part of the spec is that of the release that runs, or of one that ran well: then it goes on, whatever a newer build of
/// Berth would refuse of it. As long as no release is on record, a component that is there counts.
pub(crate) fn goes_on(t: &Tenant<'_>, binary: Binary, is_it: impl Fn(&Release) -> bool) -> bool {
    if !t.observed.revisions_are_readable {
        return !t.is_new();
    }
    let all = record::all(t.observed, &t.cp_namespace);
    let Some(newest) = all.last() else { return t.workloads(binary).first().is_some() };
    let ran = all.iter().filter(|revision| revision.succeeded());
    let runs = Some(newest).filter(|newest| !newest.failed());
    ran.chain(runs).filter_map(Revision::release).any(is_it)
}
