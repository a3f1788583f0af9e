//! What sets and add-ons are made from.

use crate::subject::Tenant;
use berth_api::version::Version;
use berth_plan::model::State;
use berth_plan::observed::ApiProbe;

pub(super) fn no_address() -> State {
    State::waiting("the address of the API")
}

/// The version that the API said it has, as the status tells it: until a rollout is through, nodes of the new one have nobody to talk to.
/// While it emulates an older minor, the version that it comes from: kubelets may not be newer, and there is a way back.
pub(super) fn serving(t: &Tenant<'_>) -> String {
    if let Some(change) = &t.release.change {
        return change.counts_as.to_string();
    }
    let said = match &t.observed.api {
        ApiProbe::Answered { version, .. } => version.as_ref().map(|said| said.version.clone()),
        _ => None,
    };
    let pinned = t.pin().version;
    let is_newer = |said: &String| said.parse().is_ok_and(|said: Version| said.minor() > pinned.minor());
    t.status().version.or(said).filter(|said| !is_newer(said)).unwrap_or_else(|| pinned.to_string())
}

/// As kubeadm numbers it: the tenth address of the first range.
pub(super) fn cluster_dns(service_cidrs: &[String]) -> Option<String> {
    let range: ipnet::IpNet = service_cidrs.first()?.parse().ok()?;
    range.hosts().filter(|address| *address != range.network()).nth(9).map(|address| address.to_string())
}
