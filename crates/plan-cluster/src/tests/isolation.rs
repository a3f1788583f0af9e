//! NetworkPolicies: who reaches whom, for every pair, against a list made by hand; and that each rule is needed as it is.

mod matrix;
mod mutants;
mod parties;

use super::*;
use berth_api::backup::Store;
use berth_api::cluster::EndpointType;
use berth_plan::Action;
use berth_plan::meta_cluster::addresses::{MetaRanges, network};
use berth_plan::settings::{Access, BackupStore, Backups, Engine, Gateway, Parent};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use matrix::Matrix;
use mutants::mutants;
use parties::{Connection, allowed, allowed_through_the_gateway, allowed_without_peers};
use std::collections::BTreeSet;

fn meta() -> MetaRanges {
    let nets = |all: &[&str]| all.iter().map(|n| network(n).unwrap()).collect();
    MetaRanges {
        pods: nets(&["10.1.0.0/16"]),
        services: nets(&["10.96.0.0/16"]),
        nodes: nets(&["192.168.0.7", "172.20.255.7"]),
        api_servers: nets(&["192.168.9.9"]),
    }
}

fn fixture() -> Fixture {
    let mut f = Fixture::new(json!({"version": "1.36.3", "network": {"nodeCIDRs": ["172.20.0.0/16"]}}));
    f.settings.writers.networks = vec![network("172.16.0.0/12").unwrap()];
    f.settings.service_account = Some(("berth-system".into(), "berth-operator".into()));
    f.meta().addresses = Ok(meta());
    f.settings.isolation.monitoring =
        vec![json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}})];
    f.settings.backups = store();
    f.settings.isolation.api_server_egress = vec![json!({
        "to": [{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "policy-webhooks"}},
            "podSelector": {"matchLabels": {"app": "webhook"}},
        }],
        "ports": [{"protocol": "TCP", "port": 8443}],
    })];
    f
}

/// A store for backups, at the address `internet`.
fn store() -> Backups {
    let store = Store { endpoint: "https://store.example.com:9000".into(), ..Store::default() };
    let store =
        BackupStore { name: "main".into(), store, prefix: String::new(), secret: "s3".into(), namespaces: vec![] };
    let peers = vec![json!({"ipBlock": {"cidr": "203.0.113.9/32"}})];
    Backups { stores: vec![store], peers, ..Backups::default() }
}

fn policies(f: &Fixture) -> Vec<NetworkPolicy> {
    let cp_namespace = Fixture::cp_namespace();
    let all = f.world.observed.of_kind(Kind::NetworkPolicy, &cp_namespace);
    all.map(|(_, o)| serde_json::from_value(o.clone()).unwrap()).collect()
}

#[test]
fn every_pair_is_as_the_list_says() {
    let mut f = fixture();
    f.reconcile();
    let policies = policies(&f);
    assert_eq!(policies.len(), 3 + components().count(), "one for each, for etcd and for backups, and default-deny");
    let matrix = Matrix::new();
    for name in components() {
        assert!(matrix.has(name), "{name} has no row in isolation/parties.rs");
    }
    are_as_listed(&matrix, &policies, &allowed());
}

#[test]
fn where_the_gateway_is_the_only_way_nobody_else_gets_in_once_kubeconfigs_lead_there() {
    let mut f = fixture();
    let with = |only_from: Option<&str>| {
        Some(Gateway {
            domain: "api.example.com".into(),
            port: 443,
            named_port: 444,
            only_from: only_from.map(str::to_owned),
            ..Gateway::default()
        })
    };
    f.settings.gateway = with(Some("berth-gateway"));
    super::endpoint::come_up(&mut f);
    let matrix = Matrix::new();
    are_as_listed(&matrix, &policies(&f), &allowed());
    f.cluster.spec.endpoint.type_ = EndpointType::Gateway;
    let first: Vec<String> = f.plan().plan.actions().map(Action::describe).collect();
    assert!(!first.iter().any(|write| write.contains("NetworkPolicy")), "kubeconfigs have no name yet: {first:#?}");
    f.rest();
    assert_eq!(f.plan().plan.first_problem(), None);
    are_as_listed(&matrix, &policies(&f), &allowed_through_the_gateway());
    f.settings.gateway = with(None);
    f.rest();
    are_as_listed(&matrix, &policies(&f), &allowed());
    f.settings.gateway = with(Some("berth-gateway"));
    f.rest();
    f.cluster.spec.endpoint.type_ = EndpointType::ClusterIP;
    f.reconcile();
    are_as_listed(&matrix, &policies(&f), &allowed());
}

