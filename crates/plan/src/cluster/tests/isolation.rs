//! NetworkPolicies: who reaches whom, for every pair, against a list made by hand; and that each rule is needed as it is.

use super::*;
use crate::meta::{MetaRanges, network};
use berth_testkit::policies::{End, Network, Pod, Protocol};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use std::collections::BTreeSet;

/// What a row of the matrix names.
struct Party {
    name: &'static str,
    pod: Option<Pod>,
    address: &'static str,
}

impl Party {
    fn is_acmes(&self) -> bool {
        self.pod.as_ref().is_some_and(|p| p.namespace == Fixture::home())
    }

    fn end(&self) -> End<'_> {
        self.pod.as_ref().map_or_else(|| End::Address(self.address.parse().unwrap()), End::Pod)
    }
}

/// A connection as one end sees it: egress or ingress, from, to, protocol, port.
type Connection = (&'static str, &'static str, &'static str, Protocol, u16);

/// Pods of acme, of another tenant of the same team, of the meta cluster; and addresses.
fn parties() -> Vec<Party> {
    let other = names::control_plane_namespace("team-a", "other");
    let home = Fixture::home();
    let component = |ns: &str, c: &str| (ns.to_owned(), json!({"app.kubernetes.io/component": c}));
    let operator = json!({"app.kubernetes.io/name": "berth", "app.kubernetes.io/component": "operator"});
    let pods = [
        ("etcd", component(&home, "etcd"), "10.1.0.1"),
        ("etcd-1", component(&home, "etcd"), "10.1.0.2"),
        ("apiserver", component(&home, "kube-apiserver"), "10.1.0.3"),
        ("controller-manager", component(&home, "kube-controller-manager"), "10.1.0.4"),
        ("scheduler", component(&home, "kube-scheduler"), "10.1.0.5"),
        ("stray", (home.clone(), json!({"app": "debug"})), "10.1.0.6"),
        ("other-etcd", component(&other, "etcd"), "10.1.1.1"),
        ("other-apiserver", component(&other, "kube-apiserver"), "10.1.1.2"),
        ("operator", ("berth-system".into(), operator.clone()), "10.1.2.1"),
        ("operators-neighbour", ("berth-system".into(), json!({"app": "x"})), "10.1.2.2"),
        ("false-operator", ("team-a".into(), operator), "10.1.2.3"),
        ("dns", ("kube-system".into(), json!({"k8s-app": "kube-dns"})), "10.1.3.1"),
        ("dns-neighbour", ("kube-system".into(), json!({"k8s-app": "metrics"})), "10.1.3.3"),
        ("false-dns", ("team-a".into(), json!({"k8s-app": "kube-dns"})), "10.1.3.2"),
        ("prometheus", ("monitoring".into(), json!({"app": "prometheus"})), "10.1.4.1"),
        ("foreign", ("team-a".into(), json!({"app.kubernetes.io/component": "kube-apiserver"})), "10.1.5.1"),
    ];
    let pods = pods.map(|(name, (namespace, labels), address)| {
        let labels = serde_json::from_value(labels).unwrap();
        let pod = Pod { namespace, labels, ip: Some(address.parse().unwrap()), ports: BTreeMap::new() };
        Party { name, pod: Some(pod), address }
    });
    let addresses = [
        ("node", "192.168.0.7"),
        ("meta-service", "10.96.0.1"),
        ("meta-apiserver", "192.168.9.9"),
        ("metadata", "169.254.169.254"),
        ("metadata-alibaba", "100.100.100.200"),
        ("metadata-v6", "fd00:ec2::254"),
        ("worker", "172.20.0.10"),
        ("internet", "203.0.113.9"),
        ("internet-v6", "2001:db8::1"),
    ];
    pods.into_iter().chain(addresses.map(|(name, address)| Party { name, pod: None, address })).collect()
}

const PORTS: [(Protocol, u16); 9] = [
    (Protocol::Udp, 53),
    (Protocol::Tcp, 53),
    (Protocol::Tcp, 443),
    (Protocol::Tcp, 2379),
    (Protocol::Tcp, 2380),
    (Protocol::Tcp, 2381),
    (Protocol::Tcp, 6443),
    (Protocol::Tcp, 10257),
    (Protocol::Tcp, 10259),
];

/// Every connection that has an end in acme's namespace and is allowed: `from to ports`. `ingress:` is what would be let in, but is not
/// let out.
const ALLOWED: &str = "
    apiserver            etcd etcd-1             2379
    operator             etcd etcd-1             2379
    etcd                 etcd-1                  2380
    etcd-1               etcd                    2380
    prometheus           etcd etcd-1             2381
    prometheus           controller-manager      10257
    prometheus           scheduler               10259
    controller-manager scheduler                                         apiserver  6443
    operator operators-neighbour false-operator dns dns-neighbour        apiserver  6443
    false-dns prometheus foreign other-etcd other-apiserver              apiserver  6443
    ingress: etcd etcd-1 stray                                           apiserver  6443
    node meta-service meta-apiserver metadata metadata-alibaba           apiserver  6443
    metadata-v6 worker internet internet-v6                              apiserver  6443
    apiserver            dns                     53
    apiserver            worker internet internet-v6  any
";

fn allowed() -> BTreeSet<Connection> {
    let parties = parties();
    let party = |name: &str| parties.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("{name}"));
    let mut all = BTreeSet::new();
    for line in ALLOWED.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (only_in, line) = line.strip_prefix("ingress: ").map_or((false, line), |rest| (true, rest));
        let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        let [from, to, ports] = columns.as_slice() else { panic!("{line}") };
        for (from, to) in from.split(' ').flat_map(|f| to.split(' ').map(move |t| (party(f), party(t)))) {
            for (protocol, port) in PORTS.into_iter().filter(|p| *ports == "any" || *ports == p.1.to_string()) {
                let connection = |side| (side, from.name, to.name, protocol, port);
                all.extend((from.is_acmes() && !only_in).then(|| connection("egress")));
                all.extend(to.is_acmes().then(|| connection("ingress")));
            }
        }
    }
    all
}

