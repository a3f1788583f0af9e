//! A restore through the world of a plan: what is written, stopped and started, in which order.

use super::*;
use berth_api::etcd_bootstrap::Phase;
use berth_api::{labels, names};
use berth_plan::RunLevel;
use std::collections::BTreeMap;

impl Etcd {
    /// What an `EtcdRestore` asks for.
    pub(super) fn asked(&mut self, restored: Option<i64>) {
        let request = json!({"namespace": "team-a", "name": "back", "uid": "r1", "restored": restored});
        let annotations = self.cr.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::RESTORE_REQUEST.into(), request.to_string());
    }

    /// What one asks for that Berth created by itself.
    pub(super) fn asked_by_itself(&mut self) {
        let request = json!({"namespace": "team-a", "name": "back", "uid": "r1", "unconfirmed": true});
        let annotations = self.cr.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::RESTORE_REQUEST.into(), request.to_string());
    }

    /// Pinned to templates that tell the guard nothing of restores.
    pub(super) fn before_restores(&mut self) {
        let catalog = berth_render::Catalog::builtin();
        let set = berth_testkit::simulated::before(
            catalog.etcd("3.6".parse().unwrap()).unwrap(),
            "cluster",
            "restored = false",
        );
        self.cr.status.as_mut().unwrap().templates.as_mut().unwrap().digest = set.digest();
        self.world.observed.pinned = Some(set);
        self.reconcile();
        self.members_run();
    }

    fn given_up(&mut self) {
        self.cr.metadata.annotations = None;
    }

    fn phase(&self) -> Option<Phase> {
        self.cr.status.as_ref().unwrap().operation.as_ref().map(|o| o.phase)
    }

    pub(super) fn clients_stop(&mut self) {
        self.cr.spec.clients_stopped = self.cr.status.as_ref().unwrap().operation.as_ref().map(|o| o.id);
    }

    /// As the StatefulSet's controller does.
    pub(super) fn pods_end(&mut self) {
        self.world.observed.etcd = None;
        self.members_run();
        assert_eq!(self.pods(), 0);
    }

    fn pods(&self) -> usize {
        self.world.observed.of_kind(Kind::Pod, NAMESPACE).count()
    }

    /// Its first member serves what was restored.
    pub(super) fn restored_member_runs(&mut self) {
        self.members_run();
        self.all_answer();
        let probe = self.probe();
        probe.list.as_mut().unwrap()[0].id = "b0".into();
        for said in probe.members.values_mut().flatten() {
            (said.cluster_id, said.member_id, said.leader) = ("c2".into(), "b0".into(), "b0".into());
        }
    }

    /// Everything that there is, but for pods, how many there are to be, and the record.
    fn all_but_replicas(&self) -> BTreeMap<ObjectKey, Value> {
        let mut all = self.world.observed.objects.clone();
        all.retain(|key, _| key.kind != Kind::Pod);
        for (key, live) in &mut all {
            let spec = live["spec"].as_object_mut();
            spec.map(|spec| spec.remove("replicas"));
            let data = if key.kind == Kind::ConfigMap { Value::Null } else { live["data"].clone() };
            *live = json!({"labels": live["metadata"]["labels"], "spec": live["spec"], "data": data});
        }
        all
    }

    fn cluster_id(&self) -> Option<&str> {
        self.cr.status.as_ref().unwrap().cluster_id.as_deref()
    }
}

