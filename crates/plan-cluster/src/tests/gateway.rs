//! A tenant behind the platform's gateway: how it gets there and back, and what is refused.

use super::endpoint::{dialled, has_san, server};
use super::*;
use berth_api::cluster::EndpointType;
use berth_api::gateway::{ANNOTATION, ClusterName, Exposed, LABEL, LABELLED};
use berth_plan::Action;
use berth_plan::object_meta::{annotation, label};
use berth_plan::settings::Gateway;

const OWN: &str = "acme-9201d5e7.api.example.com";

/// A tenant of a platform with a gateway.
fn up(endpoint: Value) -> Fixture {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.gateway =
        Some(Gateway { domain: "api.example.com".into(), port: 443, named_port: 444, ..Gateway::default() });
    f.settings.writers.hosts = vec!["*.acme.example".into()];
    ask(&mut f, endpoint);
    f.rest();
    assert_eq!(f.plan().plan.first_problem(), None);
    f.world.log.clear();
    f
}

fn ask(f: &mut Fixture, endpoint: Value) {
    f.cluster.spec.endpoint = serde_json::from_value(endpoint).unwrap();
}

fn service(f: &Fixture) -> &Value {
    f.world.observed.get(&Fixture::key(Kind::Service, names::APISERVER)).unwrap()
}

/// The names that the gateway is told. None: the Service is none that it looks at.
fn told(f: &Fixture) -> Option<Vec<String>> {
    let text = annotation(service(f), ANNOTATION);
    assert_eq!(text.is_some(), label(service(f), LABEL) == Some(LABELLED), "both or none");
    let exposed: Exposed = serde_json::from_str(text?).unwrap();
    assert_eq!((&*exposed.cluster.namespace, &*exposed.cluster.name), ("team-a", "acme"));
    Some(exposed.names)
}

fn pods(f: &Fixture) -> Value {
    f.component(names::APISERVER)["template"].clone()
}

fn writes(f: &Fixture) -> Vec<String> {
    f.plan().plan.actions().map(Action::describe).collect()
}

#[test]
fn it_goes_behind_the_gateway_and_comes_back_without_a_restart() {
    let mut f = up(json!({}));
    let (before, pods_before, inside) = (server(&f), pods(&f), f.cluster_ip());
    assert_eq!(told(&f), None);
    ask(&mut f, json!({"type": "Gateway"}));
    let first = writes(&f);
    assert!(first.iter().any(|w| w.contains("kube-apiserver-pki")), "{first:#?}");
    assert!(!first.iter().any(|w| w.contains("kubeconfig")), "its certificate has not the name yet: {first:#?}");
    f.rest();
    assert_eq!(told(&f).unwrap(), [OWN]);
    assert_eq!(service(&f)["spec"]["type"], "ClusterIP");
    assert!(has_san(&f, OWN) && has_san(&f, &inside));
    assert_eq!(server(&f), format!("https://{OWN}:443"));
    let endpoints = &f.cluster.status.as_ref().unwrap().endpoints;
    assert_eq!((&*endpoints[0].host, endpoints[0].port), (OWN, 443));
    assert_eq!(dialled(&f), (inside, 6443), "the gateway is nothing that the operator needs");
    assert_eq!((pods(&f), f.plan().plan.first_problem()), (pods_before.clone(), None));
    let (status, reason, message) = f.condition("PodsReachAPI");
    assert_eq!((&*status, &*reason), ("False", "NoIPAddress"));
    assert!(message.contains(&format!("by the name {OWN} alone. Set spec.addons.apiProxy.enabled")), "{message}");
    ask(&mut f, json!({}));
    let first = writes(&f);
    let service = Fixture::key(Kind::Service, names::APISERVER).to_string();
    assert!(!first.contains(&format!("apply {service}")), "kubeconfigs have the name: {first:#?}");
    f.rest();
    assert_eq!((told(&f), server(&f), pods(&f)), (None, before, pods_before));
    assert_eq!(f.plan().plan.first_problem(), None);
}

