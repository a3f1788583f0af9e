//! Whatever may what a pod of a team may not runs nothing of a registry that the team chose: over all pods that Berth renders.

use super::vpc::{new, spec};
use super::*;
use crate::meta_cluster::addresses::{MetaRanges, network};
use crate::settings::{BackupStore, Backups, Writers};
use berth_api::backup::Store;
use berth_api::common::AgentDelivery;
use berth_api::labels;
use ipnet::IpNet;
use std::collections::BTreeSet;

/// As [`crate::backup::tests::jobs_of_own_registry`] has it.
const TEAMS: &str = "mirror.example.com/teams/a";

/// A tenant in a VPC whose team chose its registry, where a store for backups is configured.
fn fixture(delivery: AgentDelivery) -> Fixture {
    let mut f = new(spec());
    f.cluster.spec.images.registry = Some(TEAMS.into());
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
fn rendered(delivery: AgentDelivery, f: &Fixture) -> Vec<Value> {
    let home = Fixture::cp_namespace();
    let sets = [Kind::Deployment, Kind::StatefulSet].into_iter().flat_map(|kind| f.world.observed.of_kind(kind, &home));
    let mut all: Vec<Value> = sets.map(|(_, set)| set.clone()).collect();
    if delivery == AgentDelivery::InitContainer {
        all.push(crate::etcd::tests::images::members_of_registry(TEAMS));
        all.extend(crate::backup::tests::jobs_of_own_registry());
        all.extend(crate::restore::tests::jobs_of_registry(TEAMS));
    }
    all.iter().map(|object| object["spec"]["template"].clone()).collect()
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

fn has(value: &Value, path: &str, wanted: impl Fn(&Value) -> bool) -> bool {
    value.pointer(path).is_some_and(wanted)
}

/// What a container may by itself.
fn is_more(container: &Value) -> bool {
    let yes = |value: &Value| value == true;
    has(container, "/securityContext/capabilities/add", |all| all.as_array().is_some_and(|all| !all.is_empty()))
        || has(container, "/securityContext/runAsUser", |user| user == 0)
        || has(container, "/securityContext/runAsNonRoot", |is| is == false)
        || has(container, "/securityContext/privileged", yes)
        || has(container, "/securityContext/allowPrivilegeEscalation", yes)
}

/// What all containers of a pod may.
fn is_more_as_a_whole(pod: &Value, wide: &BTreeSet<String>) -> bool {
    let spec = &pod["spec"];
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let is_more = |volume: &Value| {
        !volume["hostPath"].is_null() || volume["projected"].to_string().contains("serviceAccountToken")
    };
    wide.contains(pod["metadata"]["labels"][labels::COMPONENT].as_str().unwrap_or_default())
        || ["hostNetwork", "hostPID", "hostIPC"].iter().any(|field| spec[*field] == true)
        || spec["automountServiceAccountToken"] != false
        || has(spec, "/securityContext/runAsUser", |user| user == 0)
        || volumes.into_iter().any(is_more)
}

/// Images with such rights.
fn with_rights(pod: &Value, wide: &BTreeSet<String>) -> Vec<String> {
    let all = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    let whole = is_more_as_a_whole(pod, wide);
    let containers = ["initContainers", "containers"].into_iter().flat_map(all);
    let containers = containers.filter(|one| whole || is_more(one)).map(|one| one["image"].clone());
    let mounted = all("volumes").into_iter().filter(|_| whole).map(|volume| volume["image"]["reference"].clone());
    containers.chain(mounted).filter_map(|image| image.as_str().map(str::to_owned)).collect()
}

#[test]
fn nothing_of_a_teams_registry_has_rights_that_a_pod_of_the_team_has_not() {
    for delivery in [AgentDelivery::InitContainer, AgentDelivery::ImageVolume] {
        let f = fixture(delivery);
        let (wide, pods) = (reaching_more(&f), rendered(delivery, &f));
        assert_eq!(
            wide,
            BTreeSet::from([names::ETCD_BACKUP.to_owned()]),
            "the Jobs, whose store may be in a private network"
        );
        let images: BTreeSet<String> = pods.iter().flat_map(|pod| with_rights(pod, &wide)).collect();
        assert!(images.iter().all(|image| !image.starts_with(TEAMS)), "{images:?}");
        let mut expected = BTreeSet::from([f.settings.agent_image.clone()]);
        if delivery == AgentDelivery::InitContainer {
            expected.extend(["backup:1".to_owned(), "registry.k8s.io/etcd:3.6.16-0".to_owned()]);
        }
        assert_eq!(images, expected, "these have rights");
        let of_team = pods.iter().filter(|pod| pod.to_string().contains(TEAMS)).count();
        assert!(of_team >= 5, "the team's registry counts for the rest: {of_team}");
    }
}
