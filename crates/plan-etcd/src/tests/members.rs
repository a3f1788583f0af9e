//! Members come, go and are replaced, through the world of a plan: what is written and told, in which order.

use super::*;
use berth_api::labels;
use berth_plan::model::MemberChange;

const LOST: &str = "DataLost: the volume of etcd member etcd-1 is empty";

impl Etcd {
    /// What its record says of itself is changed, in both places.
    pub(super) fn rewrite(&mut self, change: impl Fn(&mut Value)) {
        for key in [Self::set(), Self::key(Kind::ConfigMap, "etcd-bootstrap")] {
            let live = self.edit(&key);
            let note = live["metadata"]["annotations"][labels::ETCD_RECORD].as_str().unwrap();
            let mut record: Value = serde_json::from_str(note).unwrap();
            change(&mut record);
            live["metadata"]["annotations"][labels::ETCD_RECORD] = record.to_string().into();
        }
    }

    /// Plans and writes the status, but carries nothing out: as when calls to etcd fail.
    pub(super) fn looks(&mut self) {
        let planned = self.plan();
        self.cr.status = Some(status(self.input(&self.world), &planned, None));
    }

    /// The pod of a member that was added runs, and answers as a learner that is so far behind.
    pub(super) fn joins(&mut self, i: i32, lag: u64) {
        self.members_run();
        let name = format!("etcd-{i}");
        self.world.run_pod(&Self::key(Kind::Pod, &name));
        let leader = self.answer_of_leader();
        let learner = self.probe().list.as_mut().unwrap().iter_mut().find(|m| m.learner).expect("a learner");
        learner.name.clone_from(&name);
        let mut said = MemberProbe { member_id: learner.id.clone(), learner: true, ..leader };
        said.progress.applied_index = said.progress.raft_index - lag;
        self.probe().members.insert(name, Ok(said));
    }

    fn answer_of_leader(&mut self) -> MemberProbe {
        let members = &mut self.probe().members;
        members.values_mut().flatten().for_each(|m| m.progress.raft_index = 5000);
        members.values().flatten().find(|m| m.leader == m.member_id).unwrap().clone()
    }

    pub(super) fn passes(&mut self, seconds: i64) {
        self.world.now += SignedDuration::from_secs(seconds);
    }

    /// Until nothing changes any more, with what learners do.
    fn grows(&mut self) {
        for _ in 0..40 {
            self.reconcile();
            self.passes(2);
            self.members_run();
            let learner = self.probe().list.as_ref().unwrap().iter().any(|m| m.learner);
            let i = self.replicas() - 1;
            if learner && self.world.observed.get(&Self::key(Kind::Pod, &format!("etcd-{i}"))).is_some() {
                self.joins(i, 0);
            }
        }
        self.reconcile();
    }

    fn record(&self) -> Value {
        let note = &self.get(&Self::key(Kind::ConfigMap, "etcd-bootstrap"))["metadata"]["annotations"];
        serde_json::from_str(note[labels::ETCD_RECORD].as_str().unwrap()).unwrap()
    }

    fn told(&self) -> Vec<&String> {
        self.world.log.iter().filter(|line| line.contains(" through ")).collect()
    }

    fn endpoints(&self) -> Vec<&str> {
        self.cr.status.as_ref().unwrap().endpoints.iter().map(|e| e.name.as_str()).collect()
    }

    pub(super) fn pod_uid(&self, name: &str) -> Value {
        self.get(&Self::key(Kind::Pod, name))["metadata"]["uid"].clone()
    }
}

