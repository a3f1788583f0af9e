//! A change with which no node takes a member gives way to what ran.

use super::*;
use crate::room::{VolumeOf, asked};
use berth_api::labels;
use berth_plan::MetaCluster;
use berth_plan::object_meta::annotation;
use berth_plan::room::{Node, PodThere, Unread, Volume};

const FULL: &str = "0/5 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {a: b}, 1 node(s) didn't match pod anti-affinity rules, 1 node(s) didn't match pod topology spread constraints";

impl Etcd {
    fn wants_cpu(&mut self, limit: &str) {
        self.cr.spec.resources = Some(serde_json::from_value(json!({"limits": {"cpu": limit}})).unwrap());
        self.cr.metadata.generation = self.cr.metadata.generation.map(|n| n + 1);
    }

    fn wants_pool(&mut self, pool: &str) {
        self.cr.spec.placement = serde_json::from_value(json!({"nodeSelector": {"pool": pool}})).unwrap();
        self.cr.metadata.generation = self.cr.metadata.generation.map(|n| n + 1);
    }

    fn pool(&self) -> &Value {
        &self.get(&Self::set())["spec"]["template"]["spec"]["nodeSelector"]["pool"]
    }

    /// Pods are replaced, and one comes that no node takes.
    fn comes_and_finds_no_node(&mut self, why: &str) {
        self.members_run();
        self.reconcile();
        self.members_run();
        self.finds_no_node("etcd-0", why);
        self.answer(&[], 0);
    }

    /// A node has come for the only member's pod.
    fn finds_a_node(&mut self) {
        self.world.observed.objects.remove(&Self::key(Kind::Pod, "etcd-0"));
        self.come_and_run();
    }

    /// Pods are replaced, and all run.
    fn come_and_run(&mut self) {
        for _ in 0..2 {
            self.members_run();
            self.elapse(0);
        }
        self.members_run();
        self.all_answer();
        self.elapse(1);
    }

    fn cpu(&self) -> String {
        let set = self.get(&Self::set());
        set.pointer("/spec/template/spec/containers/0/resources/requests/cpu").unwrap().as_str().unwrap().to_owned()
    }

    fn note(&self) -> Option<String> {
        annotation(self.get(&Self::set()), labels::RAN_WITH).map(str::to_owned)
    }

    /// The scheduler says this of the pod, since now.
    fn finds_no_node(&mut self, member: &str, why: &str) {
        let placed = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why, "lastTransitionTime": self.world.now});
        let key = Self::key(Kind::Pod, member);
        self.edit(&key)["status"] = json!({"phase": "Pending", "conditions": [placed]});
        self.edit(&Self::key(Kind::PersistentVolumeClaim, &format!("data-{member}")))["status"] =
            json!({"phase": "Bound"});
    }

    /// Some seconds pass, and it is looked at until nothing more is done.
    fn elapse(&mut self, seconds: i64) {
        self.world.now = self.world.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
        for _ in 0..4 {
            self.reconcile();
        }
    }
}

/// The only member was replaced by one that asks for more than the node has.
pub(super) fn no_room() -> Etcd {
    let mut e = Etcd::formed(1);
    e.wants_cpu("1");
    e.reconcile();
    assert!(e.note().unwrap().contains(r#""cpu":"50m""#), "{:?}", e.note());
    e.members_run();
    e.reconcile();
    e.members_run();
    e.finds_no_node("etcd-0", FULL);
    e.answer(&[], 0);
    e
}

/// And runs again as it was.
pub(super) fn gave_way() -> Etcd {
    let mut e = no_room();
    e.elapse(31);
    e.members_run();
    e.elapse(0);
    e.members_run();
    e.all_answer();
    e.elapse(1);
    e
}

impl Etcd {
    /// The meta cluster has a node with so many CPUs.
    fn has_nodes(&mut self, cpus: &[&str]) {
        let node = |(at, cpu): (usize, &&str)| {
            let name = format!("n{at}");
            Node::of(&json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": {"cpu": cpu, "memory": "64Gi"}},
            }))
        };
        let nodes: Vec<Node> = cpus.iter().enumerate().map(node).collect();
        let meta = (*self.world.observed.meta).clone();
        self.world.observed.meta = MetaCluster { room: Some(nodes.into()), ..meta }.into();
    }
}

/// More is asked for than any node has.
fn too_much() -> Etcd {
    let mut e = Etcd::formed(3);
    e.has_nodes(&["4", "8"]);
    e.wants_cpu("64");
    e.elapse(1);
    e
}

