//! Releases that ask for more than nodes have: foreseen, or given way to what ran.

use super::*;
use berth_api::labels;
use berth_api::revision::{RevisionCause::Configuration, RevisionOutcome::RolledBack};
use berth_plan::room::Node;

const FULL: &str = "0/2 nodes are available: 2 Insufficient cpu";

impl Fixture {
    /// The meta cluster has two nodes, the larger one with so many CPUs.
    pub(super) fn largest_node(&mut self, cpu: &str) {
        let node = |name: &str, cpu: &str| {
            let status = json!({"allocatable": {"cpu": cpu, "memory": "64Gi"}});
            Node::of(&json!({"metadata": {"name": name, "labels": {"pool": "a"}}, "status": status}))
        };
        self.meta().room = Some(vec![node("n1", "1"), node("n2", cpu)].into());
    }

    /// A component is to have so many CPUs.
    pub(super) fn wants_cpu(&mut self, component: &str, cpu: &str) {
        let spec = &mut self.cluster.spec;
        let resources = match component {
            names::APISERVER => &mut spec.api_server.resources,
            names::CONTROLLER_MANAGER => &mut spec.controller_manager.resources,
            _ => &mut spec.scheduler.resources,
        };
        *resources = Some(serde_json::from_value(json!({"requests": {"cpu": cpu}})).unwrap());
        *self.cluster.metadata.generation.as_mut().unwrap() += 1;
    }

    /// A new pod of a component finds no node; of the old ones so many are ready.
    fn finds_no_node(&mut self, kind: Kind, workload: &str, component: &str, old: i64) {
        let live = self.live(kind, workload);
        let generation = live["metadata"]["generation"].clone();
        live["status"] = json!({
            "observedGeneration": generation, "replicas": old + 1, "updatedReplicas": 1, "availableReplicas": old,
        });
        let pod = Self::key(Kind::Pod, &format!("{component}-new"));
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL,
            "lastTransitionTime": self.world.now,
        });
        let meta = json!({"name": pod.name, "labels": {(labels::COMPONENT): component}});
        self.world.put(pod, json!({"metadata": meta, "status": {"phase": "Pending", "conditions": [condition]}}));
    }
}

/// More is asked for than any node has.
pub(super) fn too_much() -> Fixture {
    let mut f = Fixture::two_of_each();
    f.largest_node("8");
    f.wants_cpu(names::APISERVER, "64");
    f.reconcile();
    f
}

/// The only API server of a VPC was stopped for one that no node takes.
pub(super) fn stopped_in_vain() -> Fixture {
    let vpc = json!({"attachment": {"name": "vpc-acme", "interface": "net1"}, "addresses": ["172.20.0.2/24"], "host": "acme.vpc.example.com"});
    let mut f = Fixture::up_in_vpc(json!({"version": "1.36.2", "replicas": 1, "vpc": vpc}));
    f.wants_cpu(names::APISERVER, "2");
    f.reconcile();
    f.world
        .observed
        .objects
        .retain(|key, o| key.kind != Kind::Pod || o["metadata"]["labels"][labels::COMPONENT] != names::APISERVER);
    f.finds_no_node(Kind::StatefulSet, "kube-apiserver-0", names::APISERVER, 0);
    f.reconcile();
    f
}