#[test]
fn one_member_becomes_three_and_its_pod_stays() {
    let mut e = Etcd::formed(1);
    let (pod, template) = (e.pod_uid("etcd-0"), e.get(&Etcd::set())["spec"]["template"].clone());
    e.cr.spec.replicas = 3;
    e.cr.metadata.generation = Some(2);
    e.reconcile();
    let at = |e: &Etcd, text: &str| {
        e.world.log.iter().position(|l| l.contains(text)).unwrap_or_else(|| panic!("{text}: {:#?}", e.world.log))
    };
    let order = [
        "apply Service acme-9201d5e7/etcd-1",
        "apply ConfigMap",
        "update Secret acme-9201d5e7/etcd-peer",
        "add learner",
    ];
    for pair in order.windows(2) {
        assert!(at(&e, pair[0]) < at(&e, pair[1]), "{pair:?}: {:#?}", e.world.log);
    }
    let address = e.get(&Etcd::key(Kind::Service, "etcd-1"))["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(
        e.told(),
        [&format!("add learner https://{address}:2380 of EtcdCluster acme-9201d5e7/etcd through etcd-0")]
    );
    let joining = &e.bootstrap()["members"][1];
    assert_eq!(
        *joining,
        json!({"name": "etcd-1", "id": joining["id"], "peerURL": format!("https://{address}:2380"), "stage": "Joining", "added": true})
    );
    assert_eq!((e.replicas(), e.condition(ConditionType::Ready)), (2, is("False", Reason::MembersChanging)));
    assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
    assert_eq!(e.cr.status.as_ref().unwrap().operation.as_ref().unwrap().target, "etcd-1");

    // It has to be close, in two looks.
    e.joins(1, 1000);
    e.reconcile();
    assert_eq!(e.record()["operation"]["phase"], "Start", "too far behind");
    e.joins(1, 999);
    e.reconcile();
    assert_eq!((e.told().len(), &e.record()["operation"]["phase"]), (1, &json!("Promote")), "one look is not enough");
    e.passes(2);
    e.joins(1, 1000);
    e.reconcile();
    assert_eq!(e.told().len(), 1, "it fell behind");
    let spared = |e: &Etcd| e.get(&Etcd::key(Kind::PodDisruptionBudget, NAME))["spec"]["maxUnavailable"].clone();
    e.joins(1, 0);
    e.reconcile();
    assert!(e.told()[1].starts_with("promote member"), "{:#?}", e.told());
    assert_eq!(spared(&e), 0, "neither of two can be spared");
    assert_eq!(e.endpoints(), ["etcd-0"], "clients are told once, at the end");

    e.grows();
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );
    assert_eq!((e.replicas(), e.told().len()), (3, 4), "{:#?}", e.told());
    assert_eq!(e.endpoints(), ["etcd-0", "etcd-1", "etcd-2"]);
    assert_eq!(e.record()["operation"], Value::Null);
    assert_eq!(e.pod_uid("etcd-0"), pod);
    assert_eq!(e.get(&Etcd::set())["spec"]["template"], template, "no other pod may ever be replaced for it");
    assert_eq!(spared(&e), 1);
    let log = e.world.log.len();
    e.reconcile();
    assert_eq!(e.world.log.len(), log, "at rest nothing is written: {:#?}", e.world.log.last());
}

#[test]
fn three_members_become_one_and_the_last_volume_goes_last() {
    let mut e = Etcd::formed(3);
    // The one that is to go leads.
    e.answer(&[0, 1, 2], 2);
    e.cr.spec.replicas = 1;
    for _ in 0..20 {
        e.reconcile();
        e.members_run();
        let listed: Vec<_> = e.probe().list.as_ref().unwrap().iter().map(|m| m.name.clone()).collect();
        e.probe().members.retain(|name, _| listed.contains(name));
        assert!(!e.endpoints().contains(&"etcd-2"));
    }
    let told: Vec<_> = e.told().into_iter().map(|line| line.split(" of ").next().unwrap()).collect();
    assert_eq!(told, ["move leadership to member a0", "remove member a2", "remove member a1"]);
    let at = |text: &str| {
        e.world.log.iter().position(|l| l.contains(text)).unwrap_or_else(|| panic!("{text}: {:#?}", e.world.log))
    };
    assert!(
        at("remove member a2") < at("delete PersistentVolumeClaim acme-9201d5e7/data-etcd-2"),
        "{:#?}",
        e.world.log
    );
    for gone in [
        Etcd::key(Kind::Pod, "etcd-1"),
        Etcd::key(Kind::Service, "etcd-2"),
        Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"),
        Etcd::key(Kind::PodDisruptionBudget, NAME),
    ] {
        assert!(e.world.observed.get(&gone).is_none(), "{gone}: {:#?}", e.world.log);
    }
    assert_eq!((e.replicas(), e.endpoints()), (1, vec!["etcd-0"]));
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );
    assert!(!e.world.log.iter().any(|l| l.contains("delete Pod ")), "etcd-0's pod stays: {:#?}", e.world.log);
}