#[test]
fn where_gateways_of_the_platform_lead_there_their_namespaces_get_in() {
    let mut f = fixture();
    let parent =
        |namespace: &str, name: &str| Parent { namespace: namespace.into(), name: name.into(), section_name: None };
    let with = |engines: &[Engine]| Gateway {
        domain: "api.example.com".into(),
        only_from: Some("berth-gateway".into()),
        engines: engines.to_vec(),
        parents: vec![parent("policy-webhooks", "a"), parent("policy-webhooks", "b")],
        ..Gateway::default()
    };
    f.settings.gateway = Some(with(&[Engine::Berth, Engine::GatewayAPI]));
    f.cluster.spec.endpoint.type_ = EndpointType::Gateway;
    super::endpoint::come_up(&mut f);
    let matrix = Matrix::new();
    let mut wanted = allowed_through_the_gateway();
    let by_gateway: Vec<_> = wanted.iter().filter(|c| c.1 == "gateway").copied().collect();
    assert!(!by_gateway.is_empty());
    for from in ["webhook", "webhooks-neighbour"] {
        wanted.extend(by_gateway.iter().map(|c| (c.0, from, c.2, c.3, c.4)));
    }
    are_as_listed(&matrix, &policies(&f), &wanted);
    f.settings.gateway = Some(with(&[Engine::GatewayAPI]));
    f.reconcile();
    wanted.retain(|c| c.1 != "gateway");
    are_as_listed(&matrix, &policies(&f), &wanted);
    // berth-access has no gateway that it could go through.
    let access =
        |gateway: Option<&str>| Access { namespace: "berth-access".into(), gateway: gateway.map(str::to_owned) };
    let says = |f: &Fixture| policies(f).iter().any(|p| serde_json::to_string(p).unwrap().contains("berth-access"));
    for (gateway, lets_in) in [(Some("gw:443"), false), (None, true)] {
        f.settings.access = Some(access(gateway));
        f.reconcile();
        assert_eq!(says(&f), lets_in, "{gateway:?}");
    }
}

#[track_caller]
fn are_as_listed(matrix: &Matrix, policies: &[NetworkPolicy], wanted: &BTreeSet<Connection>) {
    for blocks_cover_pods in [false, true] {
        let found = matrix.allowed(policies, blocks_cover_pods);
        let more: Vec<_> = found.difference(wanted).collect();
        let less: Vec<_> = wanted.difference(&found).collect();
        assert!(more.is_empty() && less.is_empty(), "allowed but not listed: {more:#?}\nlisted but denied: {less:#?}");
    }
}

#[test]
fn jobs_reach_nothing_of_the_meta_cluster_wherever_the_store_is() {
    let mut f = fixture();
    f.settings.backups.peers.clear();
    f.reconcile();
    are_as_listed(&Matrix::new(), &policies(&f), &allowed_without_peers());
    // What is not known changes nothing.
    f.meta().addresses = Err("nodes: forbidden".into());
    assert!(f.plan().plan.is_empty());
}

#[test]
fn a_store_for_backups_adds_a_policy_and_a_client_of_etcd_and_restarts_nothing() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let without = |f: &Fixture| f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::ETCD_BACKUP)).is_none();
    assert!(without(&f));
    f.settings.backups = Backups { peers: vec![], ..store() };
    f.reconcile();
    let mut log = std::mem::take(&mut f.world.log);
    log.sort();
    let home = Fixture::cp_namespace();
    let changed = ["EtcdCluster", "NetworkPolicy", "NetworkPolicy"].iter().zip(["etcd", "etcd", "etcd-backup"]);
    assert_eq!(log, changed.map(|(kind, name)| format!("apply {kind} {home}/{name}")).collect::<Vec<_>>());
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    assert_eq!(etcd["spec"]["clients"], json!([{"name": "kube-apiserver"}, {"name": "backup"}]));
    let policy = f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::ETCD_BACKUP)).unwrap();
    let ports = json!([{"protocol": "TCP", "port": 9000}]);
    let stores = policy["spec"]["egress"].as_array().unwrap().iter().find(|rule| rule["ports"] == ports).unwrap();
    let cidrs: Vec<_> = stores["to"].as_array().unwrap().iter().map(|peer| &peer["ipBlock"]["cidr"]).collect();
    assert_eq!(cidrs, ["0.0.0.0/0", "::/0"], "anywhere, but for what is closed there");
    f.others();
    f.settings.backups = Backups::default();
    f.reconcile();
    f.others();
    f.reconcile();
    assert!(without(&f), "without a store it goes again");
}

#[test]
fn dropping_or_widening_any_rule_is_seen() {
    let mut f = fixture();
    f.reconcile();
    let (matrix, wanted) = (Matrix::new(), allowed());
    let survivors: Vec<String> = mutants(&policies(&f))
        .into_iter()
        .filter(|(_, mutant)| [false, true].iter().all(|b| matrix.agrees(mutant, *b, &wanted)))
        .map(|(what, _)| what)
        .collect();
    // Nobody is let in there, which `default-deny` says, too.
    assert_eq!(survivors, ["etcd-backup: not about ingress"]);
}

