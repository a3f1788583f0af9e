//! Whether a release can run at all.

use crate::components::ALL;
use crate::subject::Tenant;
use crate::{isolation, release, validate};
use berth_api::conditions::Reason;
use berth_api::revision::Release;
use berth_plan::model::State;

/// Why what the spec asks for is refused, or has to wait for something in the tenant itself: then no turn helps, and nothing of it begins.
pub(super) fn refusal(t: &Tenant<'_>) -> Option<State> {
    let invalid = |message| State::blocked(Reason::InvalidSpec, message);
    release::decide_release(t)
        .1
        .or_else(|| validate::networks(&t.cluster.spec.network).err().map(invalid))
        .or_else(|| isolation::private::refusal(t))
        .or_else(|| validate::writers::data_policy(t.cluster.spec.deletion.data_policy, &t.settings.writers).err())
        .or_else(|| of_components(t))
}

/// Whether a release cannot run as it is, such as with more pods than may be.
pub(super) fn refuses_pods(release: &Release, t: &Tenant<'_>) -> bool {
    let cluster = release.put_into(t.cluster);
    of_components(&Tenant { cluster: &cluster, ..t.clone() }).is_some()
}

fn of_components(t: &Tenant<'_>) -> Option<State> {
    ALL.iter().find_map(|component| validate::component(t, component).err())
}