#[test]
fn a_member_that_lost_its_data_is_replaced_under_another_id() {
    let mut e = Etcd::formed(3);
    let others = [e.pod_uid("etcd-0"), e.pod_uid("etcd-2")];
    e.held("etcd-1", LOST);
    e.answer(&[0, 2], 0);
    e.reconcile();
    let told: Vec<_> = e.told().into_iter().map(|line| line.split(" of ").next().unwrap().to_owned()).collect();
    assert_eq!(told, ["remove member a1", "add learner https://etcd-1.acme-9201d5e7.svc:2380"], "removed first");
    assert!(
        e.world.log.iter().any(|l| l == "delete Pod acme-9201d5e7/etcd-1"),
        "it reads the record anew: {:#?}",
        e.world.log
    );
    let members = e.bootstrap()["members"].clone();
    let joining = members.as_array().unwrap().iter().find(|m| m["name"] == "etcd-1").unwrap();
    assert!(joining["id"] != "a1" && joining["stage"] == "Joining", "{members}");
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::MembersChanging));
    e.joins(1, 0);
    e.reconcile();
    e.passes(2);
    e.joins(1, 0);
    e.reconcile();
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );
    assert_eq!([e.pod_uid("etcd-0"), e.pod_uid("etcd-2")], others);
    assert_eq!(e.endpoints(), ["etcd-0", "etcd-1", "etcd-2"]);
}

impl Etcd {
    /// Somebody removes it with `etcdctl`, upon which it ends.
    pub(super) fn is_removed_by_hand(&mut self, member: &str) {
        let at = self.probe().list.as_ref().unwrap().iter().position(|m| m.name == member).unwrap();
        self.probe().list.as_mut().unwrap().remove(at);
        self.probe().members.insert(member.to_owned(), Err("connection refused".into()));
        let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let status = json!({"name": "etcd", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended});
        self.world.pod_status(&Self::key(Kind::Pod, member), json!({"containerStatuses": [status]}));
    }
}

/// Who reads it learns that somebody else did it, and not of a pod that ended as it should.
#[test]
fn a_member_that_was_removed_by_hand_is_said_to_be_so() {
    let mut e = Etcd::formed(3);
    e.is_removed_by_hand("etcd-1");
    e.reconcile();
    let by_hand = "somebody removed etcd-1; Berth adds it again under another ID";
    let mut said = vec![e.message(ConditionType::Ready)];
    e.joins(1, 2000);
    e.reconcile();
    said.push(e.message(ConditionType::Ready));
    e.joins(1, 0);
    e.reconcile();
    said.push(e.message(ConditionType::Ready));
    assert!(said.iter().all(|said| said.starts_with(by_hand) && !said.contains("exit code 0")), "{said:#?}");
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::MembersChanging));
    assert_eq!(e.condition(ConditionType::Progressing).0, "True");
    // One that Berth removes is not.
    let mut e = Etcd::formed(3);
    e.held("etcd-1", LOST);
    e.answer(&[0, 2], 0);
    for lag in [2000, 0] {
        e.reconcile();
        let said = e.message(ConditionType::Ready);
        assert!(said.starts_with("waiting for member etcd-1 to be replaced"), "{said}");
        e.joins(1, lag);
    }
    e.reconcile();
    let said = e.message(ConditionType::Ready);
    assert!(!said.contains("somebody removed"), "{said}");
}