/// What the policy of kube-apiserver opens, as networks with their exceptions.
fn egress(f: &Fixture) -> Vec<(String, Vec<String>)> {
    let policy = f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::APISERVER)).unwrap();
    let peers = policy["spec"]["egress"].as_array().unwrap().iter().flat_map(|r| r["to"].as_array().unwrap());
    let blocks = peers.filter(|peer| !peer["ipBlock"].is_null()).map(|peer| &peer["ipBlock"]);
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    blocks.map(|b| (text(&b["cidr"]), b["except"].as_array().into_iter().flatten().map(text).collect())).collect()
}

fn opened(f: &Fixture) -> Vec<String> {
    egress(f).into_iter().map(|(cidr, _)| cidr).skip(2).collect()
}

#[test]
fn private_networks_are_opened_by_name_and_closed_again() {
    let mut f = fixture();
    f.reconcile();
    assert_eq!(egress(&f)[2], ("172.20.0.0/16".to_owned(), vec!["172.20.255.7/32".to_owned()]));
    f.settings.isolation.private_networks = vec![network("10.20.0.0/16").unwrap(), network("10.1.0.0/24").unwrap()];
    f.reconcile();
    assert_eq!(opened(&f), ["10.20.0.0/16", "172.20.0.0/16"], "a network of the meta cluster stays closed");
    f.cluster.spec.network.node_cidrs.clear();
    f.reconcile();
    assert_eq!(opened(&f), ["10.20.0.0/16"]);
}

#[test]
fn networks_that_writers_may_not_open_stay_closed_and_nothing_else_changes() {
    let mut f = fixture();
    f.reconcile();
    for (cidr, said) in [
        (
            "10.20.0.0/16",
            "10.20.0.0/16 is not allowed (allowed: 172.16.0.0/12). Remove it, or ask the platform team to add it to writers.networks in the values of Berth's chart",
        ),
        ("172.0.0.0/8", "172.0.0.0/8 is not allowed (allowed: 172.16.0.0/12)."),
        ("172.20.255.7/32", "172.20.255.7/32 is where the meta cluster has its nodes, closed to tenants. Remove it"),
    ] {
        f.cluster.spec.network.node_cidrs = vec!["172.21.0.0/16".into(), cidr.into()];
        let message = blocked(&f.plan(), StageId::Spec, Reason::NotAllowed);
        assert!(message.starts_with(&format!("spec.network.nodeCIDRs: {said}")), "{message}");
        f.reconcile();
        assert_eq!(opened(&f), ["172.21.0.0/16"]);
    }
    // Of a new one nothing is made, so that nobody takes it for what was asked for.
    let mut new = Fixture::new(json!({"version": "1.36.3", "network": {"nodeCIDRs": ["10.20.0.0/16"]}}));
    new.reconcile();
    assert!(new.world.log.is_empty());
    assert_eq!(new.condition("Ready").1, "NotAllowed");
}

#[test]
fn a_tenant_from_before_keeps_what_it_reaches_until_it_is_closed() {
    use berth_api::labels::{PRIVATE_NETWORKS, SPECIAL_NETWORKS};
    let of = |f: &Fixture, name: &str| {
        let live = f.world.observed.get(&Fixture::namespace()).unwrap();
        berth_plan::object_meta::annotation(live, name).map(str::to_owned)
    };
    let note = |f: &Fixture| of(f, PRIVATE_NETWORKS);
    let mut f = fixture();
    f.reconcile();
    assert_eq!(note(&f).as_deref(), Some("Closed"));
    let forget = |f: &mut Fixture, name: &str| {
        let namespace = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
        namespace["metadata"]["annotations"].as_object_mut().unwrap().remove(name);
    };
    let closes = |f: &Fixture, net: &str| egress(f)[0].1.contains(&net.to_owned());
    assert!(closes(&f, "10.0.0.0/8") && closes(&f, "240.0.0.0/4"));
    // A build that closed RFC 1918 and the like alone.
    forget(&mut f, SPECIAL_NETWORKS);
    f.reconcile();
    assert!(closes(&f, "10.0.0.0/8") && !closes(&f, "240.0.0.0/4") && of(&f, SPECIAL_NETWORKS).is_none());
    forget(&mut f, PRIVATE_NETWORKS);
    f.reconcile();
    assert_eq!(note(&f), None, "it is not marked later");
    assert!(opened(&f).is_empty() && !egress(&f)[0].1.contains(&"10.0.0.0/8".to_owned()), "{:?}", egress(&f));
    f.settings.isolation.older_tenants = berth_plan::settings::OlderTenants::Closed;
    f.reconcile();
    assert_eq!((note(&f), opened(&f)), (None, vec!["172.20.0.0/16".to_owned()]));
    assert!(closes(&f, "10.0.0.0/8") && closes(&f, "240.0.0.0/4"));
}

