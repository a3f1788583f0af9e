//! What the spec asks for that needs facts to be judged: versions, networks, flags.

pub(super) mod host;
pub(super) mod writers;

use super::components::{self, Component};
use super::isolation;
use super::record;
use super::record::Pin;
use super::subject::Tenant;
use crate::meta_cluster::MetaCluster;
use crate::model::State;
use crate::settings::Settings;
use crate::workload;
use berth_api::ClusterSpec;
use berth_api::cluster::Network;
use berth_api::conditions::Reason;
use berth_api::version::{Minor, Version};
use berth_render::{Catalog, FLAGS, Kind, relocated, values::ExtraArg};
use ipnet::IpNet;
use serde_json::Value;

/// What the tenant is to be rendered with, and why a wish was refused. Without a pin nothing can be made.
pub fn pin_of(spec: &ClusterSpec, namespace: Option<&Value>, settings: &Settings) -> (Option<Pin>, Option<State>) {
    let old = namespace.and_then(record::pin);
    let asked: Option<Version> = spec.version.parse().ok();
    if let Some(old) = &old
        && Some(old.version) == asked
    {
        return (Some(old.clone()), None);
    }
    let catalog = Catalog::builtin();
    let supported = Minor::list(&catalog.minors());
    let same_minor = old.as_ref().zip(asked).is_none_or(|(old, asked)| old.version.minor() == asked.minor());
    match (asked.and_then(|v| Some((v, catalog.kubernetes(v.minor())?))), same_minor) {
        (Some((version, set)), true) => {
            let pin = Pin {
                version,
                templates: set.digest(),
                agent_image: settings.agent_image.clone(),
                agent_delivery: settings.agent_delivery,
            };
            (Some(pin), None)
        }
        (None, _) => {
            let state = State::blocked(
                Reason::VersionUnsupported,
                format!("spec.version: {} is not supported. Set a patch version of {supported}", spec.version),
            );
            (old, Some(state))
        }
        (Some(_), false) => {
            let running = old.as_ref().map(|o| o.version).unwrap_or_default();
            let state = State::blocked(
                Reason::MinorChangeUnsupported,
                format!(
                    "spec.version: {} is another minor version than {running}, which runs. Berth cannot change the minor version yet. Set a patch version of {}",
                    spec.version,
                    running.minor()
                ),
            );
            (old, Some(state))
        }
    }
}

/// The pin with the agent that the operator is configured with by now, where pods cannot get the recorded one and nothing has come
/// up with it: a mistake in the chart's values is mended with them.
pub(super) fn with_available_agent(pin: Pin, t: &Tenant<'_>) -> Pin {
    let registry = t.cluster.spec.images.registry.as_ref();
    let recorded = registry.map_or_else(|| pin.agent_image.clone(), |r| relocated(r, &pin.agent_image));
    let of_kind = |kind| t.observed.of_kind(kind, &t.cp_namespace).map(|(_, object)| object);
    let came_up = |d: &Value| workload::agent_of(d) == Some(&recorded) && workload::deployment(d).settled;
    if of_kind(Kind::Pod).any(|p| workload::waits_for(p, &recorded)) && !of_kind(Kind::Deployment).any(came_up) {
        let Settings { agent_image, agent_delivery, .. } = t.settings;
        return Pin { agent_image: agent_image.clone(), agent_delivery: *agent_delivery, ..pin };
    }
    pin
}

/// What to do about networks that cannot serve; nothing is created for them.
pub(super) const NETWORK_IS_IMMUTABLE: &str = "spec.network is immutable: set spec.deletion.protected to false, delete this Cluster, and create it with other networks";

/// Networks that the API server or the controller-manager would not start with.
pub(super) fn networks(network: &Network) -> Result<(), String> {
    let parse = |field: &str, list: &[String]| -> Result<Vec<IpNet>, String> {
        list.iter()
            .map(|c| {
                let net: IpNet = c
                    .parse()
                    .map_err(|_| format!("spec.network.{field}: {c} is not in CIDR notation, such as 10.112.0.0/16"))?;
                if net.trunc() == net {
                    Ok(net)
                } else {
                    Err(format!("spec.network.{field}: {c} has host bits set, unlike {}", net.trunc()))
                }
            })
            .collect()
    };
    let services = parse("serviceCIDRs", &network.service_cidrs)?;
    let pods = parse("podCIDRs", &network.pod_cidrs)?;
    for s in &services {
        let (low, high) = if s.addr().is_ipv4() { (12, 28) } else { (108, 120) };
        if !(low..=high).contains(&s.prefix_len()) {
            return Err(format!(
                "spec.network.serviceCIDRs: the prefix length of {s} must be between /{low} and /{high}"
            ));
        }
    }
    for p in &pods {
        let (low, high) = if p.addr().is_ipv4() { (8, 24) } else { (48, 64) };
        if !(low..=high).contains(&p.prefix_len()) {
            return Err(format!(
                "spec.network.podCIDRs: the prefix length of {p} must be between /{low} and /{high}, since each node gets a part of it"
            ));
        }
        if let Some(s) = services.iter().find(|s| s.contains(p) || p.contains(*s)) {
            return Err(format!("spec.network: podCIDRs {p} and serviceCIDRs {s} overlap"));
        }
    }
    Ok(())
}

/// Whether the networks of a tenant that is not made yet keep off the meta cluster's: its API server would take the one for the
/// other. Networks never change, so a tenant that has a namespace is not judged again; one whose networks cannot be judged gets none.
pub(super) fn disjoint_from_meta(network: &Network, meta: &MetaCluster) -> Result<(), State> {
    let meta = meta.addresses.as_ref().map_err(|why| isolation::without_ranges(why))?;
    let services = network.service_cidrs.iter().map(|c| ("serviceCIDRs", c));
    for (field, cidr) in services.chain(network.pod_cidrs.iter().map(|c| ("podCIDRs", c))) {
        if let Some((whose, range)) = cidr.parse().ok().and_then(|net| meta.overlap(net)) {
            return Err(State::blocked(
                Reason::InvalidSpec,
                format!(
                    "spec.network.{field}: {cidr} overlaps {range}, where the meta cluster has its {whose}. {NETWORK_IS_IMMUTABLE}"
                ),
            ));
        }
    }
    Ok(())
}

/// What the spec asks of a component: its extra flags, or why something of it is refused.
pub(super) fn component(t: &Tenant<'_>, component: &Component) -> Result<Vec<ExtraArg>, State> {
    let spec = &t.cluster.spec;
    writers::placement(component.field, (component.asked)(spec).placement, &t.settings.writers)?;
    writers::images(&spec.images, &t.settings.writers)?;
    extra_args(spec, component).map_err(|message| State::blocked(Reason::InvalidSpec, message))
}

/// Extra flags that nobody may set, of a tenant that is not made yet; of one that is, the component's stage says so.
pub(super) fn all_args(spec: &ClusterSpec) -> Result<(), String> {
    components::ALL.iter().try_for_each(|c| extra_args(spec, c).map(drop))
}

/// What follows the template's arguments, or which extra flag is refused and why.
fn extra_args(spec: &ClusterSpec, component: &Component) -> Result<Vec<ExtraArg>, String> {
    let own = (component.asked)(spec).extra_args;
    let args = berth_render::extra_args(FLAGS, component.binary, spec, own);
    args.map_err(|why| format!("spec.{}.extraArgs: {why}", component.field))
}
