//! The examples of Kubernetes' documentation, <https://kubernetes.io/docs/concepts/services-networking/network-policies/>, with
//! what their text says that they do.

use super::*;
use serde_json::{Value, json};

const OUTSIDE: &str = "203.0.113.9";

fn policy(namespace: &str, spec: &Value) -> NetworkPolicy {
    let object = json!({"metadata": {"name": "p", "namespace": namespace}, "spec": spec});
    serde_json::from_value(object).expect("a policy")
}

fn pod(namespace: &str, labels: &Value, ip: &str) -> Pod {
    let labels = serde_json::from_value(labels.clone()).expect("labels");
    let ports = BTreeMap::from([("web".to_owned(), 80)]);
    Pod { namespace: namespace.into(), labels, ip: Some(ip.parse().expect("an address")), ports }
}

fn outside(ip: &str) -> End<'static> {
    End::Address(ip.parse().expect("an address"))
}

/// Policies in `default`, beside a namespace with the label `project: myproject` and one without.
fn network(specs: &[Value]) -> Network {
    let labels = |extra: &[(&str, &str)], name: &str| -> Labels {
        let own = [("kubernetes.io/metadata.name", name)];
        own.iter().chain(extra).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    Network {
        namespaces: BTreeMap::from([
            ("default".into(), labels(&[], "default")),
            ("mine".into(), labels(&[("project", "myproject"), ("user", "alice")], "mine")),
            ("other".into(), labels(&[], "other")),
        ]),
        policies: specs.iter().map(|s| policy("default", s)).collect(),
        blocks_cover_pods: false,
    }
}

struct Pods {
    db: Pod,
    frontend: Pod,
    other: Pod,
    mine: Pod,
    foreign_frontend: Pod,
}

fn pods() -> Pods {
    Pods {
        db: pod("default", &json!({"role": "db"}), "10.1.0.1"),
        frontend: pod("default", &json!({"role": "frontend"}), "10.1.0.2"),
        other: pod("default", &json!({}), "10.1.0.3"),
        mine: pod("mine", &json!({"role": "client"}), "10.1.0.4"),
        foreign_frontend: pod("other", &json!({"role": "frontend"}), "10.1.0.5"),
    }
}

/// The first example: `test-network-policy`.
#[test]
fn the_example_with_ingress_and_egress() {
    let net = network(&[json!({
        "podSelector": {"matchLabels": {"role": "db"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{
            "from": [
                {"ipBlock": {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}},
                {"namespaceSelector": {"matchLabels": {"project": "myproject"}}},
                {"podSelector": {"matchLabels": {"role": "frontend"}}},
            ],
            "ports": [{"protocol": "TCP", "port": 6379}],
        }],
        "egress": [{
            "to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
            "ports": [{"protocol": "TCP", "port": 5978}],
        }],
    })]);
    let Pods { db, frontend, other, mine, foreign_frontend } = pods();
    let in_6379 = |from| net.allows(from, End::Pod(&db), Protocol::Tcp, 6379);
    assert!(in_6379(End::Pod(&frontend)), "any pod in the default namespace with the label role=frontend");
    assert!(in_6379(End::Pod(&mine)), "any pod in a namespace with the label project=myproject");
    assert!(in_6379(outside("172.17.0.7")) && in_6379(outside("172.17.2.255")), "172.17.0.0-0.255 and 2.0-255.255");
    assert!(!in_6379(outside("172.17.1.7")), "but for 172.17.1.0/24");
    assert!(!in_6379(End::Pod(&other)) && !in_6379(End::Pod(&foreign_frontend)) && !in_6379(outside(OUTSIDE)));
    assert!(!net.allows(End::Pod(&frontend), End::Pod(&db), Protocol::Tcp, 6380), "another port");
    assert!(!net.allows(End::Pod(&frontend), End::Pod(&db), Protocol::Udp, 6379), "another protocol");
    let out = |ip: &str, port| net.allows(End::Pod(&db), outside(ip), Protocol::Tcp, port);
    assert!(out("10.0.0.9", 5978), "to 10.0.0.0/24 on TCP port 5978");
    assert!(!out("10.0.0.9", 5979) && !out("10.0.1.9", 5978) && !out(OUTSIDE, 5978));
    assert!(net.allows(End::Pod(&other), End::Pod(&frontend), Protocol::Tcp, 1), "others are not isolated");
}

/// "Behavior of to and from selectors": two items are an or, one item with both selectors is an and.
#[test]
fn namespace_and_pod_selectors_in_one_item_or_in_two() {
    let both = json!([{"namespaceSelector": {"matchLabels": {"user": "alice"}}, "podSelector": {"matchLabels": {"role": "client"}}}]);
    let either = json!([{"namespaceSelector": {"matchLabels": {"user": "alice"}}}, {"podSelector": {"matchLabels": {"role": "client"}}}]);
    let client = pod("default", &json!({"role": "client"}), "10.1.0.6");
    let stranger = pod("mine", &json!({}), "10.1.0.7");
    let Pods { db, mine, .. } = pods();
    let ask = |from: &Value, who: &Pod| {
        let net = network(&[json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": from}]})]);
        net.allows(End::Pod(who), End::Pod(&db), Protocol::Tcp, 80)
    };
    assert!(ask(&both, &mine) && !ask(&both, &client) && !ask(&both, &stranger));
    assert!(ask(&either, &mine) && ask(&either, &client) && ask(&either, &stranger));
}

/// "Default policies": five of them, all with an empty `podSelector`.
#[test]
fn the_default_policies() {
    let Pods { db, frontend, mine, .. } = pods();
    let (to, from) = ((End::Pod(&mine), End::Pod(&db)), (End::Pod(&db), End::Pod(&mine)));
    let ask = |specs: &[Value]| {
        let net = network(specs);
        let ask = |(a, b): (End<'_>, End<'_>)| net.allows(a, b, Protocol::Tcp, 80);
        (ask(to), ask(from))
    };
    let deny_ingress = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
    let deny_egress = json!({"podSelector": {}, "policyTypes": ["Egress"]});
    assert_eq!(ask(&[]), (true, true), "no policies: all ingress and egress is allowed");
    assert_eq!(ask(std::slice::from_ref(&deny_ingress)), (false, true), "default deny all ingress");
    let allow_ingress = json!({"podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"]});
    assert_eq!(ask(&[deny_ingress.clone(), allow_ingress]), (true, true), "allow all: no other policy can deny");
    assert_eq!(ask(std::slice::from_ref(&deny_egress)), (true, false), "default deny all egress");
    let allow_egress = json!({"podSelector": {}, "egress": [{}], "policyTypes": ["Egress"]});
    assert_eq!(ask(&[deny_egress, allow_egress.clone()]), (true, true), "allow all egress");
    assert_eq!(ask(&[deny_ingress, allow_egress]), (false, true), "allow all egress, deny all ingress");
    let deny_all = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    assert_eq!(ask(std::slice::from_ref(&deny_all)), (false, false), "default deny all");
    let net = network(&[deny_all]);
    assert!(!net.allows(End::Pod(&db), End::Pod(&frontend), Protocol::Tcp, 80), "in one namespace as well");
    assert!(net.allows(End::Pod(&db), End::Pod(&db), Protocol::Tcp, 80), "a pod cannot block itself");
}

/// "Targeting a range of ports".
#[test]
fn a_range_of_ports() {
    let net = network(&[json!({
        "podSelector": {"matchLabels": {"role": "db"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "ports": [{"protocol": "TCP", "port": 32000, "endPort": 32768}]}],
    })]);
    let db = pods().db;
    let out = |port| net.allows(End::Pod(&db), outside("10.0.0.1"), Protocol::Tcp, port);
    assert!(out(32000) && out(32768) && out(32500));
    assert!(!out(31999) && !out(32769));
}

/// "Targeting multiple namespaces by label" and "Targeting a Namespace by its name".
#[test]
fn namespaces_by_expression_and_by_name() {
    let Pods { db, mine, foreign_frontend, .. } = pods();
    let ask = |selector: Value| {
        let net = network(&[json!({
            "podSelector": {"matchLabels": {"role": "db"}}, "policyTypes": ["Egress"],
            "egress": [{"to": [{"namespaceSelector": selector}]}],
        })]);
        let ask = |to: &Pod| net.allows(End::Pod(&db), End::Pod(to), Protocol::Udp, 1);
        (ask(&mine), ask(&foreign_frontend))
    };
    let name = "kubernetes.io/metadata.name";
    assert_eq!(
        ask(json!({"matchExpressions": [{"key": name, "operator": "In", "values": ["mine", "backend"]}]})),
        (true, false)
    );
    assert_eq!(
        ask(json!({"matchExpressions": [{"key": name, "operator": "NotIn", "values": ["mine"]}]})),
        (false, true)
    );
    assert_eq!(ask(json!({"matchExpressions": [{"key": "project", "operator": "Exists"}]})), (true, false));
    assert_eq!(ask(json!({"matchExpressions": [{"key": "project", "operator": "DoesNotExist"}]})), (false, true));
    assert_eq!(ask(json!({"matchLabels": {name: "other"}})), (false, true));
}

#[test]
fn ports_have_names_and_blocks_may_cover_pods() {
    let Pods { db, mine, .. } = pods();
    let mut net = network(&[json!({
        "podSelector": {}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.2.0.0/16"]}}], "ports": [{"port": "web"}]}],
    })]);
    let ask = |net: &Network| net.allows(End::Pod(&db), End::Pod(&mine), Protocol::Tcp, 80);
    assert!(!ask(&net), "an ipBlock is for addresses outside of the cluster");
    net.blocks_cover_pods = true;
    assert!(ask(&net));
    assert!(!net.allows(End::Pod(&db), End::Pod(&mine), Protocol::Tcp, 81));
}
