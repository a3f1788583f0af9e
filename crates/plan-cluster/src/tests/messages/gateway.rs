//! Situations of a tenant behind the platform's gateway.

use super::super::route::platform;
use super::*;
use berth_api::gateway::ClusterName;
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::{Engine, Gateway};

/// There is a gateway, and the spec asks for this host there.
fn behind(f: &mut Fixture, host: Option<&str>) {
    f.settings.gateway =
        Some(Gateway { domain: "api.example.com".into(), port: 6443, named_port: 6444, ..Gateway::default() });
    let endpoint = json!({"type": "Gateway", "host": host});
    f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
}

/// Gateways of the platform's own lead there, Berth's beside them or not; the meta cluster serves routes.
fn routed(f: &mut Fixture, engines: &[Engine]) {
    f.settings.gateway = Some(platform(engines));
    f.world.observed.routes = RoutesSeen::Served;
    f.cluster.spec.endpoint = serde_json::from_value(json!({"type": "Gateway"})).unwrap();
}

/// They lead there alone, and the route is so old, with this condition besides those that are fine.
fn answered(f: &mut Fixture, seconds: i64, condition: Option<(&str, &str, &str)>) {
    routed(f, &[Engine::GatewayAPI]);
    f.rest();
    f.seconds(seconds);
    let Some((type_, status, reason)) = condition else { return };
    let live = f.live(Kind::TLSRoute, names::APISERVER);
    let of = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason,
        "message": "", "observedGeneration": live["metadata"]["generation"]})
    };
    let mut all = vec![of("Accepted", "True", "Accepted"), of("ResolvedRefs", "True", "ResolvedRefs")];
    all.retain(|condition| condition["type"] != type_);
    all.push(of(type_, status, reason));
    let parent = json!({"namespace": "edge", "name": "tls"});
    live["status"] = json!({"parents": [{"parentRef": parent, "controllerName": "example.com/c", "conditions": all}]});
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
    ("a Gateway of the platform leads to the tenant", |f| {
        answered(f, 0, Some(("Accepted", "True", "Accepted")));
    }),
    ("a Gateway of the platform has not answered yet", |f| answered(f, 0, None)),
    ("nobody answers for a Gateway of the platform", |f| answered(f, 61, None)),
    ("a Gateway of the platform does not admit the control-plane namespace", |f| {
        answered(f, 0, Some(("Accepted", "False", "NotAllowedByListeners")));
    }),
    ("a Gateway of the platform has no listener for TLS, and gateway.parents names one", |f| {
        answered(f, 0, Some(("Accepted", "False", "NoMatchingParent")));
        let gateway = f.settings.gateway.as_mut().unwrap();
        gateway.parents[0].section_name = Some("tenants".into());
        f.live(Kind::TLSRoute, names::APISERVER)["status"]["parents"][0]["parentRef"]["sectionName"] = "tenants".into();
        for condition in
            f.live(Kind::TLSRoute, names::APISERVER)["status"]["parents"][0]["conditions"].as_array_mut().unwrap()
        {
            condition["observedGeneration"] = 9.into();
        }
    }),
    ("a Gateway of the platform has no listener for the names", |f| {
        answered(f, 0, Some(("Accepted", "False", "NoMatchingListenerHostname")));
    }),
    ("a Gateway of the platform refuses the route for a reason of its own", |f| {
        answered(f, 0, Some(("Accepted", "False", "UnsupportedValue")));
    }),
    ("a Gateway of the platform does not find the Service", |f| {
        answered(f, 0, Some(("ResolvedRefs", "False", "BackendNotFound")));
    }),
    ("a Gateway of the platform may not lead to the Service", |f| {
        answered(f, 0, Some(("ResolvedRefs", "False", "RefNotPermitted")));
    }),
    ("a Gateway's controller has not looked at a change of the route", |f| {
        answered(f, 61, Some(("Accepted", "True", "Accepted")));
        f.live(Kind::TLSRoute, names::APISERVER)["metadata"]["generation"] = 9.into();
    }),
    ("a Gateway's controller has not decided about the route for a minute", |f| {
        answered(f, 61, Some(("Accepted", "Unknown", "Pending")));
    }),
    ("a Gateway's controller has not written all conditions of the route for a minute", |f| {
        answered(f, 61, Some(("Later", "True", "Later")));
        let conditions = f.live(Kind::TLSRoute, names::APISERVER).pointer_mut("/status/parents/0/conditions").unwrap();
        conditions.as_array_mut().unwrap().retain(|condition| condition["type"] != "Accepted");
    }),
    ("a Gateway of the platform has not decided about the route", |f| {
        answered(f, 0, Some(("Accepted", "Unknown", "Pending")));
    }),
    ("a Gateway of the platform has not looked at a change of the route", |f| {
        answered(f, 0, Some(("Accepted", "True", "Accepted")));
        f.live(Kind::TLSRoute, names::APISERVER)["metadata"]["generation"] = 9.into();
    }),
    ("a Gateway of the platform says nothing of the route's Service", |f| {
        answered(f, 0, Some(("Accepted", "True", "Accepted")));
        let all = &mut f.live(Kind::TLSRoute, names::APISERVER)["status"]["parents"][0]["conditions"];
        all.as_array_mut().unwrap().retain(|condition| condition["type"] == "Accepted");
    }),
    ("the meta cluster has no TLSRoute", |f| {
        routed(f, &[Engine::GatewayAPI]);
        f.world.observed.routes = RoutesSeen::Missing(vec![]);
    }),
    ("the meta cluster has an older TLSRoute, and Berth's gateway leads there", |f| {
        routed(f, &[Engine::Berth, Engine::GatewayAPI]);
        f.world.observed.routes = RoutesSeen::Missing(vec!["v1alpha2".into(), "v1alpha3".into()]);
    }),
    ("the operator may not list TLSRoutes", |f| {
        routed(f, &[Engine::Berth, Engine::GatewayAPI]);
        f.world.observed.routes = RoutesSeen::Denied;
    }),
    ("somebody else's TLSRoute has the name of the tenant's", |f| {
        routed(f, &[Engine::Berth, Engine::GatewayAPI]);
        f.world.put(Fixture::key(Kind::TLSRoute, names::APISERVER), json!({"metadata": {"name": names::APISERVER}}));
    }),
    ("the TLSRoute is being deleted", |f| {
        answered(f, 0, None);
        f.live(Kind::TLSRoute, names::APISERVER)["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }),
    ("a Gateway of the platform is to lead to the tenant, which is paused", |f| {
        routed(f, &[Engine::GatewayAPI]);
        f.hold();
    }),
    ("spec.endpoint.gateway.sourceRanges beside a Gateway of the platform", |f| {
        routed(f, &[Engine::Berth, Engine::GatewayAPI]);
        f.cluster.spec.endpoint.gateway.source_ranges = Some(vec!["203.0.113.0/24".into()]);
    }),
    (
        "spec.endpoint.gateway.maxConnections is set while a Gateway of the platform leads there, and the tenant is paused",
        |f| {
            routed(f, &[Engine::Berth, Engine::GatewayAPI]);
            f.rest();
            f.cluster.spec.endpoint.gateway.max_connections = Some(9);
            f.hold();
        },
    ),
    ("spec.endpoint.gateway.maxConnections where Gateways of the platform alone lead to tenants", |f| {
        routed(f, &[Engine::GatewayAPI]);
        f.cluster.spec.endpoint.gateway.max_connections = Some(9);
    }),
    ("spec.addons.apiProxy where Gateways of the platform alone lead to tenants", |f| {
        routed(f, &[Engine::GatewayAPI]);
        f.cluster.spec.addons.api_proxy.enabled = Some(true);
    }),
    ("a tenant that Gateways of the platform alone lead to has nodes, and none has an address for its pods", |f| {
        answered(f, 0, Some(("Accepted", "True", "Accepted")));
        f.nodes_in("192.0.2.0/24", &["192.0.2.0/24"]);
    }),
];