#[test]
fn nobody_is_replaced_because_it_is_away_or_while_others_are() {
    let mut e = Etcd::formed(3);
    e.answer(&[0, 2], 0);
    e.world.now += SignedDuration::from_hours(24);
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    let mut e = Etcd::formed(5);
    e.held("etcd-1", LOST);
    e.answer(&[0, 2], 0);
    e.reconcile();
    assert!(e.world.log.is_empty(), "no quorum: {:#?}", e.world.log);
    let mut e = Etcd::formed(1);
    e.held("etcd-0", &LOST.replace("etcd-1", "etcd-0"));
    e.answer(&[], 0);
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::DataLost));
}

/// Only the guard's own word proves a loss, and only as long as it holds.
#[test]
fn what_the_guard_did_not_say_or_said_before_it_let_etcd_run_proves_no_loss() {
    let mut situations = vec![];
    for said in ["", "SomethingNew: the volume is odd", "ForeignData: of another cluster"] {
        let mut e = Etcd::formed(3);
        e.held("etcd-1", said);
        situations.push(e);
    }
    // It was held once, in this pod, runs since, and is cut off now.
    let mut e = Etcd::formed(3);
    let ended = json!({"terminated": {"exitCode": 42, "message": LOST}});
    let etcd = json!({"name": "etcd", "ready": false, "state": {"running": {}}, "lastState": ended});
    e.world.pod_status(&Etcd::key(Kind::Pod, "etcd-1"), json!({"containerStatuses": [etcd]}));
    situations.push(e);
    for mut e in situations {
        e.answer(&[0, 2], 0);
        e.reconcile();
        assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    }
}

/// Volumes of members that were replaced came back, and hold an older state of this etcd: it is in two parts.
#[test]
fn nothing_changes_while_members_name_different_leaders() {
    let mut e = Etcd::formed(3);
    e.cr.spec.replicas = 5;
    let others = e.probe().members.get_mut("etcd-2").unwrap();
    others.as_mut().unwrap().leader = "a2".into();
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert!(e.message(ConditionType::Ready).contains("to agree on a leader"), "{}", e.message(ConditionType::Ready));
}

/// etcd does not start a member that names the others otherwise than they are listed.
#[test]
fn who_joins_is_told_of_the_others_as_etcd_lists_them() {
    let mut e = Etcd::formed(3);
    e.held("etcd-2", &LOST.replace("etcd-1", "etcd-2"));
    e.answer(&[0, 1], 0);
    e.reconcile();
    let listed = |e: &mut Etcd, name: &str| {
        let list = e.probe().list.as_mut().unwrap();
        list.iter().position(|m| m.name == name).unwrap()
    };
    let at = listed(&mut e, "etcd-0");
    e.probe().list.as_mut().unwrap()[at].peer_urls = vec!["https://10.1.2.3:2380".into()];
    let at = listed(&mut e, "etcd-1");
    e.probe().list.as_mut().unwrap().remove(at);
    e.reconcile();
    let told: berth_api::etcd_bootstrap::Bootstrap = serde_json::from_value(e.bootstrap()).unwrap();
    let joining = told.member("etcd-2").unwrap();
    assert_eq!(
        told.initial_cluster(),
        format!("etcd-0=https://10.1.2.3:2380,etcd-2={}", joining.peer_url),
        "one was moved, and one removed"
    );
    // Once it votes, the one that was removed comes anew.
    for _ in 0..2 {
        e.joins(2, 0);
        e.reconcile();
        e.passes(2);
    }
    e.reconcile();
    assert_eq!(e.record()["operation"]["target"], "etcd-1");
}