#[test]
fn an_etcd_stops_after_its_clients_and_begins_a_new_epoch_alone() {
    for n in [1, 3] {
        let mut e = Etcd::formed(n);
        let template = e.get(&Etcd::set())["spec"]["template"].clone();
        e.asked(None);
        e.reconcile();
        assert_eq!(e.phase(), Some(Phase::WaitingForClients));
        assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::Restoring));
        assert_eq!((e.replicas(), e.condition(ConditionType::Available).0), (n, "True".into()), "it still serves");
        e.cr.spec.clients_stopped = Some(0);
        e.reconcile();
        assert_eq!(e.replicas(), n, "that was another one");

        e.clients_stop();
        e.world.log.clear();
        e.reconcile();
        assert_eq!((e.phase(), e.replicas()), (Some(Phase::Stop), 0));
        assert!(e.world.log[0].starts_with("apply ConfigMap"), "the record first: {:#?}", e.world.log);
        assert_eq!((e.bootstrap()["epoch"].clone(), e.cluster_id()), (json!(1), Some("c1")));

        e.pods_end();
        e.reconcile();
        assert_eq!((e.phase(), e.replicas()), (Some(Phase::Restore), 0));
        let told = e.bootstrap();
        assert_eq!(
            (&told["epoch"], &told["state"], &told["restored"]),
            (&json!(2), &json!("Established"), &json!(true))
        );
        assert_eq!((e.cr.status.as_ref().unwrap().epoch, e.cluster_id()), (Some(2), None));
        let map = e.get(&Etcd::key(Kind::ConfigMap, &names::etcd::bootstrap(NAME)))["data"].clone();
        assert_eq!(map["initial-cluster-token"], "first-uid-2");
        assert_eq!(map["initial-cluster"], format!("etcd-0=https://etcd-0.{NAMESPACE}.svc:2380"));
        e.reconcile();
        assert_eq!(e.replicas(), 0, "nothing starts before the data is there");

        e.asked(Some(2));
        e.reconcile();
        assert_eq!((e.phase(), e.replicas()), (Some(Phase::Start), 1));
        assert_eq!(e.condition(ConditionType::Available), is("False", Reason::Restoring));
        e.restored_member_runs();
        e.reconcile();
        assert_eq!((e.phase(), e.cluster_id()), (Some(Phase::Done), Some("c2")));
        e.given_up();
        e.cr.spec.clients_stopped = None;
        e.reconcile();
        if n == 1 {
            assert_eq!(e.phase(), None);
            assert_eq!(
                e.condition(ConditionType::Ready),
                is("True", Reason::AsExpected),
                "{}",
                e.message(ConditionType::Ready)
            );
        } else {
            assert_eq!(e.cr.status.as_ref().unwrap().operation.as_ref().unwrap().target, "etcd-1");
        }
        assert_eq!(e.get(&Etcd::set())["spec"]["template"], template, "the template is as it was");
    }
}

#[test]
fn it_is_turned_back_until_the_epoch_has_changed() {
    let mut e = Etcd::formed(3);
    e.asked(None);
    e.reconcile();
    e.clients_stop();
    e.reconcile();
    e.given_up();
    e.reconcile();
    assert_eq!((e.phase(), e.replicas(), e.bootstrap()["epoch"].clone()), (None, 3, json!(1)));
    e.members_run();
    e.all_answer();
    e.reconcile();
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );

    e.asked(None);
    e.reconcile();
    e.clients_stop();
    e.reconcile();
    e.pods_end();
    e.reconcile();
    e.given_up();
    e.reconcile();
    assert_eq!((e.phase(), e.replicas()), (Some(Phase::Restore), 0));
    assert!(
        e.message(ConditionType::Ready).contains("Create another EtcdRestore"),
        "{}",
        e.message(ConditionType::Ready)
    );
}

#[test]
fn one_of_an_earlier_berth_with_several_volumes_is_left_alone() {
    let mut e = Etcd::formed(3);
    e.before_restores();
    e.all_answer();
    e.asked(None);
    let claim = json!({"metadata": {"labels": {labels::ETCD_CLUSTER: NAME}}});
    e.world.put(Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"), claim);
    e.reconcile();
    assert_eq!((e.phase(), e.replicas()), (None, 3));
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::EtcdChangeUnsupported));
    assert_eq!(e.condition(ConditionType::Available).0, "True");
    let mut one = Etcd::formed(1);
    one.before_restores();
    one.all_answer();
    one.asked(None);
    one.reconcile();
    assert_eq!(one.phase(), Some(Phase::WaitingForClients), "its guard needs to set nothing aside");
}

#[test]
fn at_each_run_level_etcd_has_its_members_and_everything_else_stays() {
    for (phase, level, members) in [
        (None, RunLevel::Up, 3),
        (Some(Phase::WaitingForClients), RunLevel::ClientsStopped, 3),
        (Some(Phase::Stop), RunLevel::Down, 0),
        (Some(Phase::Restore), RunLevel::Down, 0),
    ] {
        let mut e = Etcd::formed(3);
        for member in 0..3 {
            let claim = json!({"metadata": {"labels": {labels::ETCD_CLUSTER: NAME}}});
            e.world.put(Etcd::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{member}")), claim);
        }
        e.reconcile();
        let before = e.all_but_replicas();
        if phase.is_some() {
            e.asked(None);
            e.reconcile();
        }
        if matches!(phase, Some(Phase::Stop | Phase::Restore)) {
            e.clients_stop();
            e.reconcile();
        }
        if phase == Some(Phase::Restore) {
            e.pods_end();
            e.reconcile();
        }
        assert_eq!((e.phase(), RunLevel::during(e.plan().record.unwrap().operation.as_ref())), (phase, level));
        assert_eq!((e.replicas(), e.all_but_replicas()), (members, before), "{level:?}");
    }
}
