//! Add-ons: what of Berth's runs on the tenant's nodes, and what is to go again.

use super::addon_images::{AddonImages, Stays};
use super::dns;
use super::facts::{cluster_dns, no_address, serving};
use crate::endpoint::authority;
use crate::record;
use crate::subject::Tenant;
use crate::validate::{beyond_limit, writers};
use berth_api::cluster::{AddonStatus, CoreDns, Network, ProxyMode};
use berth_api::conditions::Reason;
use berth_api::version::Version;
use berth_plan::model::State;
use berth_render::values::{ApiProxyValues, AskedOfCoreDns, CoreDnsValues, KubeProxyValues};
use berth_render::{Catalog, TemplateSet, TenantSet, images};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Fields of the configuration that Berth sets.
const OWN: [&str; 5] = ["apiVersion", "kind", "mode", "clusterCIDR", "hostnameOverride"];
const CLIENT: &str = "clientConnection";

/// Pods of a new CoreDNS whose number nobody asks for.
pub(super) const REPLICAS: i32 = 2;

/// An add-on of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addon {
    pub(super) set: TenantSet,
    /// The version that is to run.
    pub(super) version: String,
    /// Whether it is to be there.
    pub(super) enabled: bool,
}

/// The add-ons of a tenant, with their templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addons {
    /// Those that the tenant is pinned to. None: those of this build.
    pinned: Option<TemplateSet>,
    pub(super) all: Vec<Addon>,
    /// What of the spec is refused: that add-on is left as it is, or that zone left out.
    pub(super) refused: Option<String>,
    /// Those that are left as they are and of which nothing is refused, with what is told of them.
    pub(super) waiting: BTreeMap<&'static str, String>,
}

impl Addons {
    /// Of a tenant, or what is waited for until it is known.
    pub(super) fn decide(t: &Tenant<'_>) -> Result<Self, State> {
        let builtin = Catalog::builtin().kubernetes(t.pin().version.minor());
        let has_addons = |set: &&TemplateSet| set.coredns().is_some();
        // A tenant whose templates are older than add-ons takes those of this build until its version changes.
        let own = t.templates().filter(has_addons);
        let Some(templates) = own.or(builtin) else { return Ok(Self::default()) };
        let pinned =
            if Some(templates.digest()) == builtin.map(TemplateSet::digest) { None } else { templates.addons() };
        // A registry that is refused changes nothing that runs: the components' stages say so.
        if writers::images(&t.cluster.spec.images, &t.settings.writers).is_err() {
            return Ok(Self::default());
        }
        let (asked, network) = (&t.cluster.spec.addons, &t.cluster.spec.network);
        let recorded = record::addons(t);
        let by_default = recorded.as_ref().is_some_and(|r| r.by_default);
        let own_image = recorded.as_ref().and_then(|r| r.api_proxy.clone());
        let own_image = own_image.unwrap_or_else(|| t.settings.api_proxy_image.clone());
        let of_operator =
            recorded.map_or_else(|| (t.settings.registry.clone(), t.settings.image_layout), |r| (r.registry, r.layout));
        let all_images = AddonImages::of(t, of_operator);
        let mut all = vec![];
        let mut all_refused = vec![];
        let mut all_stay = vec![];
        if let Some(version) = templates.coredns() {
            let image = all_images.coredns(version);
            let enabled = asked.core_dns.enabled.unwrap_or(by_default);
            // What is off is deleted, whatever else is asked of it.
            let more = match (enabled, image.stays) {
                (false, _) => Ok((AskedOfCoreDns::default(), vec![])),
                (true, None) => asked_of_coredns(&asked.core_dns, network).map_err(Stays::Refused),
                (true, Some(stays)) => Err(stays),
            };
            match more {
                Err(stays) => all_stay.push(("coredns", stays)),
                Ok((more, left_out)) => {
                    all_refused.extend(left_out);
                    let values = CoreDnsValues {
                        image: image.image,
                        replicas: asked.core_dns.replicas.unwrap_or(REPLICAS),
                        dns_domain: network.dns_domain.clone(),
                        cluster_dns: cluster_dns(&network.service_cidrs).unwrap_or_default(),
                        asked: more,
                    };
                    all.push(Addon { set: TenantSet::CoreDns(values), version: version.to_string(), enabled });
                }
            }
        }
        let enabled = asked.kube_proxy.enabled.unwrap_or(by_default);
        let refused = refused(&asked.kube_proxy.config).filter(|_| enabled);
        if let Some(why) = refused {
            all_stay.push(("kube-proxy", Stays::Refused(why)));
        } else {
            let (host, port) = t.endpoint.nodes.clone().ok_or_else(no_address)?;
            let (_, version) = serving(t);
            let image = all_images.kube_proxy(version);
            let mut config = asked.kube_proxy.config.clone();
            let client_connection = config.remove(CLIENT).and_then(|c| c.as_object().cloned()).unwrap_or_default();
            let mode = match asked.kube_proxy.mode {
                ProxyMode::Iptables => "iptables",
                ProxyMode::Nftables => "nftables",
            };
            let values = KubeProxyValues {
                image: image.image,
                endpoint: authority(&host, port),
                pod_cidrs: network.pod_cidrs.join(","),
                mode: mode.into(),
                client_connection,
                config,
            };
            match image.stays.filter(|_| enabled) {
                None => all.push(Addon { set: TenantSet::KubeProxy(values), version: version.to_string(), enabled }),
                Some(stays) => all_stay.push(("kube-proxy", stays)),
            }
        }
        all.push(api_proxy(t, all_images.api_proxy(&own_image))?);
        let mut waiting = BTreeMap::new();
        for (addon, stays) in all_stay {
            match stays {
                Stays::Refused(why) => all_refused.push(why),
                Stays::Waits(why) => {
                    waiting.insert(addon, why);
                }
            }
        }
        let refused = (!all_refused.is_empty()).then(|| all_refused.join(". "));
        Ok(Self { pinned, all, refused, waiting })
    }