#[test]
fn what_no_node_could_hold_stops_no_member_until_one_could() {
    let mut e = too_much();
    assert_eq!(e.cpu(), "50m");
    let stopped = |e: &Etcd| e.world.log.iter().filter(|line| line.contains("delete Pod")).count();
    assert_eq!(stopped(&e), 0, "{:#?}", e.world.log);
    let ready = e.cr.status.as_ref().unwrap().conditions.iter().find(|c| c.type_ == "Ready").unwrap().clone();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "Unschedulable"), "{}", ready.message);
    let said = "spec.resources.limits.cpu (spec.etcd.resources.limits.cpu of its Cluster): 64 is asked for, and no node that it may run on has as much";
    assert!(ready.message.contains(&format!("{said}. No member was stopped for it. ")), "{}", ready.message);
    assert!(ready.message.contains("ask the platform team for such a node"), "{}", ready.message);
    // Whose nodes they are learns which, and what they have, and nobody who reads the status.
    assert_eq!(e.plan().plan.for_platform, [format!("{said} (most cpu has node n1: 8)")]);
    let status = serde_json::to_string(&e.cr.status).unwrap();
    assert!(!status.contains("node n1"), "{status}");
    assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
    assert_eq!(e.plan().requeue_after, Some(SignedDuration::from_mins(1)));
    // It stays so, whoever looks, and with nodes that cannot be read.
    e.world.log.clear();
    e.cr.status = None;
    e.elapse(3600);
    let meta = MetaCluster { room: None, ..(*e.world.observed.meta).clone() };
    e.world.observed.meta = meta.into();
    e.elapse(3600);
    assert_eq!((e.world.log.clone(), e.cpu()), (vec![], "50m".to_owned()));
    // What does not ask for more than a node has is done; and so is this, once one has it.
    let mut less = e.clone();
    less.has_nodes(&["4", "8"]);
    less.wants_cpu("8");
    less.elapse(1);
    assert_eq!(less.cpu(), "8");
    let mut back = e.clone();
    back.cr.spec.resources = None;
    back.elapse(1);
    back.come_and_run();
    assert_eq!((back.note(), stopped(&back)), (None, 0));
    assert_eq!(back.condition(ConditionType::Ready), is("True", Reason::AsExpected));
    let mut added = e.clone();
    added.settings.nodes_are_added = true;
    added.elapse(1);
    assert_eq!(added.cpu(), "64", "an autoscaler is told of it");
    e.has_nodes(&["4", "64"]);
    e.elapse(1);
    e.members_run();
    e.all_answer();
    e.reconcile();
    assert_eq!((e.cpu(), stopped(&e)), ("64".to_owned(), 1));
}

