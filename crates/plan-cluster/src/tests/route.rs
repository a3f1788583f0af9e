//! A tenant that `Gateway`s of the platform's own lead to: its route, what is said of it, and what is not possible there.

mod held;
mod parent;

use super::endpoint::server;
use super::*;
use berth_api::labels;
use berth_plan::Action;
use berth_plan::object_meta::annotation;
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::{Engine, Gateway, Parent};
use jiff::SignedDuration;

const OWN: &str = "acme-9201d5e7.api.example.com";
const BOTH: &[Engine] = &[Engine::Berth, Engine::GatewayAPI];
const ALONE: &[Engine] = &[Engine::GatewayAPI];

/// A platform with these engines.
pub(super) fn platform(engines: &[Engine]) -> Gateway {
    let parent = Parent { namespace: "edge".into(), name: "tls".into(), section_name: None };
    let parents = engines.contains(&Engine::GatewayAPI).then_some(parent).into_iter().collect();
    Gateway { domain: "api.example.com".into(), port: 443, engines: engines.to_vec(), parents, ..Gateway::default() }
}

fn ask(f: &mut Fixture, endpoint: Value) {
    f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
}

/// A tenant there, of a meta cluster that serves routes.
fn up(engines: &[Engine], endpoint: Value) -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.gateway = Some(platform(engines));
    f.settings.writers.hosts = vec!["*.acme.example".into()];
    f.world.observed.routes = RoutesSeen::Served;
    ask(&mut f, endpoint);
    f.rest();
    f.world.log.clear();
    f
}

fn route(f: &Fixture) -> Option<&Value> {
    f.world.observed.get(&Fixture::key(Kind::TLSRoute, names::APISERVER))
}

fn is_marked(f: &Fixture) -> bool {
    let service = f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap();
    annotation(service, labels::TLS_ROUTE).is_some()
}

/// The conditions that a controller writes, each with its status and reason.
fn conditions(of: &[(&str, &str, &str)], generation: &Value) -> Value {
    let one = |(type_, status, reason): &(&str, &str, &str)| {
        json!({"type": type_, "status": status, "reason": reason,
        "message": "as it says", "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    of.iter().map(one).collect()
}

const FINE: &[(&str, &str, &str)] = &[("Accepted", "True", "Accepted"), ("ResolvedRefs", "True", "ResolvedRefs")];

/// The controller of `Gateway` edge/tls answers.
fn answer(f: &mut Fixture, of: &[(&str, &str, &str)]) {
    let now = f.world.now.to_string();
    let live = f.live(Kind::TLSRoute, names::APISERVER);
    let parent_ref =
        json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "edge", "name": "tls"});
    let mut conditions = conditions(of, &live["metadata"]["generation"]);
    for condition in conditions.as_array_mut().unwrap() {
        condition["lastTransitionTime"] = now.as_str().into();
    }
    live["status"]["parents"] =
        json!([{"parentRef": parent_ref, "controllerName": "example.com/c", "conditions": conditions}]);
    f.reconcile();
}

fn hosts(f: &Fixture) -> Vec<&str> {
    f.cluster.status.as_ref().unwrap().endpoints.iter().map(|endpoint| &*endpoint.host).collect()
}

/// Status and reason.
fn says(f: &Fixture, type_: &str) -> (String, String) {
    let (status, reason, _) = f.condition(type_);
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn it_has_the_names_and_leads_to_the_service_and_nothing_restarts() {
    let mut f = up(&[Engine::Berth], json!({"type": "Gateway", "host": "api.acme.example"}));
    let (before, pods) = (server(&f), f.component(names::APISERVER)["template"].clone());
    assert_eq!((route(&f), is_marked(&f)), (None, false));
    f.settings.gateway = Some(platform(BOTH));
    f.rest();
    let home = Fixture::cp_namespace();
    let wrote = [format!("apply Service {home}/kube-apiserver"), format!("apply TLSRoute {home}/kube-apiserver")];
    assert_eq!(f.world.log, wrote, "the mark comes first");
    let live = route(&f).unwrap();
    let backend = json!({"group": "", "kind": "Service", "name": "kube-apiserver", "port": 6443, "weight": 1});
    let parent = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "edge", "name": "tls"});
    assert_eq!(
        live["spec"],
        json!({"hostnames": [OWN, "api.acme.example"], "parentRefs": [parent], "rules": [{"backendRefs": [backend]}]})
    );
    assert_eq!(live["metadata"]["labels"][labels::CLUSTER_NAME], "acme");
    assert_eq!((server(&f), f.component(names::APISERVER)["template"].clone()), (before, pods));
    // Somebody changes it, and it is put right.
    f.live(Kind::TLSRoute, names::APISERVER)["spec"]["rules"][0]["backendRefs"][0]["port"] = json!(1);
    f.world.log.clear();
    f.rest();
    assert_eq!(f.world.log, wrote[1..]);
    // A host that it gives up is no name of the route's any more.
    ask(&mut f, json!({"type": "Gateway"}));
    f.seconds(600);
    f.rest();
    assert_eq!(route(&f).unwrap()["spec"]["hostnames"], json!([OWN]));
}

