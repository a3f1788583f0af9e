//! The one decision about a release: whether it is recorded, whether it or the last good one runs, and how it came out.
//!
//! It looks at what is recorded and at what runs, and at nothing else, so it goes on from wherever it was interrupted. What is recorded
//! changes first, and counts only once it was read again.

use berth_api::revision::RevisionOutcome as Outcome;

/// All that the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "facts")]
pub(super) struct RollbackFacts {
    /// How the newest revision came out, by what is recorded. None: it is rolled out.
    pub(super) recorded: Option<Outcome>,
    /// The release in the spec is that of the newest revision.
    pub(super) same: bool,
    /// Somebody asked for it once more.
    pub(super) asked_again: bool,
    /// Nothing is to change.
    pub(super) paused: bool,
    /// All components run it, and the API answers.
    pub(super) through: bool,
    /// That is so for `spec.upgrade.soak`.
    pub(super) soaked: bool,
    /// `spec.upgrade.progressDeadline` has passed without progress.
    pub(super) late: bool,
    /// `spec.upgrade.onFailure` is Rollback.
    pub(super) goes_back: bool,
    /// The old pods of the component that is late serve as they did before.
    pub(super) old_well: bool,
    /// etcd has quorum, and the clocks agree.
    pub(super) rest_well: bool,
    /// There is a release to go back to, and what is in etcd can be read by it.
    pub(super) way_back: bool,
}

/// Which release runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Runs {
    /// That of the spec.
    Asked,
    /// The last one that succeeded.
    Good,
}

/// What is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RollbackWrite {
    /// A new revision. Until it is there, nothing that runs is changed.
    Revision,
    /// How the newest one came out.
    Outcome(Outcome),
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RollbackNext {
    pub(super) runs: Runs,
    pub(super) write: Option<RollbackWrite>,
}

/// What is next.
///
/// - One that is held comes through by itself, or a person changes it. It is not taken back later: what kept it may be what kept its pods.
/// - One that was taken back stays so, whatever its old pods do, until the spec changes or somebody asks again.
/// - One that succeeded is not judged any more.
pub(super) fn decide_rollback(facts: RollbackFacts) -> RollbackNext {
    let RollbackFacts { recorded, same, asked_again, paused, through, soaked, late, .. } = facts;
    let failed = matches!(recorded, Some(Outcome::RolledBack | Outcome::Held));
    if !same || (failed && asked_again) {
        // Paused, what ran goes on: nothing is written that could change it.
        return RollbackNext { runs: Runs::Asked, write: (!paused).then_some(RollbackWrite::Revision) };
    }
    let write = match recorded {
        _ if paused => None,
        Some(Outcome::Succeeded | Outcome::RolledBack) => None,
        _ if through => soaked.then_some(Outcome::Succeeded),
        None | Some(Outcome::Superseded) if late => Some(match facts {
            RollbackFacts { goes_back: true, old_well: true, rest_well: true, way_back: true, .. } => {
                Outcome::RolledBack
            }
            _ => Outcome::Held,
        }),
        None | Some(Outcome::Held | Outcome::Superseded) => None,
    };
    let runs = if recorded == Some(Outcome::RolledBack) { Runs::Good } else { Runs::Asked };
    RollbackNext { runs, write: write.map(RollbackWrite::Outcome) }
}

#[cfg(test)]
mod tests;
