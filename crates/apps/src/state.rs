//! What a release needs, by what Helm has recorded of it, and by what Berth has. Pure.
//!
//! Helm's record is in the tenant, so it counts as far as Berth's own names it by its digest: that revision is the base of whatever comes next.

use berth_contract::apps::Recorded;

/// One revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// Its number.
    pub revision: i64,
    /// Helm's word for how it is.
    pub status: String,
    /// The same as a label, by which Helm finds those that are deployed.
    pub label: String,
    /// Of its manifest and its hooks.
    pub digest: String,
    /// Whose it is: its labels.
    pub marks: Marks,
    /// The revision that was made with these labels: Helm hands them on.
    pub made: Option<i64>,
    /// Its chart.
    pub chart: Chart,
}

/// A chart, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// That of what it installs.
    pub app_version: String,
}

impl Revision {
    /// Whether it was installed to its end.
    pub(crate) fn was_whole(&self) -> bool {
        matches!(&*self.status, "deployed" | "superseded")
    }

    fn is(&self, status: &str) -> bool {
        self.status == status && self.label == status
    }
}

/// Whose a release is, and what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Name of the `AppInstallation`.
    pub installation: String,
    /// Digest of the chart, shortened.
    pub chart: String,
    /// Digest of the values, shortened.
    pub values: String,
}

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is somebody else's.
    Refuse,
    /// What Berth deployed is not there as it was.
    Tampered,
    /// It is as it is to be.
    Nothing,
    /// There is none.
    Install,
    /// It is to be another one. Helm deletes what the base has and the new one has not. None: Helm goes by the last, of which nothing was ever whole.
    Upgrade(Option<i64>),
    /// It is half gone.
    Purge,
}

/// A revision that is to be in another state for Helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which.
    pub revision: i64,
    /// The state. None: it stays in its own.
    pub to: Option<&'static str>,
    /// Berth's labels are taken off.
    pub strip: bool,
}

/// What is next for a release that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// There is none.
    Gone,
    /// What Berth deployed is not there as it was.
    Tampered,
    /// It is somebody else's, and these marks make it so again.
    Leave(Vec<Mark>),
    /// It is uninstalled, by its last revision: these are newer, and are deleted before. `hooks`: it was whole, so there is something to do for them.
    Uninstall {
        /// Revisions.
        discard: Vec<i64>,
        /// Whether hooks run.
        hooks: bool,
    },
}

/// The newest revision that has what Berth deployed: that one, or one that was rolled back to it.
pub fn base<'h>(history: &'h [Revision], recorded: Option<&Recorded>) -> Option<&'h Revision> {
    let recorded = recorded?;
    history.iter().rev().find(|revision| revision.digest == recorded.manifest_digest)
}

/// The newest that was whole.
fn newest_whole(history: &[Revision]) -> Option<&Revision> {
    history.iter().rev().find(|revision| revision.was_whole())
}

/// Whether it was made with its labels, or has what the one has that was.
fn is_made(history: &[Revision], revision: &Revision) -> bool {
    let made = |made| history.iter().any(|it| it.revision == made && it.digest == revision.digest && it.was_whole());
    revision.made.is_some_and(|it| it == revision.revision || made(it))
}

/// Whose it is, by the newest that was whole: one that failed has the labels of whoever tried. `known`: what Berth deployed is there.
pub fn is_ours(history: &[Revision], installation: &str, known: bool) -> bool {
    let is_named = |revision: &Revision| revision.marks.installation == installation;
    let is_made = |revision: &Revision| is_named(revision) && (revision.made.is_none() || is_made(history, revision));
    match newest_whole(history) {
        None => history.last().is_some_and(is_named),
        // Helm hands labels on, also those of a try that failed.
        Some(whole) => is_named(whole) && (known || history.iter().any(|it| it.was_whole() && is_made(it))),
    }
}

