//! What is asked in a tenant before its minor changes, and of each of its API servers by itself.

use berth_api::text::TenantText;
use berth_api::version::Minor;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an API server says that it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersion {
    /// `gitVersion` without `v`.
    pub version: String,
    /// The minor that it emulates, if that is another one than its own.
    pub emulates: Option<Minor>,
}

/// What is known of what may stand in the way of the next minor.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Look {
    /// Nothing yet. No minor begins to change.
    #[default]
    NotYet,
    /// The operator looks, and this is somebody else: the plan is what it would be if nothing was found.
    Elsewhere,
    /// This was found.
    Taken(Arc<Facts>),
}

/// What was found in a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// When it was looked at.
    pub at: Timestamp,
    /// Each API server that was ready then, by its pod; or why it could not be asked.
    pub servers: BTreeMap<String, Result<Server, TenantText>>,
    /// `APIService`s that are not available, and why; or why they could not be listed.
    pub services_down: Result<BTreeMap<TenantText, TenantText>, TenantText>,
    /// Whether a ClusterRole can be created; why not.
    pub admission: Result<(), TenantText>,
}

/// One API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Server {
    /// What it runs and emulates.
    pub version: ApiVersion,
    /// What `/readyz` says, if that is not that it is well.
    pub unwell: Option<TenantText>,
    /// What its metrics say.
    pub metrics: Metrics,
}

/// What the metrics of an API server say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Deprecated APIs that were requested since it started, as far as it is known when they go.
    pub deprecated: BTreeSet<DeprecatedApi>,
    /// Features that it knows, and their stage: `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub features: BTreeMap<String, String>,
    /// How it answered its clients since it started.
    pub answers: Answers,
}

/// An API that goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeprecatedApi {
    /// The first minor without it.
    pub removed_in: Minor,
    /// Group, empty for the core, and version: `v1beta1` or `apps/v1beta1`.
    pub group_version: String,
    /// Resource, and subresource if any: `pods/status`.
    pub resource: String,
}

/// How an API server answered, health checks left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// All answers.
    pub all: u64,
    /// Those with 5xx or 429.
    pub failed: u64,
}

impl Answers {
    /// Fewer say nothing.
    const LEAST: u64 = 100;

    /// Whether a new API server fails its clients: more than one of a hundred answers, of a hundred at least, and more often than the old ones do.
    pub fn are_worse_than(self, old: Self) -> bool {
        let more_than_old =
            u128::from(self.failed) * u128::from(old.all) > u128::from(old.failed) * u128::from(self.all);
        self.all >= Self::LEAST && self.failed * 100 > self.all && (more_than_old || old.all == 0)
    }
}

impl std::iter::Sum for Answers {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |sum, one| Self {
            all: sum.all.saturating_add(one.all),
            failed: sum.failed.saturating_add(one.failed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_one_fails_by_more_than_a_hundredth_of_a_hundred_and_more_than_the_old_ones() {
        let answers = |all, failed| Answers { all, failed };
        for (new, old, worse) in [
            (answers(100, 2), answers(1000, 0), true),
            (answers(99, 99), answers(1000, 0), false),
            (answers(100, 1), answers(1000, 0), false),
            (answers(1000, 11), answers(0, 0), true),
            (answers(100, 2), answers(1000, 20), false),
            (answers(100, 2), answers(1000, 19), true),
            (answers(100, 50), answers(10, 10), false),
            (answers(0, 0), answers(0, 0), false),
        ] {
            assert_eq!(new.are_worse_than(old), worse, "{new:?} {old:?}");
        }
    }
}