#[test]
fn a_host_that_kubeconfigs_have_leads_to_it_until_they_have_another() {
    let mut f = up(json!({"type": "Gateway", "host": "API.acme.example"}));
    assert_eq!(told(&f).unwrap(), [OWN, "api.acme.example"]);
    assert_eq!(server(&f), "https://API.acme.example:443");
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-1");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
    f.world.run_pod(&pod);
    f.seconds(600);
    ask(&mut f, json!({"type": "Gateway", "host": "b.acme.example"}));
    f.reconcile();
    assert!(has_san(&f, "b.acme.example"));
    assert_eq!(server(&f), "https://API.acme.example:443", "the pod may show the certificate from before");
    assert_eq!(told(&f).unwrap(), [OWN, "b.acme.example", "api.acme.example"]);
    f.seconds(151);
    f.reconcile();
    assert_eq!(server(&f), "https://b.acme.example:443");
    f.reconcile();
    assert_eq!(told(&f).unwrap(), [OWN, "b.acme.example"]);
    // Nodes have the kubeconfig from before, and the certificate has the name.
    let former = |f: &Fixture| {
        let exposed: Value = serde_json::from_str(annotation(service(f), ANNOTATION).unwrap()).unwrap();
        exposed["formerNames"].clone()
    };
    assert_eq!(former(&f), json!(["api.acme.example"]));
    ask(&mut f, json!({"type": "Gateway"}));
    f.reconcile();
    f.seconds(151);
    f.rest();
    assert_eq!((told(&f).unwrap(), former(&f)), (vec![OWN.to_owned()], json!(["api.acme.example", "b.acme.example"])));
    ask(&mut f, json!({"type": "Gateway", "host": "b.acme.example"}));
    f.seconds(151);
    f.rest();
    assert_eq!(former(&f), json!(["api.acme.example"]));
}

#[test]
fn a_host_of_another_type_is_none_at_the_gateway() {
    let mut f = up(json!({"host": "api.other.example"}));
    assert_eq!(server(&f), "https://api.other.example:6443");
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-1");
    let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
    f.world.run_pod(&pod);
    f.seconds(600);
    ask(&mut f, json!({"type": "Gateway"}));
    f.reconcile();
    assert_eq!(server(&f), "https://api.other.example:6443", "until the other one is served");
    assert_eq!(told(&f).unwrap(), [OWN]);
}

#[test]
fn what_is_refused_changes_nothing_of_what_runs() {
    let hosts = [
        ("192.0.2.7", "InvalidSpec", "192.0.2.7 is an IP address, and with type Gateway"),
        ("127.1", "InvalidSpec", "127.1 is an IP address in an unusual form"),
        ("other.API.example.com", "InvalidSpec", "other.API.example.com is below api.example.com, where Berth gives"),
        ("a.acme-9201d5e7.api.example.com", "InvalidSpec", "which is acme-9201d5e7.api.example.com for this one"),
        ("api.other.example", "NotAllowed", "api.other.example is not allowed (allowed: *.acme.example). Remove it"),
    ];
    let behind = json!({"type": "Gateway", "host": "api.acme.example"});
    let mut f = up(behind.clone());
    let (before, endpoints) = (server(&f), f.cluster.status.clone().unwrap().endpoints);
    let is_as_before = |f: &Fixture, reason: &str, why: &str| {
        let said = f.condition("Ready");
        assert_eq!((&*said.0, &*said.1), ("False", reason), "{}", said.2);
        assert!(said.2.contains(why), "{}", said.2);
        assert_eq!(f.world.log, Vec::<String>::new(), "{why}");
        assert_eq!((server(f), &f.cluster.status.as_ref().unwrap().endpoints), (before.clone(), &endpoints));
        assert_eq!(told(f).unwrap(), [OWN, "api.acme.example"]);
        assert_eq!((f.condition("Available").0, dialled(f)), ("True".to_owned(), (f.cluster_ip(), 6443)));
    };
    for (host, reason, why) in hosts {
        ask(&mut f, json!({"type": "Gateway", "host": host}));
        f.reconcile();
        is_as_before(&f, reason, &format!("spec.endpoint.host: {host} is "));
        is_as_before(&f, reason, why);
    }
    ask(&mut f, behind);
    let gateway = f.settings.gateway.take();
    f.reconcile();
    is_as_before(&f, "NotAllowed", "spec.endpoint.type: Gateway is not allowed, since the platform has no gateway");
    f.settings.gateway = gateway;
    f.reconcile();
    assert_eq!(f.condition("Ready").0, "True");
    // Its own name needs nobody's leave.
    ask(&mut f, json!({"type": "Gateway", "host": OWN}));
    f.rest();
    assert_eq!((told(&f).unwrap(), server(&f)), (vec![OWN.to_owned()], format!("https://{OWN}:443")));
}

