//! Releases: the part of a `Cluster`'s spec that runs, each recorded as a `ClusterRevision`; and the way back to the last good one.
//!
//! When a release does not come up, the plan is made as if the spec asked for the last one that succeeded ([`Rollout::cluster`]): all that
//! holds for a person who sets it back, such as the order of a minor, holds for Berth. The spec itself is left alone.

mod canary;
mod decide;
mod fleet;
mod goes_on;
mod history;
mod issuers;
mod judge;
mod nodes;
mod progress;
mod record;
mod refusal;
mod rollout;
mod say;
mod templates;
mod write;

pub(crate) use goes_on::goes_on;
pub use history::revision_templates;
pub(crate) use history::{history, images_that_ran, releases};
pub(crate) use nodes::for_platform;
pub(crate) use record::roll;
pub(crate) use rollout::Rollout;
