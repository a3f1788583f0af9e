//! Private networks (RFC 1918 and the like), which an API server dials for whoever administers the tenant: closed, but for those that the
//! platform team opens for all tenants, and those of the tenant's own nodes (ADR 19).

use crate::subject::Tenant;
use crate::validate::writers;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::meta_cluster::addresses::Closed;
use berth_plan::model::State;
use berth_plan::object_meta::annotation;
use berth_plan::settings::OlderTenants;
use ipnet::IpNet;
use std::collections::BTreeSet;

/// What is closed for this tenant. One from before keeps what it could reach, until the platform team closes it.
pub(super) fn closed(t: &Tenant<'_>) -> Closed {
    let older = t.settings.isolation.older_tenants == OlderTenants::Closed;
    match (recorded(t, labels::PRIVATE_NETWORKS), recorded(t, labels::SPECIAL_NETWORKS)) {
        _ if older => Closed::Special,
        (true, true) => Closed::Special,
        (true, false) => Closed::Private,
        (false, _) => Closed::Nothing,
    }
}

/// What the namespace records by that annotation: so of each new tenant, and for as long as the namespace lives.
pub(crate) fn recorded(t: &Tenant<'_>, name: &str) -> bool {
    t.live_namespace().is_none_or(|live| annotation(live, name) == Some(labels::NETWORKS_CLOSED))
}

/// Those that are open for this tenant, nothing twice.
pub(super) fn opened(t: &Tenant<'_>) -> Vec<IpNet> {
    let own = t.cluster.spec.network.node_cidrs.iter().filter(|cidr| judge(t, cidr).is_ok());
    let own = own.filter_map(|cidr| cidr.parse::<IpNet>().ok()).map(|net| net.trunc());
    t.settings.isolation.private_networks.iter().copied().chain(own).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether the tenant's own networks are what its writers may ask for. A refusal takes nothing else away.
pub(crate) fn refusal(t: &Tenant<'_>) -> Option<State> {
    t.cluster.spec.network.node_cidrs.iter().find_map(|cidr| judge(t, cidr).err())
}

fn judge(t: &Tenant<'_>, cidr: &str) -> Result<(), State> {
    const FIELD: &str = "spec.network.nodeCIDRs";
    let no = |why: String| State::blocked(Reason::NotAllowed, format!("{FIELD}: {cidr} {why}"));
    let net: IpNet = cidr.parse().map_err(|_| no("is not in CIDR notation, such as 10.20.0.0/16".to_owned()))?;
    let allowed = &t.settings.writers.networks;
    if !allowed.iter().any(|range| range.contains(&net)) {
        let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        return Err(writers::refused(FIELD, cidr, &allowed, "networks"));
    }
    let meta = t.observed.meta.addresses.as_ref().ok();
    match meta.filter(|meta| meta.forbidden(net, Closed::Nothing).is_none()) {
        Some(meta) => {
            let whose = meta.overlap(net).map_or("cloud metadata", |(whose, _)| whose);
            Err(no(format!("is where the meta cluster has its {whose}, closed to tenants. Remove it")))
        }
        None => Ok(()),
    }
}