#[test]
fn nothing_is_foreseen_where_nodes_are_not_known_or_are_added() {
    type Change = (&'static str, fn(&mut Etcd));
    let changes: [Change; 3] = [
        ("they may not be read", |_| ()),
        ("there are none", |e| e.has_nodes(&[])),
        ("an autoscaler makes them", |e| {
            e.has_nodes(&["4"]);
            e.settings.nodes_are_added = true;
        }),
    ];
    for (case, change) in changes {
        let mut e = Etcd::formed(1);
        change(&mut e);
        e.wants_cpu("64");
        e.elapse(1);
        assert_eq!(e.cpu(), "64", "{case}");
    }
}

#[test]
fn a_member_whose_volume_is_of_a_smaller_node_is_not_stopped() {
    let mut e = Etcd::formed(3);
    e.has_nodes(&["64", "8"]);
    let claim = Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-2");
    e.edit(&claim)["spec"]["volumeName"] = json!("pv-2");
    e.wants_cpu("9");
    let of_etcd_2 = VolumeOf { member: "etcd-2".into(), claim: "data-etcd-2".into(), name: "pv-2".into() };
    assert!(asked(&e.cr, &e.world.observed).unwrap().volumes.contains(&of_etcd_2));
    let volume = of_n1();
    // What has a node of its own could run, but for what others ask for there.
    let mut full = e.clone();
    full.wants_cpu("4");
    let pods = vec![pod(NAMESPACE, "etcd-2", "50m"), pod("other", "etcd-2", "4500m")];
    full.world.observed.volumes = [("etcd-2".to_owned(), Volume { pods, ..volume.clone() })].into();
    full.elapse(1);
    assert!(full.cpu() == "50m" && full.note().unwrap().contains("has as much left"), "{:?}", full.note());
    let [told] = &*full.plan().plan.for_platform else { panic!("{:?}", full.plan().plan.for_platform) };
    assert!(told.ends_with("(most cpu has node n1: 3500m, beside what other pods there ask for)"), "{told}");
    let pods = vec![pod(NAMESPACE, "etcd-2", "50m"), pod("other", "etcd-2", "4")];
    full.world.observed.volumes = [("etcd-2".to_owned(), Volume { pods, ..volume.clone() })].into();
    full.elapse(1);
    assert_eq!(full.cpu(), "4");
    e.world.observed.volumes = [("etcd-2".to_owned(), volume)].into();
    e.elapse(1);
    assert_eq!(e.cpu(), "50m");
    let ready = e.cr.status.as_ref().unwrap().conditions.iter().find(|c| c.type_ == "Ready").unwrap().clone();
    assert!(ready.message.contains("9 is asked for, and no node that it may run on has as much"), "{}", ready.message);
    e.wants_cpu("50m");
    assert_eq!(asked(&e.cr, &e.world.observed), None, "at rest none is read");
}

/// What no node has, and what was tried, is refused whatever is read of volumes.
#[test]
fn volumes_are_read_where_it_depends_on_them_alone() {
    let mut e = too_much();
    assert_eq!(asked(&e.cr, &e.world.observed), None, "no node has 64");
    e.has_nodes(&["64", "8"]);
    assert!(asked(&e.cr, &e.world.observed).is_some());
    let mut tried = gave_way();
    tried.has_nodes(&["64"]);
    tried.elapse(3600);
    assert_eq!(asked(&tried.cr, &tried.world.observed), None);
    assert_eq!(tried.plan().requeue_after, Some(SignedDuration::from_mins(1)), "nothing is waited for");
    tried.wants_cpu("2");
    assert!(asked(&tried.cr, &tried.world.observed).is_some());
}

/// An operator of before wrote names of nodes into the note, and all that the scheduler said.
#[test]
fn what_an_earlier_operator_noted_of_nodes_is_told_nobody() {
    let edited = |mut e: Etcd, from: &str, to: &str| {
        let note = e.note().unwrap();
        assert!(note.contains(from), "{note}");
        e.edit(&Etcd::set())["metadata"]["annotations"][labels::RAN_WITH] = note.replace(from, to).into();
        e.elapse(1);
        serde_json::to_string(&e.cr.status).unwrap()
    };
    let said = edited(too_much(), "no node that it may run on has as much", "the most that a node has is 8 (node n1)");
    assert!(said.contains("no node that it may run on has as much") && !said.contains("node n1"), "{said}");
    let said = edited(gave_way(), "no node takes it: Insufficient cpu", FULL);
    assert!(said.contains("no node took a member with it: no node takes it: Insufficient cpu"), "{said}");
    assert!(!said.contains("a: b") && !said.contains("0/5"), "{said}");
}

/// The volume of etcd-2, which is on node n1 alone.
fn of_n1() -> Volume {
    let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}});
    Volume { claim: "data-etcd-2".into(), name: "pv-2".into(), affinity, ..Volume::default() }
}

/// The same, as it is where a reading failed.
fn not_read(is_denied: bool) -> Volume {
    Volume { unread: Some(Unread { is_denied, why: "get PersistentVolume pv-2: timed out".into() }), ..of_n1() }
}

#[test]
fn a_reading_that_failed_starts_nothing() {
    let read = |e: &mut Etcd, volume: Volume| {
        e.world.observed.volumes = [("etcd-2".to_owned(), volume)].into();
        e.elapse(1);
    };
    // What was refused stays so, with the words that it had.
    let mut e = tied(|e| e.wants_cpu("1"));
    let (refused, why) = (e.note().unwrap(), e.message(ConditionType::Ready));
    for is_denied in [false, true] {
        read(&mut e, not_read(is_denied));
        assert_eq!(
            (e.cpu(), e.note().as_ref(), e.message(ConditionType::Ready)),
            ("50m".to_owned(), Some(&refused), why.clone())
        );
    }
    // A change that is new waits, and begins once it is read.
    let mut new = tied(|e| {
        e.wants_cpu("1");
        e.world.observed.volumes = [("etcd-2".to_owned(), not_read(false))].into();
    });
    assert_eq!(
        (new.cpu(), new.condition(ConditionType::Ready)),
        ("50m".to_owned(), is("False", Reason::Unschedulable))
    );
    let message = new.message(ConditionType::Ready);
    assert!(message.contains("the volume of PersistentVolumeClaim data-etcd-2, or what pods"), "{message}");
    assert!(!message.contains("pv-2") && !message.contains("such a node"), "{message}");
    let [told] = &*new.plan().plan.for_platform else { panic!("{:?}", new.plan().plan.for_platform) };
    assert!(told.ends_with("could not be read (get PersistentVolume pv-2: timed out)"), "{told}");
    read(&mut new, of_n1());
    assert_eq!(new.cpu(), "1");
    // Without the right nothing is ever known, as of nodes: what is new is tried.
    let denied = tied(|e| {
        e.wants_cpu("1");
        e.world.observed.volumes = [("etcd-2".to_owned(), not_read(true))].into();
    });
    assert_eq!(denied.cpu(), "1");
}