#[test]
fn an_unknown_member_stops_every_change() {
    let mut e = Etcd::formed(3);
    e.probe().list.as_mut().unwrap().push(listed("stranger", "beef"));
    e.cr.spec.replicas = 5;
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert_eq!(e.condition(ConditionType::Degraded), is("True", Reason::UnknownMember));
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("It counts as a voter, whether it runs or not: etcd now needs 3 of 4"), "{said}");
    let command = format!("kubectl -n {NAMESPACE} exec etcd-0 -c etcd -- etcdctl --endpoints=https://127.0.0.1:2379 ");
    assert!(said.contains(&command) && said.ends_with(" member remove beef"), "{said}");
    // A member that answers is asked.
    e.answer(&[1, 2], 1);
    e.probe().list.as_mut().unwrap().push(listed("stranger", "beef"));
    e.reconcile();
    assert!(e.message(ConditionType::Ready).contains("exec etcd-1 -c etcd"), "{}", e.message(ConditionType::Ready));
    e.answer(&[0, 1, 2], 0);
    e.probe().list.as_mut().unwrap().push(listed("stranger", "beef"));
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
}

#[test]
fn what_is_paused_or_of_an_earlier_berth_does_not_grow() {
    let mut e = Etcd::formed(1);
    e.cr.spec.replicas = 3;
    e.cr.spec.paused = true;
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    let mut e = Etcd::formed(1);
    e.older_templates();
    e.cr.spec.replicas = 3;
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Spec), Some(Reason::EtcdChangeUnsupported));
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    // Guards of any build hold whoever is not wanted, so it may shrink.
    let mut e = Etcd::formed(3);
    e.older_templates();
    e.cr.spec.replicas = 1;
    for _ in 0..20 {
        e.reconcile();
        e.members_run();
        let listed: Vec<_> = e.probe().list.as_ref().unwrap().iter().map(|m| m.name.clone()).collect();
        e.probe().members.retain(|name, _| listed.contains(name));
    }
    assert_eq!((e.replicas(), e.condition(ConditionType::Ready)), (1, is("True", Reason::AsExpected)));
}

#[test]
fn the_newest_record_counts_whole() {
    let mut e = Etcd::formed(1);
    e.cr.spec.replicas = 3;
    e.reconcile();
    let newest = e.record();
    // The StatefulSet has an older one: the operator ended between the two writes.
    let mut older = newest.clone();
    older["serial"] = json!(newest["serial"].as_i64().unwrap() - 1);
    older["replicas"] = json!(1);
    older["operation"] = Value::Null;
    e.edit(&Etcd::set())["metadata"]["annotations"][labels::ETCD_RECORD] = older.to_string().into();
    e.edit(&Etcd::set())["spec"]["replicas"] = 1.into();
    e.reconcile();
    assert_eq!((e.record(), e.replicas()), (newest.clone(), 2));
    // Either of them is enough.
    e.world.remove(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"));
    e.reconcile();
    assert_eq!((e.record(), e.replicas()), (newest, 2));
}

#[test]
fn the_record_is_written_on_the_version_that_was_read() {
    let mut e = Etcd::formed(1);
    e.cr.spec.replicas = 3;
    let planned = e.plan();
    let version = e.get(&Etcd::key(Kind::ConfigMap, "etcd-bootstrap"))["metadata"]["resourceVersion"].clone();
    let first = planned.plan.stage(StageId::Etcd).unwrap().actions.first().unwrap();
    let berth_plan::model::Action::Apply(object) = first else { panic!("{first:?}") };
    assert_eq!(
        (object.key().name.as_str(), object.get("/metadata/resourceVersion")),
        ("etcd-bootstrap", Some(&version))
    );
    assert!(!version.is_null());
    assert!(planned.plan.actions().all(|a| !matches!(a, berth_plan::model::Action::ChangeMembers { .. })));
    assert_eq!(MemberChange::Remove { id: "a".into() }.describe(), "remove member a");
    // So is one that only repairs it: it may be late, and must not take back what is on record by then.
    e.reconcile();
    let map = Etcd::key(Kind::ConfigMap, "etcd-bootstrap");
    e.edit(&map)["data"]["initial-cluster"] = "".into();
    let version = e.get(&map)["metadata"]["resourceVersion"].clone();
    let planned = e.plan();
    let repair = planned.plan.actions().find_map(|a| match a {
        berth_plan::model::Action::Apply(object) if *object.key() == map => object.get("/metadata/resourceVersion"),
        _ => None,
    });
    assert_eq!(repair, Some(&version));
}