#[test]
fn a_host_that_another_tenant_has_is_that_ones_and_told_so() {
    let mut f = up(json!({"type": "Gateway"}));
    let taken = Some(ClusterName { namespace: "team-b".into(), name: "other".into() });
    f.world.observed.host_is_of = taken.clone();
    ask(&mut f, json!({"type": "Gateway", "host": "api.acme.example"}));
    let why = blocked(&f.reconcile(), StageId::Endpoint, Reason::NotAllowed);
    let says = "spec.endpoint.host: api.acme.example is the name of Cluster team-b/other, which had it first. Set";
    assert!(why.starts_with(says), "{why}");
    assert_eq!((told(&f).unwrap(), f.condition("Available").0), (vec![OWN.to_owned()], "True".to_owned()));
    f.world.observed.host_is_of = None;
    f.rest();
    assert_eq!(told(&f).unwrap(), [OWN, "api.acme.example"]);
    let value = berth_plan::gateway_hosts::value("api.acme.example");
    assert_eq!(label(service(&f), berth_plan::gateway_hosts::LABEL), Some(&*value), "by which it is found");
    // Its own name needs nobody's leave, and is nobody else's.
    ask(&mut f, json!({"type": "Gateway"}));
    f.rest();
    assert_eq!(label(service(&f), berth_plan::gateway_hosts::LABEL), None);
}

#[test]
fn who_may_come_is_told_and_changes_nothing_else() {
    let mut f = up(json!({"type": "Gateway"}));
    let said = |f: &Fixture| -> Value {
        let exposed: Value = serde_json::from_str(annotation(service(f), ANNOTATION).unwrap()).unwrap();
        json!([exposed["sourceRanges"], exposed["maxConnections"]])
    };
    assert_eq!(said(&f), json!([null, null]));
    let asked = |ranges: Value| json!({"type": "Gateway", "gateway": {"sourceRanges": ranges, "maxConnections": 200}});
    f.world.log.clear();
    ask(&mut f, asked(json!(["203.0.113.0/24", "2001:db8::/32"])));
    let home = Fixture::cp_namespace();
    f.rest();
    assert_eq!(f.world.log, [format!("apply Service {home}/{}", names::APISERVER)]);
    assert_eq!(said(&f), json!([["203.0.113.0/24", "2001:db8::/32"], 200]));
    assert_eq!(f.plan().plan.first_problem(), None);
    // What the API server let in all the same lets nobody in.
    ask(&mut f, asked(json!(["203.0.113.0/24", "anywhere"])));
    let why = blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec);
    assert!(why.starts_with("spec.endpoint.gateway.sourceRanges: anywhere is no network in CIDR form. Set"), "{why}");
    assert_eq!(said(&f), json!([["203.0.113.0/24", "2001:db8::/32"], 200]));
}

#[test]
fn without_a_gateway_a_tenant_stays_where_it_is() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let before = server(&f);
    f.cluster.spec.endpoint.type_ = EndpointType::Gateway;
    f.cluster.spec.endpoint.host = Some("api.acme.example".into());
    let said = blocked(&f.reconcile(), StageId::Endpoint, Reason::NotAllowed);
    assert!(said.ends_with("set gateway.enabled and gateway.domain in the values of Berth's chart"), "{said}");
    assert_eq!((f.world.log.clone(), server(&f), told(&f)), (vec![], before, None));
}