fn meta() -> MetaRanges {
    let nets = |all: &[&str]| all.iter().map(|n| network(n).unwrap()).collect();
    MetaRanges {
        pods: nets(&["10.1.0.0/16"]),
        services: nets(&["10.96.0.0/16"]),
        nodes: nets(&["192.168.0.7"]),
        api_servers: nets(&["192.168.9.9"]),
    }
}

fn fixture() -> Fixture {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.settings.service_account = Some(("berth-system".into(), "berth-operator".into()));
    f.settings.isolation.meta = Ok(meta());
    f.settings.isolation.monitoring =
        vec![json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}})];
    f
}

fn policies(f: &Fixture) -> Vec<NetworkPolicy> {
    let home = Fixture::home();
    let all = f.world.observed.of_kind(Kind::NetworkPolicy, &home);
    all.map(|(_, o)| serde_json::from_value(o.clone()).unwrap()).collect()
}

/// What these policies say of every connection with an end in acme's namespace, of each end by itself: what both ends deny would hide
/// that one of them has a hole.
fn matrix(policies: &[NetworkPolicy], blocks_cover_pods: bool) -> BTreeSet<Connection> {
    let parties = parties();
    let namespaces = parties.iter().filter_map(|p| Some(p.pod.as_ref()?.namespace.clone()));
    let named = |n: String| (n.clone(), BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), n)]));
    let net = Network { namespaces: namespaces.map(named).collect(), policies: policies.to_vec(), blocks_cover_pods };
    let mut all = BTreeSet::new();
    for from in &parties {
        for to in parties.iter().filter(|to| to.name != from.name) {
            for (protocol, port) in PORTS {
                let connection = |side| (side, from.name, to.name, protocol, port);
                if from.is_acmes() && net.leaves(from.end(), to.end(), protocol, port) {
                    all.insert(connection("egress"));
                }
                if to.is_acmes() && net.enters(from.end(), to.end(), protocol, port) {
                    all.insert(connection("ingress"));
                }
            }
        }
    }
    all
}

#[test]
fn every_pair_is_as_the_list_says() {
    let mut f = fixture();
    f.pass();
    let policies = policies(&f);
    assert_eq!(policies.len(), 5);
    for blocks_cover_pods in [false, true] {
        let found = matrix(&policies, blocks_cover_pods);
        let wanted = allowed();
        let more: Vec<_> = found.difference(&wanted).collect();
        let less: Vec<_> = wanted.difference(&found).collect();
        assert!(more.is_empty() && less.is_empty(), "allowed but not listed: {more:#?}\nlisted but denied: {less:#?}");
    }
}

