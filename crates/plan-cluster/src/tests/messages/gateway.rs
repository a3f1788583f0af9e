//! Situations of a tenant behind the platform's gateway.

use super::*;
use berth_api::gateway::ClusterName;
use berth_plan::settings::Gateway;

/// There is a gateway, and the spec asks for this host there.
fn behind(f: &mut Fixture, host: Option<&str>) {
    f.settings.gateway =
        Some(Gateway { domain: "api.example.com".into(), port: 6443, named_port: 6444, ..Gateway::default() });
    let endpoint = json!({"type": "Gateway", "host": host});
    f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
}

pub(super) const GATEWAY: &[Case] = &[
    ("spec.endpoint.type is Gateway, and the platform has none", |f| {
        f.cluster.spec.endpoint.type_ = berth_api::cluster::EndpointType::Gateway;
    }),
    ("a tenant behind the gateway has nodes, and none has an address for its pods", |f| {
        behind(f, None);
        f.nodes_in("192.0.2.0/24", &["192.0.2.0/24"]);
    }),
    ("a tenant behind the gateway has the add-on apiProxy, and its address is in a range of pods", |f| {
        behind(f, None);
        f.cluster.spec.addons.api_proxy.enabled = Some(true);
        f.cluster.spec.network.pod_cidrs = vec!["240.0.0.0/16".into()];
    }),
    ("the address for the add-on apiProxy is one of a Service", |f| {
        behind(f, None);
        f.cluster.spec.addons.api_proxy.enabled = Some(true);
        f.cluster.spec.endpoint.advertise_address = Some("10.112.0.9".into());
    }),
    ("the address for the add-on apiProxy is one that nodes may have", |f| {
        behind(f, None);
        f.cluster.spec.addons.api_proxy.enabled = Some(true);
        f.cluster.spec.endpoint.advertise_address = Some("203.0.113.7".into());
    }),
    ("the address for the add-on apiProxy is where the API is", |f| {
        let endpoint = json!({"host": "192.0.2.7", "advertiseAddress": "192.0.2.7"});
        f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
        f.cluster.spec.addons.api_proxy.enabled = Some(true);
    }),
    ("a tenant behind the gateway has the add-on apiProxy", |f| {
        behind(f, None);
        f.cluster.spec.addons.api_proxy.enabled = Some(true);
        f.nodes_in("192.0.2.0/24", &["192.0.2.0/24"]);
    }),
    ("spec.endpoint.host behind the gateway is an IP address", |f| behind(f, Some("192.0.2.7"))),
    ("spec.endpoint.host is a name of the gateway's own", |f| behind(f, Some("other.api.example.com"))),
    ("a range of spec.endpoint.gateway.sourceRanges is none", |f| {
        behind(f, None);
        f.cluster.spec.endpoint.gateway.source_ranges = Some(vec!["203.0.113.0".into()]);
    }),
    ("spec.endpoint.host behind the gateway is another tenant's", |f| {
        behind(f, Some("api.acme.example"));
        f.settings.writers.hosts = vec!["*".into()];
        f.world.observed.host_is_of = Some(ClusterName { namespace: "team-b".into(), name: "other".into() });
    }),
    ("spec.endpoint.host behind the gateway is not allowed", |f| behind(f, Some("api.acme.example"))),
];