#[test]
fn what_no_node_could_hold_begins_nothing_until_one_could() {
    for (component, field) in [
        (names::APISERVER, "apiServer"),
        (names::CONTROLLER_MANAGER, "controllerManager"),
        (names::SCHEDULER, "scheduler"),
    ] {
        let mut f = Fixture::two_of_each();
        f.largest_node("8");
        f.wants_cpu(component, "64");
        f.cluster.spec.api_server.extra_args = serde_json::from_value(json!([{"name": "v", "value": "2"}])).unwrap();
        f.rest();
        assert_eq!(f.world.log, [""; 0], "a release is one thing");
        let (status, reason, message) = f.condition("Ready");
        assert_eq!((&*status, &*reason), ("False", "Unschedulable"), "{message}");
        let said =
            format!("spec.{field}.resources.requests.cpu: 64 is asked for, and no node that it may run on has as much");
        assert!(message.contains(&said) && message.contains("ask the platform team"), "{message}");
        // The team reads the status, and the platform team alone learns which nodes there are.
        let status = serde_json::to_string(&f.cluster.status).unwrap();
        assert!(!status.contains("node n2"), "{status}");
        assert_eq!(f.plan().plan.for_platform, [format!("{said} (most cpu has node n2: 8)")]);
        assert_eq!(f.condition("Available").0, "True");
        let mut added = f.copy();
        added.settings.nodes_are_added = true;
        added.reconcile();
        assert_eq!(added.recorded().len(), 2, "an autoscaler may bring one");
        f.largest_node("64");
        f.reconcile();
        assert_eq!(f.recorded().last().unwrap(), &(2, Configuration, None));
        f.rest();
        assert!(f.component(component)["template"].to_string().contains(r#""cpu":"64""#), "{component}");
    }
}

#[test]
fn what_runs_goes_on_whatever_nodes_have() {
    let mut f = Fixture::up(json!({"version": "1.36.2", "apiServer": {"resources": {"requests": {"cpu": "4"}}}}));
    f.largest_node("1");
    f.flag("v");
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap(), &(2, Configuration, None));
    let mut less = Fixture::up(json!({"version": "1.36.2", "apiServer": {"resources": {"requests": {"cpu": "4"}}}}));
    less.largest_node("1");
    less.wants_cpu(names::APISERVER, "3");
    less.reconcile();
    assert_eq!(less.recorded().len(), 2);
}

/// Of a Deployment the old pods serve until a new one does, of one as of two; and the release goes back, at rest or after another.
#[test]
fn a_component_that_finds_no_node_gives_way_to_what_ran() {
    for component in [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER] {
        for replicas in [1, 2] {
            for amid in [false, true] {
                let mut f = Fixture::up(json!({"version": "1.36.2", "replicas": replicas}));
                let before = f.component(component);
                let rolling = &before["strategy"]["rollingUpdate"];
                assert_eq!(*rolling, json!({"maxSurge": 1, "maxUnavailable": 0}), "{component}");
                if amid {
                    f.flag("v");
                    f.reconcile();
                    f.cluster.spec.api_server.extra_args.clear();
                }
                f.wants_cpu(component, "2");
                f.reconcile();
                // The API servers' rollout that was begun ends first.
                for _ in 0..3 {
                    if amid && f.component(component) == before {
                        f.others();
                        f.reconcile();
                    }
                }
                let changes = f.component(component) != before;
                assert!(changes, "{component} {replicas} {amid}: {:?}", f.condition("Progressing"));
                f.finds_no_node(Kind::Deployment, component, component, replicas);
                f.reconcile();
                f.seconds(301);
                f.reconcile();
                assert_eq!(f.recorded().last().unwrap().2, Some(RolledBack), "{component} {replicas} {amid}");
                assert!(f.component(component) == before, "{component} {replicas} {amid}");
                assert!(f.condition("Ready").2.contains("Insufficient cpu"), "{}", f.condition("Ready").2);
            }
        }
    }
}

/// A minor asks for no more than what runs, so it begins; its first pod is one more, and nothing is stopped until that serves.
#[test]
fn a_minor_in_a_full_cluster_says_so_and_stops_nothing() {
    for replicas in [1, 2] {
        let spec =
            json!({"version": "1.35.4", "replicas": replicas, "apiServer": {"resources": {"requests": {"cpu": "4"}}}});
        let mut f = Fixture::up_for_upgrade(spec);
        // Each node has as much, and others took it.
        f.largest_node("4");
        let before = f.component(names::APISERVER);
        f.world.log.clear();
        f.version("1.36.3");
        f.reconcile();
        let begun = f.component(names::APISERVER);
        assert!(begun != before, "{:?}", f.condition("Ready"));
        assert_eq!(begun["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
        f.finds_no_node(Kind::Deployment, names::APISERVER, names::APISERVER, replicas);
        f.reconcile();
        let ready = f.condition("Ready");
        assert!(
            ready.0 == "False" && ready.2.contains("not scheduled: no node takes it: Insufficient cpu"),
            "{ready:?}"
        );
        assert_eq!(f.condition("Available").0, "True");
        assert!(!f.world.log.iter().any(|line| line.starts_with("delete")), "{:#?}", f.world.log);
        f.seconds(301);
        f.reconcile();
        assert_eq!(f.recorded().last().unwrap().2, Some(RolledBack), "{replicas}");
        assert!(f.component(names::APISERVER) == before, "{replicas}");
    }
}

#[test]
fn the_only_api_server_of_a_vpc_runs_again_soon_if_no_node_takes_the_new_one() {
    let mut f = stopped_in_vain();
    assert!(f.slot(0).to_string().contains(r#""cpu":"2""#));
    f.seconds(29);
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap(), &(2, Configuration, None));
    assert!(f.plan().due.unwrap() <= jiff::SignedDuration::from_secs(1));
    f.seconds(1);
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap(), &(2, Configuration, Some(RolledBack)));
    assert!(!f.slot(0).to_string().contains(r#""cpu":"2""#));
    let message = f.condition("Ready").2;
    let said = "no node took pod kube-apiserver-new for 30 s, and no other API server served: no node takes it: Insufficient cpu";
    assert!(message.contains(said) && !message.contains("0/2"), "{message}");
    // An operator of before recorded all that the scheduler said.
    let recorded = f.world.observed.objects.get_mut(&Fixture::key(Kind::ClusterRevision, "revision-2")).unwrap();
    let earlier = recorded["status"]["message"].as_str().unwrap().replace("no node takes it: Insufficient cpu", FULL);
    recorded["status"]["message"] = earlier.into();
    f.reconcile();
    let message = f.condition("Ready").2;
    assert!(message.contains(said) && !message.contains("0/2"), "{message}");
    // What is cordoned, or has its volume elsewhere, has the whole time.
    let mut f = stopped_in_vain();
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-new");
    let pod = f.world.observed.objects.get_mut(&pod).unwrap();
    pod["status"]["conditions"][0]["message"] = json!("0/1 nodes are available: 1 node(s) were unschedulable");
    f.seconds(299);
    f.reconcile();
    assert_eq!(f.recorded().last().unwrap(), &(2, Configuration, None));
}