/// Every policy with one thing taken away or widened: a rule, a peer, a port, an exception, a selector, a direction.
fn mutants(policies: &[NetworkPolicy]) -> Vec<(String, Vec<NetworkPolicy>)> {
    let mut out = vec![];
    for (i, policy) in policies.iter().enumerate() {
        let name = policy.metadata.name.clone().unwrap_or_default();
        let value = serde_json::to_value(policy).unwrap();
        let mut push = |what: String, changed: Value| {
            let mut all = policies.to_vec();
            all[i] = serde_json::from_value(changed).unwrap();
            out.push((format!("{name}: {what}"), all));
        };
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            let kept: Vec<&str> =
                ["Ingress", "Egress"].into_iter().filter(|t| !t.eq_ignore_ascii_case(direction)).collect();
            let mut open = value.clone();
            open["spec"]["policyTypes"] = json!(kept);
            push(format!("not about {direction}"), open);
            let mut anything = value.clone();
            anything["spec"][direction] = json!([{}]);
            push(format!("any {direction}"), anything);
            for r in 0..value["spec"][direction].as_array().map_or(0, Vec::len) {
                let rule = value["spec"][direction][r].clone();
                let mut dropped = value.clone();
                dropped["spec"][direction].as_array_mut().unwrap().remove(r);
                push(format!("without {direction} {rule}"), dropped);
                for field in [peers, "ports"] {
                    let mut wide = value.clone();
                    if wide["spec"][direction][r].as_object_mut().unwrap().remove(field).is_some() {
                        push(format!("{direction} {rule} with any {field}"), wide);
                    }
                    for p in 0..rule[field].as_array().map_or(0, Vec::len) {
                        let mut less = value.clone();
                        less["spec"][direction][r][field].as_array_mut().unwrap().remove(p);
                        // An empty list would mean all of them, which is another mutant.
                        if less["spec"][direction][r][field] != json!([]) {
                            push(format!("{direction} {rule} without {field} {p}"), less);
                        }
                        let item = &rule[field][p];
                        for selector in
                            ["namespaceSelector", "podSelector"].into_iter().filter(|s| item.get(*s).is_some())
                        {
                            let mut wide = value.clone();
                            wide["spec"][direction][r][field][p][selector] = json!({});
                            push(format!("{direction} {item} with an empty {selector}"), wide);
                        }
                        if item.get("podSelector").is_some() && item.get("namespaceSelector").is_none() {
                            let mut wide = value.clone();
                            wide["spec"][direction][r][field][p]["namespaceSelector"] = json!({});
                            push(format!("{direction} {item} in every namespace"), wide);
                        }
                        for e in 0..item["ipBlock"]["except"].as_array().map_or(0, Vec::len) {
                            let mut wide = value.clone();
                            wide["spec"][direction][r][field][p]["ipBlock"]["except"].as_array_mut().unwrap().remove(e);
                            push(format!("egress but for the exception {}", item["ipBlock"]["except"][e]), wide);
                        }
                    }
                }
            }
        }
    }
    out
}

#[test]
fn dropping_or_widening_any_rule_is_seen() {
    let mut f = fixture();
    f.pass();
    let policies = policies(&f);
    let wanted = allowed();
    // Exceptions that no party of the list is in, and rules for one address family only, are not told apart by the list.
    let unseen =
        |what: &str| ["fe80::/10", "168.63.129.16/32"].iter().any(|e| what.contains(&format!("exception \"{e}\"")));
    let survivors: Vec<String> = mutants(&policies)
        .into_iter()
        .filter(|(what, _)| !unseen(what))
        .filter(|(_, mutant)| [false, true].iter().all(|b| matrix(mutant, *b) == wanted))
        .map(|(what, _)| what)
        .collect();
    assert_eq!(survivors, Vec::<String>::new());
}

#[test]
fn what_somebody_adds_to_a_policy_is_taken_away() {
    let mut f = fixture();
    f.pass();
    let key = Fixture::key(Kind::NetworkPolicy, names::ETCD);
    for (path, wide) in [
        ("/spec/ingress", json!([{}])),
        ("/spec/podSelector/matchLabels/more", json!("x")),
        ("/spec/ingress/0/from/0/namespaceSelector", json!({})),
    ] {
        let before = f.world.observed.get(&key).unwrap().clone();
        let (parent, last) = path.rsplit_once('/').unwrap();
        f.world.observed.objects.get_mut(&key).unwrap().pointer_mut(parent).unwrap()[last] = wide;
        let planned = f.plan();
        let writes: Vec<_> = planned.plan.actions().map(crate::Action::describe).collect();
        assert_eq!(writes, [format!("apply {key}")], "{path}");
        f.world.observed.put(key.clone(), before);
    }
}

#[test]
fn without_the_meta_clusters_ranges_nothing_is_started_and_nothing_is_opened() {
    let mut f = fixture();
    f.settings.isolation.meta = Err("nodes: forbidden".into());
    f.pass();
    assert!(f.world.observed.of_kind(Kind::Secret, &Fixture::home()).next().is_none());
    let (_, message) = f.plan().plan.first_problem().unwrap();
    assert!(
        message.contains("address ranges of the meta cluster") && message.contains("nodes: forbidden"),
        "{message}"
    );
    f.settings.isolation.meta = Ok(meta());
    f.pass();
    f.settings.isolation.meta = Err("nodes: forbidden".into());
    assert!(f.plan().plan.is_empty(), "what runs stays as it is");
}

#[test]
fn networks_keep_off_the_meta_cluster_as_long_as_nothing_runs() {
    let mut f = fixture();
    f.cluster.spec.network.pod_cidrs = vec!["10.1.128.0/17".into()];
    let message = blocked(&f.plan(), Component::Spec, Reason::InvalidSpec);
    assert_eq!(
        message,
        "spec.network.podCIDRs: 10.1.128.0/17 overlaps 10.1.0.0/16, addresses of pods of the meta cluster; choose a network that shares no address with it"
    );
    f.settings.isolation.meta = Ok(MetaRanges::default());
    f.cluster.spec.network.service_cidrs = vec!["172.30.0.0/16".into()];
    f.pass();
    f.settings.isolation.meta = Ok(meta());
    assert!(f.plan().plan.blocked().is_none(), "a tenant that runs is not judged anew");
}
