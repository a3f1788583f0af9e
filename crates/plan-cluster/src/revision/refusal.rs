//! Whether a release can run at all.

use super::nodes;
use crate::components::ALL;
use crate::subject::Tenant;
use crate::validate;
use berth_api::revision::Release;
use berth_plan::model::State;

/// Why what the spec asks for is refused, or has to wait for something in the tenant itself: then no turn helps, and nothing of it begins.
/// `of_the_version`: what is wrong with that.
pub(super) fn refusal(t: &Tenant<'_>, of_the_version: Option<&State>) -> Option<State> {
    of_the_version.cloned().or_else(|| validate::refusal(t)).or_else(|| of_components(t)).or_else(|| nodes::refusal(t))
}

/// Whether a release cannot run as it is, such as with more pods than may be.
pub(super) fn refuses_pods(release: &Release, t: &Tenant<'_>) -> bool {
    let cluster = release.put_into(t.cluster);
    of_components(&Tenant { cluster: &cluster, ..t.clone() }).is_some()
}

fn of_components(t: &Tenant<'_>) -> Option<State> {
    ALL.iter().find_map(|component| validate::component(t, component).err())
}