/// The step. `history`: from the oldest; empty, if there is no release. `adopt`: it may be somebody else's.
pub fn decide(history: &[Revision], recorded: Option<&Recorded>, wanted: &Marks, adopt: bool) -> Step {
    let Some(newest) = history.last() else { return Step::Install };
    let base = base(history, recorded);
    if !adopt && !is_ours(history, &wanted.installation, base.is_some()) {
        return Step::Refuse;
    }
    match (base, recorded) {
        (Some(base), Some(recorded)) => {
            let is_there = base.revision == newest.revision && newest.is("deployed");
            let of_that =
                recorded.chart_digest.starts_with(&wanted.chart) && recorded.values_digest.starts_with(&wanted.values);
            let is_named = newest.marks.installation == wanted.installation;
            if is_there && of_that && is_named { Step::Nothing } else { Step::Upgrade(Some(base.revision)) }
        }
        (_, Some(_)) if !adopt => Step::Tampered,
        _ if newest.is("deployed") && newest.marks == *wanted && is_made(history, newest) => Step::Nothing,
        // Half gone, or kept by somebody as a memory.
        _ if matches!(&*newest.status, "uninstalling" | "uninstalled") => Step::Purge,
        _ => Step::Upgrade(newest_whole(history).map(|whole| whole.revision)),
    }
}

/// What makes Helm upgrade from the base: that one is deployed, and what is newer failed, so what it lists is nothing that Helm would delete.
pub fn marks(history: &[Revision], base: Option<i64>) -> Vec<Mark> {
    let last = history.last().map_or(0, |newest| newest.revision);
    let mark = |revision: &Revision| {
        let says_deployed = revision.status == "deployed" || revision.label == "deployed";
        let to = match base {
            Some(base) if revision.revision == base => "deployed",
            Some(base) if revision.revision > base => "failed",
            None if revision.revision == last || says_deployed => "failed",
            Some(_) if says_deployed => "superseded",
            _ => return None,
        };
        (!revision.is(to)).then_some(Mark { revision: revision.revision, to: Some(to), strip: false })
    };
    history.iter().filter_map(mark).collect()
}

/// How a release goes that Berth has installed or taken over.
pub fn removal(history: &[Revision], recorded: Option<&Recorded>, installation: &str, adopt: bool) -> Removal {
    if history.is_empty() {
        return Removal::Gone;
    }
    let base = base(history, recorded);
    if !is_ours(history, installation, base.is_some()) {
        return Removal::Leave(given_back(history, installation));
    }
    match base {
        Some(base) => {
            let newer = history.iter().map(|it| it.revision).filter(|revision| *revision > base.revision);
            Removal::Uninstall { discard: newer.collect(), hooks: true }
        }
        None if recorded.is_some() && !adopt => Removal::Tampered,
        None => Removal::Uninstall { discard: vec![], hooks: newest_whole(history).is_some() },
    }
}

/// What makes a release that Berth could not take over the one that it was.
fn given_back(history: &[Revision], installation: &str) -> Vec<Mark> {
    let Some(whole) = newest_whole(history) else { return vec![] };
    let is_named = |revision: &Revision| revision.marks.installation == installation;
    let newer: Vec<&Revision> = history.iter().filter(|it| it.revision > whole.revision).collect();
    // Somebody else is at work on it.
    if !newer.iter().all(|it| is_named(it)) {
        return vec![];
    }
    let failed = newer.iter().filter(|it| !it.is("failed"));
    let failed = failed.map(|it| Mark { revision: it.revision, to: Some("failed"), strip: false });
    let strip = is_named(whole);
    let to = Some("deployed").filter(|to| !newer.is_empty() && !whole.is(to));
    // What is deployed comes last: whoever dies before that has changed nothing for Helm.
    let back = Mark { revision: whole.revision, to, strip };
    failed.chain((strip || to.is_some()).then_some(back)).collect()
}

pub(crate) fn is_pending(status: &str) -> bool {
    matches!(status, "pending-install" | "pending-upgrade" | "pending-rollback")
}

#[cfg(test)]
mod tests;
