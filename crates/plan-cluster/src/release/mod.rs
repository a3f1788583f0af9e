//! Which release each component runs: the one that the tenant is pinned to; or, while its minor changes, the old or the new one.
//!
//! A minor changes in two steps ([`decide`]). First the API server and its clients get the new binaries and emulate the old minor, so that
//! nothing is written that the old ones could not read: there is a way back. After `spec.upgrade.finalizeAfter` they stop emulating.

mod agent;
mod decide;
mod model;
mod preflight;
mod record;
mod seen;
mod wanted;

pub(crate) use agent::with_available_agent;
pub use model::Pending;
pub(crate) use model::{Canary, Release};
pub use record::upgrade_templates;
pub(crate) use record::{annotation_of, is_at_rest, is_in_second_step, served};
pub(crate) use wanted::decide_release;