#[test]
fn what_a_gateway_answers_is_said_and_endpoints_follow_where_nothing_else_leads_there() {
    let mut f = up(ALONE, json!({"type": "Gateway"}));
    assert_eq!((says(&f, "RouteAccepted"), says(&f, "Ready")), (is("Unknown", "Waiting"), is("False", "Waiting")));
    assert!(f.condition("Ready").2.contains("waiting for Gateway edge/tls to answer for TLSRoute acme-9201d5e7/"));
    assert_eq!((f.condition("Degraded").0, f.condition("Available").0), ("False".to_owned(), "True".to_owned()));
    let due = f.plan().due.unwrap();
    assert!(due.is_positive() && due <= SignedDuration::from_secs(60), "{due}");
    f.seconds(61);
    f.reconcile();
    let silent = is("False", "RouteNotAccepted");
    assert_eq!((says(&f, "RouteAccepted"), says(&f, "Ready")), (silent.clone(), silent));
    assert!(f.condition("RouteAccepted").2.contains("no controller has answered for Gateway edge/tls. Check that"));
    assert_eq!((f.condition("Degraded").0, hosts(&f)), ("True".to_owned(), vec![]));
    assert_eq!(f.plan().plan.first_problem(), None, "the rest of the tenant goes on");

    answer(&mut f, FINE);
    assert_eq!((says(&f, "RouteAccepted"), hosts(&f)), (is("True", "AsExpected"), vec![OWN]));
    assert_eq!((f.condition("Ready").0, f.condition("Degraded").0), ("True".to_owned(), "False".to_owned()));
    assert_eq!(server(&f), format!("https://{OWN}:443"));
    for (of, why) in [
        (
            ("Accepted", "False", "NotAllowedByListeners"),
            "edge/tls does not admit routes of namespace acme-9201d5e7: Accepted is False, NotAllowedByListeners (as it says). Let allowedRoutes of its listener with protocol TLS have TLSRoute among its kinds, and namespaces with the label app.kubernetes.io/managed-by=berth",
        ),
        (
            ("Accepted", "False", "NoMatchingParent"),
            "edge/tls has no listener that takes it: Accepted is False, NoMatchingParent (as it says). Give it a listener",
        ),
        (
            ("Accepted", "False", "NoMatchingListenerHostname"),
            "has no listener for its names: Accepted is False, NoMatchingListenerHostname (as it says). Set hostname of its listener with protocol TLS to *.api.example.com",
        ),
        (
            ("Accepted", "False", "UnsupportedValue"),
            "refuses it: Accepted is False, UnsupportedValue (as it says). Do what its controller says",
        ),
        (
            ("ResolvedRefs", "False", "BackendNotFound"),
            "does not find Service kube-apiserver, port 6443: ResolvedRefs is False, BackendNotFound",
        ),
        (
            ("ResolvedRefs", "False", "RefNotPermitted"),
            "does not lead to Service kube-apiserver: ResolvedRefs is False, RefNotPermitted",
        ),
    ] {
        let all = if of.0 == "Accepted" { [of, FINE[1]] } else { [FINE[0], of] };
        answer(&mut f, &all);
        let refused = is("False", "RouteNotAccepted");
        assert_eq!(
            (says(&f, "RouteAccepted"), says(&f, "Ready"), hosts(&f)),
            (refused.clone(), refused, vec![]),
            "{of:?}"
        );
        assert!(f.condition("Ready").2.contains(why), "{}", f.condition("Ready").2);
        answer(&mut f, FINE);
        assert_eq!((f.condition("Ready").0, hosts(&f)), ("True".to_owned(), vec![OWN]));
    }
    // What is not decided changes nothing of what people were told.
    for of in [
        &[("Accepted", "Unknown", "Pending"), FINE[1]][..],
        &[("Accepted", "False", "Pending"), FINE[1]],
        &[("Accepted", "True", "Accepted")],
    ] {
        answer(&mut f, of);
        assert_eq!((says(&f, "RouteAccepted"), hosts(&f)), (is("Unknown", "Waiting"), vec![OWN]), "{of:?}");
    }
}