fn pod(namespace: &str, name: &str, cpu: &str) -> PodThere {
    let spec = json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]});
    PodThere::of(&json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})).unwrap()
}

/// A member's volume is on a node where others ask for the most, and the spec asks for that.
fn tied(change: impl Fn(&mut Etcd)) -> Etcd {
    let mut e = Etcd::formed(3);
    e.has_nodes(&["64", "8"]);
    let pods = vec![pod(NAMESPACE, "etcd-2", "50m"), pod("other", "x", "7500m")];
    e.world.observed.volumes = [("etcd-2".to_owned(), Volume { pods, ..of_n1() })].into();
    change(&mut e);
    e.elapse(1);
    e
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Etcd)> {
    let mut waits = no_room();
    waits.elapse(1);
    let mut less = no_room();
    less.wants_cpu("20m");
    less.reconcile();
    less.world.run_controllers();
    less.finds_no_node("etcd-0", FULL);
    less.cr.spec.paused = true;
    less.reconcile();
    vec![
        ("no node takes a single member with more resources", waits),
        ("it went back to what ran", gave_way()),
        ("more is asked for than any node has", too_much()),
        ("more is asked for than other pods leave on the only node of a member's volume", tied(|e| e.wants_cpu("1"))),
        (
            "a node is asked for that does not have a member's volume",
            tied(|e| {
                e.cr.spec.placement =
                    serde_json::from_value(json!({"nodeSelector": {"kubernetes.io/hostname": "n0"}})).unwrap();
            }),
        ),
        (
            "more is asked for, and a member's volume could not be read",
            tied(|e| {
                e.wants_cpu("1");
                e.world.observed.volumes = [("etcd-2".to_owned(), not_read(false))].into();
            }),
        ),
        ("less is asked for while no node takes a member", less),
    ]
}

#[test]
fn a_single_member_that_finds_no_node_runs_again_as_it_did() {
    let mut e = no_room();
    e.elapse(5);
    assert_eq!(e.plan().requeue_after, Some(SignedDuration::from_secs(10)));
    assert_eq!(e.cpu(), "1", "it may still come");
    e.elapse(26);
    assert_eq!(e.cpu(), "50m");
    let before = e.pod_uid("etcd-0");
    e.members_run();
    e.elapse(0);
    assert!(e.world.observed.get(&Etcd::key(Kind::Pod, "etcd-0")).is_none_or(|pod| pod["metadata"]["uid"] != before));
    let mut e = gave_way();
    let ready = e.cr.status.as_ref().unwrap().conditions.iter().find(|c| c.type_ == "Ready").unwrap().clone();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "Unschedulable"), "{}", ready.message);
    assert!(
        ready.message.contains("Insufficient cpu") && ready.message.contains("spec.etcd.resources"),
        "{}",
        ready.message
    );
    assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
    // It is not tried for ever.
    e.world.log.clear();
    e.elapse(3600);
    assert_eq!((e.world.log.clone(), e.cpu()), (vec![], "50m".to_owned()));
    // Nor by another operator, which knows what is there alone.
    e.cr.status = None;
    e.elapse(1);
    assert_eq!(e.cpu(), "50m");
    // Less is taken, and the note goes.
    e.wants_cpu("20m");
    e.elapse(1);
    e.members_run();
    e.elapse(1);
    e.members_run();
    e.all_answer();
    e.elapse(1);
    assert_eq!((e.cpu(), e.note()), ("20m".to_owned(), None));
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
}

