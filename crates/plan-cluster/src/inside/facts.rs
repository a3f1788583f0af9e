//! What sets and add-ons are made from.

use crate::subject::Tenant;
use berth_api::version::Version;
use berth_plan::model::State;
use berth_plan::observed::ApiProbe;

pub(super) use berth_plan::networks::cluster_dns;

pub(super) fn no_address() -> State {
    State::waiting("the address of the API")
}

/// The version that the API said it has, as the status tells it: until a rollout is through, nodes of the new one have nobody to talk to.
/// While it emulates an older minor, the version that it comes from: kubelets may not be newer, and there is a way back.
/// In its own words, and as a version: builds of vendors say more than one, such as `1.36.3-eks-abc`, and count as the one that is pinned.
pub(super) fn serving(t: &Tenant<'_>) -> (String, Version) {
    if let Some(change) = &t.release.change {
        return (change.counts_as.to_string(), change.counts_as);
    }
    let said = match &t.observed.api {
        ApiProbe::Answered { version, .. } => version.as_ref().map(|said| said.version.clone()),
        _ => None,
    };
    let pinned = t.pin().version;
    let counts = |said: String| (said.parse().unwrap_or(pinned), said);
    let said = t.status().version.or(said).map(counts).filter(|(version, _)| version.minor() <= pinned.minor());
    said.map_or_else(|| (pinned.to_string(), pinned), |(version, said)| (said, version))
}