#[test]
fn what_somebody_adds_to_a_policy_is_taken_away() {
    let mut f = fixture();
    f.reconcile();
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
        let writes: Vec<_> = planned.plan.actions().map(berth_plan::Action::describe).collect();
        assert_eq!(writes, [format!("apply {key}")], "{path}");
        f.world.observed.put(key.clone(), before);
    }
}

#[test]
fn without_the_meta_clusters_ranges_nothing_is_started_and_nothing_is_opened() {
    let mut f = fixture();
    f.meta().addresses = Err("nodes: forbidden".into());
    for _ in 0..2 {
        f.reconcile();
        assert!(f.world.log.is_empty(), "not even a namespace: with it, networks would pass for judged");
    }
    let (_, message) = f.plan().plan.first_problem().unwrap();
    assert!(message.contains("the meta cluster's address ranges") && message.contains("nodes: forbidden"), "{message}");
    f.meta().addresses = Ok(meta());
    f.reconcile();
    f.meta().addresses = Err("nodes: forbidden".into());
    assert!(f.plan().plan.is_empty(), "what runs stays as it is");
    f.world.remove(&Fixture::key(Kind::NetworkPolicy, "default-deny"));
    f.reconcile();
    assert!(f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, "default-deny")).is_some(), "it needs no range");
    // A crash between the namespace and its policies.
    f.world.observed.objects.retain(|k, _| k.kind != Kind::NetworkPolicy);
    let planned = f.plan();
    assert!(planned.plan.is_empty());
    assert!(planned.plan.first_problem().unwrap().1.contains("nodes: forbidden"));
}

#[test]
fn networks_keep_off_the_meta_cluster_as_long_as_nothing_runs() {
    let mut f = fixture();
    f.cluster.spec.network.pod_cidrs = vec!["10.1.128.0/17".into()];
    for meta in [Ok(meta()), Err("nodes: forbidden".into()), Ok(meta())] {
        f.meta().addresses = meta;
        for _ in 0..2 {
            f.reconcile();
            assert!(f.world.log.is_empty(), "nothing is made");
        }
    }
    assert_eq!(
        blocked(&f.plan(), StageId::Spec, Reason::InvalidSpec),
        "spec.network.podCIDRs: 10.1.128.0/17 overlaps 10.1.0.0/16, where the meta cluster has its pods. spec.network is immutable: set spec.deletion.protected to false, delete this Cluster, and create it with other networks"
    );
    assert_eq!(f.condition("Ready").1, "InvalidSpec");
    f.meta().addresses = Ok(MetaRanges::default());
    f.cluster.spec.network.service_cidrs = vec!["172.30.0.0/16".into()];
    f.reconcile();
    f.meta().addresses = Ok(meta());
    assert!(f.plan().plan.blocked().is_none(), "a tenant that runs is not judged anew");
}

/// Each value of the chart ends in its own field, and keeps networks of tenants off under its own name.
#[test]
fn what_the_chart_gives_is_refused_by_its_name() {
    let text = r#"{"meta": {"podCIDRs": ["10.1.0.0/16"], "serviceCIDRs": ["10.2.0.0/16"], "nodeCIDRs": ["10.3.0.0/16"],
        "apiServerIPs": ["10.4.0.9"]}}"#;
    let given = berth_plan::settings::Config::parse(text).unwrap().given;
    let nets = |text: &str| vec![network(text).unwrap()];
    let wanted = MetaRanges {
        pods: nets("10.1.0.0/16"),
        services: nets("10.2.0.0/16"),
        nodes: nets("10.3.0.0/16"),
        api_servers: nets("10.4.0.9"),
    };
    assert_eq!(given, wanted);
    for (net, range, whose) in [
        ("10.1.128.0/20", "10.1.0.0/16", "pods"),
        ("10.2.128.0/20", "10.2.0.0/16", "Services"),
        ("10.3.128.0/20", "10.3.0.0/16", "nodes"),
        ("10.4.0.0/20", "10.4.0.9/32", "API servers"),
    ] {
        for (field, other) in [("podCIDRs", "serviceCIDRs"), ("serviceCIDRs", "podCIDRs")] {
            let network = json!({field: [net], other: ["172.30.0.0/16"]});
            let mut f = Fixture::new(json!({"version": "1.36.3", "network": network}));
            f.meta().addresses = Ok(given.clone());
            let said = blocked(&f.plan(), StageId::Spec, Reason::InvalidSpec);
            let start = format!("spec.network.{field}: {net} overlaps {range}, where the meta cluster has its {whose}");
            assert!(said.starts_with(&start), "{said}");
        }
    }
}