#[test]
fn an_answer_to_an_older_route_or_for_another_gateway_does_not_count() {
    let mut f = up(ALONE, json!({"type": "Gateway"}));
    answer(&mut f, FINE);
    ask(&mut f, json!({"type": "Gateway", "host": "api.acme.example"}));
    f.rest();
    let stale = "waiting for Gateway edge/tls to look at the change of TLSRoute";
    assert!(f.condition("RouteAccepted").2.starts_with(stale), "{}", f.condition("RouteAccepted").2);
    assert_eq!((says(&f, "Ready"), hosts(&f)), (is("False", "Waiting"), vec![OWN]), "as it was");
    answer(&mut f, FINE);
    assert_eq!(hosts(&f), ["api.acme.example"]);
    for (field, other) in [("name", "b"), ("namespace", "b"), ("sectionName", "b"), ("kind", "Service")] {
        let refs = f.live(Kind::TLSRoute, names::APISERVER).pointer_mut("/status/parents/0/parentRef").unwrap();
        let before = refs.clone();
        refs[field] = other.into();
        f.reconcile();
        assert_ne!(f.condition("RouteAccepted").0, "True", "{field}");
        *f.live(Kind::TLSRoute, names::APISERVER).pointer_mut("/status/parents/0/parentRef").unwrap() = before;
        f.reconcile();
        assert_eq!(f.condition("RouteAccepted").0, "True");
    }
    // One of two leads there: people get in, and the other one is named.
    let more = Parent { namespace: "edge".into(), name: "b".into(), section_name: Some("c".into()) };
    f.settings.gateway.as_mut().unwrap().parents.push(more);
    f.rest();
    f.seconds(61);
    answer(&mut f, FINE);
    assert_eq!(
        (says(&f, "RouteAccepted"), f.condition("Ready").0),
        (is("False", "RouteNotAccepted"), "True".to_owned())
    );
    assert!(f.condition("RouteAccepted").2.contains("Gateway edge/b (listener c)"));
    assert_eq!(hosts(&f), ["api.acme.example"]);
}

#[test]
fn beside_berths_gateway_nothing_waits_for_it() {
    let mut f = up(BOTH, json!({"type": "Gateway"}));
    assert_eq!((says(&f, "RouteAccepted"), f.condition("Ready").0), (is("Unknown", "Waiting"), "True".to_owned()));
    f.seconds(61);
    f.reconcile();
    assert_eq!(
        (says(&f, "RouteAccepted"), f.condition("Ready").0),
        (is("False", "RouteNotAccepted"), "True".to_owned())
    );
    assert_eq!(hosts(&f), [OWN]);
}

#[test]
fn limits_end_the_route_at_once_whatever_else_is_to_be_done() {
    for field in ["sourceRanges", "maxConnections"] {
        let limits = if field == "sourceRanges" { json!({field: ["203.0.113.0/24"]}) } else { json!({field: 9}) };
        let mut f = up(BOTH, json!({"type": "Gateway"}));
        answer(&mut f, FINE);
        // A stage that waits keeps leftovers from being removed, and not this.
        f.cluster.spec.scheduler.placement.node_selector.insert("disk".into(), "ssd".into());
        ask(&mut f, json!({"type": "Gateway", "gateway": limits}));
        f.reconcile();
        assert_eq!(route(&f), None, "{field}");
        f.cluster.spec.scheduler.placement.node_selector.clear();
        f.rest();
        let told = f.condition("RouteAccepted");
        assert_eq!((&*told.0, &*told.1, &*f.condition("Ready").0), ("False", "NotAllowed", "True"));
        assert!(told.2.starts_with(&format!("spec.endpoint.gateway.{field}: the platform's Gateways")), "{}", told.2);
        assert!(told.2.ends_with("ask the platform team to take GatewayAPI out of gateway.engines"), "{}", told.2);
        assert_eq!((hosts(&f), is_marked(&f)), (vec![OWN], false));
        // Without Berth's gateway it is refused.
        f.settings.gateway = Some(platform(ALONE));
        f.reconcile();
        let said = blocked(&f.reconcile(), StageId::Spec, Reason::NotAllowed);
        assert!(said.starts_with(&format!("spec.endpoint.gateway.{field} is not allowed, since")), "{said}");
        assert_eq!((route(&f), hosts(&f)), (None, vec![]));
        ask(&mut f, json!({"type": "Gateway"}));
        f.rest();
        answer(&mut f, FINE);
        assert_eq!((f.condition("Ready").0, hosts(&f)), ("True".to_owned(), vec![OWN]));

        let mut new = Fixture::new(json!({"version": "1.36.3", "endpoint": {"type": "Gateway", "gateway": limits}}));
        new.settings.gateway = Some(platform(ALONE));
        blocked(&new.reconcile(), StageId::Spec, Reason::NotAllowed);
        assert!(new.world.log.is_empty(), "nothing is made: {:?}", new.world.log);
    }
}

