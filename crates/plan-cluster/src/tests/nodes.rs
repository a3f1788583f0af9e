//! The tenant's nodes in its status.

use super::*;
use crate::Turn;
use berth_api::cluster::NodesStatus;
use berth_api::conditions::ConditionType;
use berth_plan::observed::Nodes;

#[test]
fn nodes_are_counted_in_turn_and_what_was_counted_stays() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let turns = (0..32).map(|minute| Turn::at(f.world.now + jiff::SignedDuration::from_mins(minute)));
    assert!(turns.clone().any(|turn| turn == Turn::Nodes), "within about half an hour");
    assert_eq!(turns.filter(|turn| *turn == Turn::Leases).count(), 16, "every second minute");
    let count = NodesStatus { total: 3, ready: 2, oldest_kubelet: Some("1.34.4".into()) };
    let nodes = Nodes { count: count.clone(), ..Nodes::default() };
    for nodes in [Some(nodes), None] {
        let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { panic!("it is up") };
        read.nodes = nodes;
        f.reconcile();
        assert_eq!(f.cluster.status.as_ref().unwrap().nodes.as_ref(), Some(&count));
    }
}

#[test]
fn nodes_behind_a_closed_network_are_named_until_it_is_opened_or_leads_over_the_vpc() {
    let degraded = |f: &Fixture| {
        let conditions = &f.cluster.status.as_ref().unwrap().conditions;
        let found = conditions.iter().find(|c| c.type_ == ConditionType::Degraded.as_str()).unwrap();
        (found.status.clone(), found.reason.clone(), found.message.clone())
    };
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let addresses = vec![("near".into(), "192.0.2.5".parse().unwrap()), ("far".into(), "10.20.0.5".parse().unwrap())];
    let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { panic!("it is up") };
    read.nodes = Some(Nodes { addresses, ..Nodes::default() });
    f.reconcile();
    let (status, reason, message) = degraded(&f);
    assert_eq!((&*status, &*reason), ("False", "NodesNotReachable"));
    assert!(message.contains("node far (10.20.0.5), so") && message.contains("spec.network.nodeCIDRs"), "{message}");
    f.settings.writers.networks = vec!["10.0.0.0/8".parse().unwrap()];
    f.cluster.spec.network.node_cidrs = vec!["10.20.0.0/16".into()];
    f.reconcile();
    assert_eq!(degraded(&f).1, "AsExpected");
}

#[test]
fn machines_join_what_a_vendors_build_calls_itself() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.cluster.status.as_mut().unwrap().version = Some("1.36.3-eks-abc".into());
    let facts = Facts::judge(f.input());
    let sets = crate::Wanted::decide(&facts.tenant()).unwrap().sets().unwrap();
    let config = sets.iter().flatten().find(|o| o.key().name == "kubeadm-config").unwrap();
    let config = config.get("/data/ClusterConfiguration").and_then(serde_json::Value::as_str).unwrap();
    assert!(config.contains("v1.36.3-eks-abc"), "{config}");
}
