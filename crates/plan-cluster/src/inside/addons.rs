//! Add-ons: what of Berth's runs on the tenant's nodes, and what is to go again.

use super::facts::{cluster_dns, no_address, serving};
use crate::endpoint::authority;
use crate::record;
use crate::subject::Tenant;
use crate::validate::writers;
use berth_api::cluster::{AddonStatus, ClusterStatus, ProxyMode};
use berth_api::conditions::Reason;
use berth_api::version::Version;
use berth_plan::model::State;
use berth_render::values::{CoreDnsValues, KubeProxyValues};
use berth_render::{Catalog, TemplateSet, TenantSet, images};
use serde_json::{Map, Value};

/// Fields of the configuration that Berth sets.
const OWN: [&str; 5] = ["apiVersion", "kind", "mode", "clusterCIDR", "hostnameOverride"];
const CLIENT: &str = "clientConnection";

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addons {
    /// Those that the tenant is pinned to. None: those of this build.
    pinned: Option<TemplateSet>,
    pub(super) all: Vec<Addon>,
    /// What of the spec is refused: that add-on is left as it is.
    pub(super) refused: Option<String>,
}

impl Addons {
    /// Of a tenant, or what is waited for until it is known.
    pub(super) fn of(t: &Tenant<'_>) -> Result<Self, State> {
        let builtin = Catalog::builtin().kubernetes(t.pin().version.minor());
        let has_addons = |set: &&TemplateSet| set.coredns().is_some();
        // A tenant whose templates are older than add-ons takes those of this build until its version changes.
        let own = t.templates().filter(has_addons);
        let Some(templates) = own.or(builtin) else { return Ok(Self { pinned: None, all: vec![], refused: None }) };
        let pinned =
            if Some(templates.digest()) == builtin.map(TemplateSet::digest) { None } else { templates.addons() };
        // A registry that is refused changes nothing that runs: the components' stages say so.
        if writers::images(&t.cluster.spec.images, &t.settings.writers).is_err() {
            return Ok(Self { pinned: None, all: vec![], refused: None });
        }
        let (asked, network) = (&t.cluster.spec.addons, &t.cluster.spec.network);
        let recorded = record::addons(t);
        let by_default = recorded.as_ref().is_some_and(|r| r.by_default);
        let of_operator = recorded.map_or_else(|| t.settings.registry.clone(), |r| r.registry);
        let registry = t.cluster.spec.images.registry.clone().unwrap_or(of_operator);
        let mut all = vec![];
        if let Some(version) = templates.coredns() {
            let values = CoreDnsValues {
                image: images::coredns(&registry, version),
                replicas: asked.core_dns.replicas,
                dns_domain: network.dns_domain.clone(),
                cluster_dns: cluster_dns(&network.service_cidrs).unwrap_or_default(),
            };
            let enabled = asked.core_dns.enabled.unwrap_or(by_default);
            all.push(Addon { set: TenantSet::CoreDns(values), version: version.to_string(), enabled });
        }
        let enabled = asked.kube_proxy.enabled.unwrap_or(by_default);
        let refused = refused(&asked.kube_proxy.config).filter(|_| enabled);
        if refused.is_none() {
            let (host, port) = t.endpoint.nodes.clone().ok_or_else(no_address)?;
            let version: Version = serving(t).parse().unwrap_or(t.pin().version);
            let mut config = asked.kube_proxy.config.clone();
            let client_connection = config.remove(CLIENT).and_then(|c| c.as_object().cloned()).unwrap_or_default();
            let mode = match asked.kube_proxy.mode {
                ProxyMode::Iptables => "iptables",
                ProxyMode::Nftables => "nftables",
            };
            let values = KubeProxyValues {
                image: images::kube_proxy(&registry, version),
                endpoint: authority(&host, port),
                pod_cidrs: network.pod_cidrs.join(","),
                mode: mode.into(),
                client_connection,
                config,
            };
            all.push(Addon { set: TenantSet::KubeProxy(values), version: version.to_string(), enabled });
        }
        Ok(Self { pinned, all, refused })
    }

    /// What they are rendered from.
    pub(super) fn templates(&self, version: Version) -> Option<&TemplateSet> {
        self.pinned.as_ref().or_else(|| Catalog::builtin().kubernetes(version.minor()))
    }
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
    let by_default = record::addons(t).is_some_and(|r| r.by_default);
    let asked = &t.cluster.spec.addons;
    let off = [("coredns", asked.core_dns.enabled), ("kube-proxy", asked.kube_proxy.enabled)];
    let off = off.map(|(name, enabled)| (name, !enabled.unwrap_or(by_default)));
    let ClusterStatus { addons, .. } = t.status();
    addons.iter().any(|a| off.contains(&(a.name.as_str(), true)))
}

pub(super) fn refusal(message: &str) -> State {
    State::blocked(Reason::InvalidSpec, message)
}

/// What the status tells of one. `former`: what it told.
pub(super) fn status(addon: &Addon, former: Option<AddonStatus>, due: bool, is_left: bool) -> Option<AddonStatus> {
    let name = addon.set.name().to_owned();
    match (addon.enabled, due) {
        (true, false) => Some(AddonStatus { name, version: Some(addon.version.clone()) }),
        (true, true) => Some(former.unwrap_or(AddonStatus { name, version: None })),
        (false, _) if is_left => Some(former.unwrap_or(AddonStatus { name, version: None })),
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