#[test]
fn the_add_on_for_pods_needs_berths_gateway() {
    let mut f = up(BOTH, json!({"type": "Gateway"}));
    f.cluster.spec.addons.api_proxy.enabled = Some(true);
    f.rest();
    assert_eq!(f.plan().plan.stage(StageId::Spec).unwrap().state, State::Ready);
    f.settings.gateway = Some(platform(ALONE));
    let said = blocked(&f.reconcile(), StageId::Spec, Reason::NotAllowed);
    assert!(said.starts_with("spec.addons.apiProxy.enabled is not allowed, since pods send no name"), "{said}");
    f.cluster.spec.addons.api_proxy.enabled = None;
    f.rest();
    let (_, reason, message) = f.condition("PodsReachAPI");
    assert_eq!(reason, "NoIPAddress");
    assert!(message.contains("Set spec.endpoint.advertiseAddress") && !message.contains("apiProxy"), "{message}");
}

#[test]
fn a_meta_cluster_without_routes_says_so_and_all_else_goes_on() {
    for (versions, says_of) in [
        (vec![], "TLSRoute gateway.networking.k8s.io/v1: the meta cluster does not have it, so nothing"),
        (vec!["v1alpha2", "v1alpha3"], "the meta cluster has it only as v1alpha2, v1alpha3, so nothing"),
    ] {
        let mut f = up(BOTH, json!({"type": "Gateway"}));
        f.world.observed.objects.remove(&Fixture::key(Kind::TLSRoute, names::APISERVER));
        f.world.observed.routes = RoutesSeen::Missing(versions.into_iter().map(str::to_owned).collect());
        f.rest();
        let told = f.condition("RouteAccepted");
        assert_eq!((&*told.0, &*told.1, &*f.condition("Ready").0), ("False", "NoGatewayAPI", "True"));
        assert!(told.2.contains(says_of) && told.2.contains("version 1.5 or newer, standard channel"), "{}", told.2);
        assert_eq!((route(&f), is_marked(&f), f.plan().due), (None, false, Some(SignedDuration::from_mins(5))));
        f.settings.gateway = Some(platform(ALONE));
        f.reconcile();
        assert_eq!((says(&f, "Ready"), hosts(&f)), (is("False", "NoGatewayAPI"), vec![]));
        assert_eq!(f.plan().plan.first_problem(), None);
    }
}

#[test]
fn it_goes_with_the_engine_and_with_the_type_and_then_nobody_looks_for_it() {
    let mut f = up(BOTH, json!({"type": "Gateway"}));
    answer(&mut f, FINE);
    assert!(is_marked(&f));
    f.settings.gateway = Some(platform(&[Engine::Berth]));
    f.world.log.clear();
    f.rest();
    let home = Fixture::cp_namespace();
    let gone = [format!("delete TLSRoute {home}/kube-apiserver"), format!("apply Service {home}/kube-apiserver")];
    assert_eq!((&f.world.log[..], route(&f), is_marked(&f)), (&gone[..], None, false));
    assert!(f.cluster.status.as_ref().unwrap().conditions.iter().all(|c| c.type_ != "RouteAccepted"));

    f.settings.gateway = Some(platform(ALONE));
    f.rest();
    answer(&mut f, FINE);
    ask(&mut f, json!({}));
    let first: Vec<String> = f.plan().plan.actions().map(Action::describe).collect();
    assert!(!first.iter().any(|write| write.contains("TLSRoute")), "kubeconfigs have the name: {first:#?}");
    f.rest();
    assert_eq!((route(&f), is_marked(&f)), (None, false));
}

#[test]
fn what_may_not_be_seen_or_is_somebody_elses_stays() {
    let mut f = up(ALONE, json!({"type": "Gateway"}));
    answer(&mut f, FINE);
    f.world.log.clear();
    let key = Fixture::key(Kind::TLSRoute, names::APISERVER);
    let live = f.world.observed.objects.remove(&key).unwrap();
    f.world.observed.routes = RoutesSeen::Denied;
    f.rest();
    assert_eq!(says(&f, "RouteAccepted"), is("Unknown", "PermissionDenied"));
    assert_eq!((f.world.log.clone(), is_marked(&f), hosts(&f)), (vec![], true, vec![OWN]));
    let mut foreign = live;
    foreign["metadata"]["labels"] = Value::Null;
    foreign["metadata"]["annotations"] = Value::Null;
    f.world.observed.routes = RoutesSeen::Served;
    f.world.put(key, foreign);
    blocked(&f.reconcile(), StageId::Endpoint, Reason::ForeignObject);
    assert_eq!(says(&f, "RouteAccepted"), is("False", "ForeignObject"));
    ask(&mut f, json!({"type": "Gateway", "gateway": {"maxConnections": 9}}));
    f.reconcile();
    assert!(route(&f).is_some() && f.world.log.iter().all(|write| !write.starts_with("delete")), "{:?}", f.world.log);
}