    /// What they are rendered from.
    pub(super) fn templates(&self, version: Version) -> Option<&TemplateSet> {
        self.pinned.as_ref().or_else(|| Catalog::builtin().kubernetes(version.minor()))
    }
}

/// Berth's own: where it leads to is known with the API's address. What is off is rendered for what its objects are called.
fn api_proxy(t: &Tenant<'_>, image: String) -> Result<Addon, State> {
    let version = images::tag_of(&image).unwrap_or("latest").to_owned();
    let enabled = !is_off(t, "api-proxy");
    let values = if enabled {
        let (for_pods, port) = t.endpoint.for_pods.as_ref().ok_or_else(no_address)?;
        let proxied = t.endpoint.proxied.as_ref().ok_or_else(no_address)?;
        let (host, to) = &proxied.to;
        ApiProxyValues {
            image,
            listen: authority(&for_pods.address.to_string(), *port),
            to: authority(host, *to),
            name: proxied.name.clone().unwrap_or_default(),
        }
    } else {
        ApiProxyValues::default()
    };
    Ok(Addon { set: TenantSet::ApiProxy(values), version, enabled })
}

/// What is asked of CoreDNS beside its templates, and why zones are left out of it. Err: what of it is refused.
fn asked_of_coredns(asked: &CoreDns, network: &Network) -> Result<(AskedOfCoreDns, Vec<String>), String> {
    if let Some(why) = beyond_limit("addons.coreDNS", asked.resources.as_ref()) {
        return Err(why);
    }
    let zones = dns::zones(&asked.zones, network)?;
    let more = AskedOfCoreDns {
        replicas: asked.replicas.is_some(),
        resources: asked.resources.as_ref().and_then(|asked| serde_json::to_value(asked).ok()),
        zones: zones.all,
    };
    Ok((more, zones.left_out))
}

/// Why the configuration of kube-proxy is refused.
fn refused(config: &Map<String, Value>) -> Option<String> {
    let path = "spec.addons.kubeProxy.config";
    let own = OWN.into_iter().find(|field| config.contains_key(*field));
    if let Some(field) = own {
        let way_out = if field == "mode" { "Set spec.addons.kubeProxy.mode, and remove it" } else { "Remove it" };
        return Some(format!("{path}.{field}: Berth sets this field. {way_out}"));
    }
    let client = config.get(CLIENT)?;
    match client.as_object() {
        None => Some(format!("{path}.{CLIENT}: must be an object, such as {{qps: 10}}")),
        Some(client) if client.contains_key("kubeconfig") => {
            Some(format!("{path}.{CLIENT}.kubeconfig: Berth sets this field. Remove it"))
        }
        Some(_) => None,
    }
}

/// Whether the status lists an add-on that is to be off: what is left of it is looked for.
pub(crate) fn one_goes(t: &Tenant<'_>) -> bool {
    t.status().addons.iter().any(|addon| is_off(t, &addon.name))
}

/// Whether that add-on is to be off.
pub(super) fn is_off(t: &Tenant<'_>, addon: &str) -> bool {
    let asked = &t.cluster.spec.addons;
    let enabled = match addon {
        "coredns" => asked.core_dns.enabled,
        "kube-proxy" => asked.kube_proxy.enabled,
        "api-proxy" => Some(asked.api_proxy.is_on() && t.cluster.spec.vpc.is_none()),
        _ => return false,
    };
    !enabled.unwrap_or_else(|| record::addons(t).is_some_and(|r| r.by_default))
}

pub(super) fn refusal(message: &str) -> State {
    State::blocked(Reason::InvalidSpec, message)
}

/// What the status tells of one. `former`: what it told.
pub(super) fn status(addon: &Addon, former: Option<AddonStatus>, due: bool, is_left: bool) -> Option<AddonStatus> {
    let name = addon.set.name().to_owned();
    let former = former.unwrap_or(AddonStatus { name, ..AddonStatus::default() });
    match (addon.enabled, due) {
        (true, false) => Some(AddonStatus { version: Some(addon.version.clone()), ..former }),
        (true, true) => Some(former),
        // Of what goes nobody waits for pods.
        (false, _) if is_left => {
            Some(AddonStatus { name: former.name, version: former.version, ..AddonStatus::default() })
        }
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_berth_sets_are_refused_with_the_way_out() {
        let refused = |config: Value| refused(config.as_object().unwrap());
        assert_eq!(refused(json!({"conntrack": {"min": 0}, "clientConnection": {"qps": 10}})), None);
        for field in OWN {
            let why = refused(json!({(field): "x"})).unwrap();
            assert!(why.starts_with(&format!("spec.addons.kubeProxy.config.{field}: Berth sets this field.")), "{why}");
        }
        let why = refused(json!({"clientConnection": {"kubeconfig": "/x"}})).unwrap();
        assert!(why.contains("config.clientConnection.kubeconfig"), "{why}");
        assert!(refused(json!({"clientConnection": "x"})).unwrap().contains("must be an object"));
    }
}