#[test]
fn what_comes_up_leaves_no_note_and_what_has_nothing_to_do_with_it_changes_nothing() {
    let mut e = Etcd::formed(1);
    e.wants_cpu("1");
    for _ in 0..3 {
        e.elapse(1);
        e.members_run();
        e.all_answer();
    }
    e.elapse(1);
    assert_eq!((e.cpu(), e.note()), ("1".to_owned(), None));
    e.finds_no_node("etcd-0", FULL);
    e.elapse(3600);
    assert_eq!(e.cpu(), "1", "what ran is full by something else");
    for why in [
        "0/1 nodes are available: 1 node(s) were unschedulable",
        "0/1 nodes are available: 1 node(s) had volume node affinity conflict",
    ] {
        let mut e = no_room();
        e.finds_no_node("etcd-0", why);
        e.elapse(3600);
        assert_eq!(e.cpu(), "1", "{why}");
    }
}

#[test]
fn of_three_members_one_that_finds_no_node_waits_longer_and_a_smaller_wish_replaces_it_at_once() {
    let mut e = Etcd::formed(3);
    e.wants_cpu("1");
    e.elapse(1);
    e.members_run();
    e.all_answer();
    e.elapse(1);
    e.members_run();
    let gone = e.world.log.iter().find(|line| line.contains("Pod")).unwrap().clone();
    let member = ["etcd-0", "etcd-1", "etcd-2"].into_iter().find(|member| gone.contains(member)).unwrap();
    e.finds_no_node(member, FULL);
    e.answer(&[0, 1], 0);
    e.elapse(60);
    assert_eq!(e.cpu(), "1", "an autoscaler may bring a node");
    let mut lower = e.clone();
    lower.wants_cpu("40m");
    lower.elapse(1);
    lower.world.run_controllers();
    let before = lower.pod_uid(member);
    lower.answer(&[0, 1], 0);
    lower.elapse(1);
    lower.world.run_controllers();
    assert_ne!(lower.pod_uid(member), before);
    e.elapse(240);
    assert_eq!(e.cpu(), "50m");
}

/// Its nodes before are cordoned, and those that are asked for come later.
#[test]
fn a_member_that_no_node_takes_as_it_ran_either_goes_where_it_is_asked_to_and_stays() {
    const CORDONED: &str = "0/1 nodes are available: 1 node(s) were unschedulable";
    let mut e = Etcd::formed(1);
    e.wants_pool("b");
    e.reconcile();
    e.comes_and_finds_no_node(FULL);
    e.elapse(31);
    assert_eq!(*e.pool(), json!(null));
    let mut back = e.clone();
    e.comes_and_finds_no_node(CORDONED);
    assert_eq!(e.plan().requeue_after, Some(SignedDuration::from_secs(10)));
    e.elapse(31);
    assert_eq!((e.pool(), e.note()), (&json!("b"), None));
    e.comes_and_finds_no_node(FULL);
    e.elapse(3600);
    assert_eq!((e.pool(), e.note()), (&json!("b"), None), "nothing alternates");
    e.finds_a_node();
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
    back.come_and_run();
    back.comes_and_finds_no_node(CORDONED);
    back.elapse(3600);
    assert_eq!(*back.pool(), json!(null), "it ran there since, so its node is awaited");
}

#[test]
fn what_ran_is_not_refused_where_it_is_asked_for_and_waits_for_room() {
    let mut e = no_room();
    e.wants_cpu("50m");
    e.reconcile();
    e.comes_and_finds_no_node(FULL);
    e.elapse(31);
    e.finds_a_node();
    assert_eq!((e.cpu(), e.note()), ("50m".to_owned(), None));
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
}

#[test]
fn what_ran_has_the_memory_limit_of_the_quota_that_is_asked_for_now() {
    let limit = |e: &Etcd| {
        let set = e.get(&Etcd::set());
        set.pointer("/spec/template/spec/containers/0/resources/limits/memory").unwrap().clone()
    };
    let mut e = gave_way();
    e.cr.spec.quota_backend_bytes = Some(6 << 30);
    e.elapse(1);
    assert_eq!((limit(&e), e.cpu()), (json!("8192Mi"), "50m".to_owned()));
    // Nobody's pod is refused for a limit below its request.
    let mut large = Etcd::formed(1);
    let asks = |e: &mut Etcd, memory: &str, pool: &str| {
        e.cr.spec.resources = Some(serde_json::from_value(json!({"requests": {"memory": memory}})).unwrap());
        e.wants_pool(pool);
        e.elapse(1);
    };
    asks(&mut large, "20Gi", "a");
    large.come_and_run();
    asks(&mut large, "1Gi", "b");
    large.comes_and_finds_no_node(FULL);
    large.elapse(31);
    assert_eq!((large.pool(), limit(&large)), (&json!("a"), json!("20Gi")));
}
