//! The meta cluster's objects are older than etcd's volumes.

use super::*;
use berth_api::etcd_bootstrap::BootstrapState;

/// What is otherwise, and how.
type Case = (&'static str, fn(&mut Etcd));

const REST: &str = "etcd is not started and nothing is touched";

impl Etcd {
    /// Its guard finds data of that epoch.
    pub(super) fn finds_epoch(&mut self, i: i32, cluster: &str, epoch: i64) {
        let member = format!("etcd-{i}");
        let found = format!("holds the data of member {member} of cluster {cluster} in epoch {epoch}");
        self.held(&member, &format!("ForeignData: the volume of etcd member {member} (epoch 1) {found}; {REST}"));
    }

    pub(super) fn finds_id(&mut self, i: i32, id: &str) {
        let member = format!("etcd-{i}");
        let found = format!("holds the data of the ID {id}, which is not this member's any more");
        self.held(&member, &format!("ForeignData: the volume of etcd member {member} (epoch 1) {found}; {REST}"));
    }

    /// As after a restore of the meta cluster: no status.
    pub(super) fn put_back(replicas: i32) -> Self {
        let mut e = Self::formed(replicas);
        e.cr.status = None;
        e.answer(&[], 0);
        e
    }

    /// Everyone answers, etcd-1 under the ID that it got when it was replaced.
    pub(super) fn all_answer_as_replaced(&mut self) {
        self.all_answer();
        let probe = self.probe();
        probe.list.as_mut().unwrap()[1].id = "b1".into();
        probe.members.get_mut("etcd-1").unwrap().as_mut().unwrap().member_id = "b1".into();
    }

    fn uid(&self, i: i32) -> String {
        self.get(&Self::key(Kind::Pod, &format!("etcd-{i}")))["metadata"]["uid"].to_string()
    }
}

#[test]
fn the_epoch_of_a_majority_of_volumes_is_taken_up() {
    for (replicas, held) in [(1, vec![0]), (3, vec![0, 1, 2]), (3, vec![0, 2])] {
        let mut e = Etcd::put_back(replicas);
        for i in &held {
            e.finds_epoch(*i, "first-uid", 3);
        }
        let (before, template) = (e.uid(held[0]), e.get(&Etcd::set())["spec"]["template"].clone());
        e.looks();
        let message = e.message(ConditionType::Ready);
        assert!(message.contains("pod etcd-0 restarts: the record now agrees with its volume (epoch 3)"), "{message}");
        let planned = e.reconcile();
        let record = planned.record.unwrap();
        assert_eq!((record.bootstrap.epoch, record.bootstrap.state), (3, BootstrapState::Established));
        assert_eq!((e.bootstrap()["epoch"].clone(), e.bootstrap()["restored"].clone()), (json!(3), json!(true)));
        assert_eq!(e.get(&Etcd::set())["spec"]["template"], template, "no other pod is replaced for it");
        let at = |text: &str| e.world.log.iter().position(|line| line.contains(text));
        assert!(at("apply ConfigMap") < at("delete Pod"), "the record first: {:#?}", e.world.log);
        e.members_run();
        assert_ne!(e.uid(held[0]), before, "another pod reads the record");
        e.all_answer();
        for said in e.probe().members.values_mut().flatten() {
            said.cluster_id = "c3".into();
        }
        e.reconcile();
        assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
        assert_eq!(e.cr.status.as_ref().unwrap().cluster_id.as_deref(), Some("c3"));
        assert_eq!(e.cr.status.as_ref().unwrap().epoch, Some(3));
    }
}

#[test]
fn no_epoch_is_taken_up_where_another_may_be_the_right_one() {
    let cases: [Case; 8] = [
        ("too few", |e| e.finds_epoch(0, "first-uid", 2)),
        ("not the same", |e| (0..3).for_each(|i| e.finds_epoch(i, "first-uid", 2 + i64::from(i)))),
        ("earlier", |e| (0..3).for_each(|i| e.finds_epoch(i, "first-uid", 0))),
        ("of another cluster", |e| (0..3).for_each(|i| e.finds_epoch(i, "another-uid", 2))),
        ("empty", |e| (0..3).for_each(|i| e.held(&format!("etcd-{i}"), "DataLost: the volume is empty"))),
        ("one answers", |e| {
            (0..2).for_each(|i| e.finds_epoch(i, "first-uid", 2));
            e.answer(&[2], 2);
        }),
        ("paused", |e| {
            (0..3).for_each(|i| e.finds_epoch(i, "first-uid", 2));
            e.cr.spec.paused = true;
        }),
        ("its own record of a change", |e| {
            (0..3).for_each(|i| e.finds_epoch(i, "first-uid", 2));
            let operation = json!({"id": 2, "type": "Replace", "target": "etcd-1", "phase": "Add", "since": "2026-01-01T00:00:00Z"});
            e.rewrite(|record| {
                record["serial"] = json!(2);
                record["operation"] = operation.clone();
            });
        }),
    ];
    for (what, change) in cases {
        let mut e = Etcd::put_back(3);
        change(&mut e);
        let pods = [e.uid(0), e.uid(1), e.uid(2)];
        e.reconcile();
        assert_eq!(e.bootstrap()["epoch"], 1, "{what}");
        e.members_run();
        assert_eq!([e.uid(0), e.uid(1), e.uid(2)], pods, "{what}");
        assert_ne!(e.condition(ConditionType::Ready).0, "True", "{what}");
    }
}

/// The record is of before etcd-1 was replaced.
pub(super) fn replaced_since() -> Etcd {
    let mut e = Etcd::formed(3);
    let member = |i: i32| json!({"name": format!("etcd-{i}"), "id": format!("a{i}"), "peerURL": format!("https://etcd-{i}.{NAMESPACE}.svc:2380"), "stage": "Voter"});
    let members = json!([member(0), member(1), member(2)]);
    e.rewrite(|record| {
        record["serial"] = json!(3);
        record["members"] = members.clone();
    });
    e.reconcile();
    e.cr.status = None;
    e.answer(&[0, 2], 0);
    let listed = &mut e.probe().list.as_mut().unwrap()[1];
    (listed.id, listed.peer_urls) = ("b1".into(), vec!["https://10.96.0.77:2380".into()]);
    e.world.log.clear();
    e
}

#[test]
fn the_id_of_a_voter_that_its_volume_has_is_taken_up() {
    let mut e = replaced_since();
    e.finds_id(1, "b1");
    let before = e.uid(1);
    e.reconcile();
    let member =
        json!({"name": "etcd-1", "id": "b1", "peerURL": "https://10.96.0.77:2380", "stage": "Voter", "added": true});
    assert_eq!(e.bootstrap()["members"][1], member);
    assert_eq!(e.bootstrap()["serial"], 4);
    assert!(!e.world.log.iter().any(|line| line.contains(" through ")), "etcd is told nothing: {:#?}", e.world.log);
    e.members_run();
    assert_ne!(e.uid(1), before);
    e.all_answer_as_replaced();
    e.reconcile();
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );

    // Its pod was not ended meanwhile.
    let mut e = replaced_since();
    e.all_answer_as_replaced();
    e.reconcile();
    assert_eq!(e.bootstrap()["members"][1]["id"], "b1");
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );
}

#[test]
fn an_id_that_the_members_own_volume_does_not_have_is_a_strangers() {
    let cases: [Case; 4] = [
        ("it does not say", |_| {}),
        ("another ID", |e| e.finds_id(1, "c1")),
        ("a learner", |e| {
            e.finds_id(1, "b1");
            e.probe().list.as_mut().unwrap()[1].learner = true;
        }),
        ("the one on record is listed, too", |e| {
            e.finds_id(1, "b1");
            e.probe().list.as_mut().unwrap().push(listed("etcd-1", "a1"));
        }),
    ];
    for (what, change) in cases {
        let mut e = replaced_since();
        change(&mut e);
        e.reconcile();
        assert_eq!((&e.bootstrap()["members"][1]["id"], &e.bootstrap()["serial"]), (&json!("a1"), &json!(3)), "{what}");
    }
}
