//! Whatever may what a pod of a team may not runs nothing of a registry that the team chose: over all components. Jobs and members have tests of their own.

use super::vpc::{new, spec};
use super::*;
use berth_api::backup::Store;
use berth_api::common::{AgentDelivery, OVERRIDABLE};
use berth_api::labels;
use berth_plan::meta_cluster::addresses::{MetaRanges, network};
use berth_plan::settings::{BackupStore, Backups, Writers};
use berth_testkit::rights::with_rights;
use ipnet::IpNet;
use std::collections::BTreeSet;

const TEAMS: &str = "mirror.example.com/teams/a";

/// A tenant in a VPC whose team chose its registry, where a store for backups is configured.
fn fixture(delivery: AgentDelivery) -> Fixture {
    let mut f = new(spec());
    f.cluster.spec.images.registry = Some(TEAMS.into());
    let own = OVERRIDABLE.map(|name| (name.to_owned(), format!("{TEAMS}/own-{name}")));
    f.cluster.spec.images.overrides = own.into();
    f.settings.writers = Writers { image_registries: vec![TEAMS.into()], ..Writers::default() };
    f.settings.agent_delivery = delivery;
    f.meta().addresses =
        Ok(MetaRanges { pods: vec![network("10.1.0.0/16").unwrap()], ..f.meta().addresses.clone().unwrap() });
    let store = Store { endpoint: "https://store.example.com".into(), ..Store::default() };
    let store =
        BackupStore { name: "main".into(), store, prefix: String::new(), secret: "s3".into(), namespaces: vec![] };
    f.settings.backups = Backups { stores: vec![store], ..Backups::default() };
    for _ in 0..6 {
        f.reconcile();
        f.attached();
    }
    f
}

/// The workloads' pod templates.
fn rendered(f: &Fixture) -> Vec<Value> {
    let home = Fixture::cp_namespace();
    let sets = [Kind::Deployment, Kind::StatefulSet].into_iter().flat_map(|kind| f.world.observed.of_kind(kind, &home));
    sets.map(|(_, object)| object["spec"]["template"].clone()).collect()
}

/// Components that policies let reach an address which a tenant's API server, and so whoever administers it, does not.
fn reaching_more(f: &Fixture) -> BTreeSet<String> {
    let home = Fixture::cp_namespace();
    let leads = |rule: &Value, address: &str| {
        let net = |text: &Value| text.as_str().unwrap().parse::<IpNet>().unwrap();
        let address: IpNet = network(address).unwrap();
        let covers = |block: &Value| {
            let mut except = block["except"].as_array().into_iter().flatten();
            net(&block["cidr"]).contains(&address) && !except.any(|one| net(one).contains(&address))
        };
        let Some(to) = rule["to"].as_array() else { return true };
        to.iter().filter(|peer| !peer["ipBlock"].is_null()).any(|peer| covers(&peer["ipBlock"]))
    };
    let reaches = |policy: &Value| {
        let rules = policy["spec"]["egress"].as_array().cloned().unwrap_or_default();
        ["10.0.0.7", "10.1.0.7", "169.254.169.254"].iter().any(|address| rules.iter().any(|rule| leads(rule, address)))
    };
    let policies = f.world.observed.of_kind(Kind::NetworkPolicy, &home).filter(|(_, policy)| reaches(policy));
    let selected =
        |policy: &Value| policy["spec"]["podSelector"]["matchLabels"][labels::COMPONENT].as_str().map(str::to_owned);
    policies.map(|(key, policy)| selected(policy).unwrap_or_else(|| panic!("{key} is about all pods"))).collect()
}

#[test]
fn nothing_of_a_teams_registry_has_rights_that_a_pod_of_the_team_has_not() {
    for delivery in [AgentDelivery::InitContainer, AgentDelivery::ImageVolume] {
        let f = fixture(delivery);
        let (wide, pods) = (reaching_more(&f), rendered(&f));
        assert_eq!(
            wide,
            BTreeSet::from([names::ETCD_BACKUP.to_owned()]),
            "the Jobs, whose store may be in a private network"
        );
        let images: BTreeSet<String> = pods.iter().flat_map(|pod| with_rights(pod, &wide)).collect();
        assert!(images.iter().all(|image| !image.starts_with(TEAMS)), "{images:?}");
        assert_eq!(images, BTreeSet::from([f.settings.agent_image.clone()]), "this has rights");
        let of_team = pods.iter().filter(|pod| pod.to_string().contains(TEAMS)).count();
        assert!(of_team >= 3, "the team's registry counts for the rest: {of_team}");
        let own = pods.iter().filter(|pod| pod.to_string().contains("/own-kube-")).count();
        assert!(own >= 3, "and its images: {own}");
    }
}
