//! Members get another version, one after the other, and go back if one does not come up.

use super::*;
use berth_api::labels;
use berth_plan::object_meta::label;

pub(super) const OLD: &str = "3.5.35";
pub(super) const NEW: &str = "3.6.16";

/// Name, what is wrong.
type Wrong = (&'static str, fn(&mut Etcd));

impl Etcd {
    /// Formed, of that version.
    pub(super) fn of_version(version: &str, replicas: i32) -> Self {
        let mut e = Self::new(replicas);
        e.cr.spec.version = version.into();
        e.reconcile();
        e.members_run();
        e.serves(0);
        e.reconcile();
        e.reconcile();
        assert_eq!(e.condition(ConditionType::Ready), ("True".into(), "AsExpected".into()), "{:#?}", e.cr.status);
        e.world.log.clear();
        e
    }

    pub(super) fn asks_for(&mut self, version: &str) {
        self.cr.spec.version = version.into();
        self.cr.metadata.generation = self.cr.metadata.generation.map(|n| n + 1);
        self.reconcile();
    }

    fn pod_version(&self, i: i32) -> String {
        let pod = self.world.observed.get(&Self::key(Kind::Pod, &format!("etcd-{i}")));
        pod.and_then(|pod| label(pod, labels::VERSION)).unwrap_or("none").to_owned()
    }

    fn versions(&self) -> Vec<String> {
        (0..self.replicas()).map(|i| self.pod_version(i)).collect()
    }

    /// Every member whose pod is ready answers, with the version of its pod. Data are of the lowest minor that runs.
    pub(super) fn serves(&mut self, leader: i32) {
        let ready = |e: &Self, i: i32| {
            let pod = e.world.observed.get(&Self::key(Kind::Pod, &format!("etcd-{i}")));
            pod.is_some_and(berth_plan::workload::pod_ready)
        };
        let up: Vec<i32> = (0..self.replicas()).filter(|i| ready(self, *i)).collect();
        self.answer(&up, leader);
        let versions: Vec<_> = up.iter().map(|i| (*i, self.pod_version(*i))).collect();
        // Who does not answer has not raised anything.
        let lowest = if up.len() < self.versions().len() { OLD.to_owned() } else { self.versions()[0].clone() };
        for (i, version) in versions {
            let said = self.probe().members.get_mut(&format!("etcd-{i}")).unwrap().as_mut().unwrap();
            said.storage_version =
                if version.starts_with("3.6") { format!("{}.0", &lowest[..3]) } else { String::new() };
            said.version = version;
        }
    }

    /// Who leads, as the members say.
    fn leads(&self) -> i32 {
        let probe = self.world.observed.etcd.as_ref().unwrap();
        let leader = probe.members.values().flatten().map(|m| m.leader.clone()).next().unwrap();
        leader.trim_start_matches('a').parse().unwrap()
    }

    /// Controllers and kubelets do their part, some seconds pass, and the operator looks again.
    pub(super) fn turn(&mut self) {
        self.members_run();
        self.passes_well();
    }

    fn passes_well(&mut self) {
        let (leader, alarms) = (self.leads(), self.probe().alarms.clone());
        self.serves(leader);
        self.probe().alarms = alarms;
        self.world.now += SignedDuration::from_secs(6);
        self.reconcile();
    }

    /// Until that member has a pod of the new version, which nobody has looked at yet.
    pub(super) fn until_new(&mut self, i: i32) {
        for _ in 0..30 {
            self.members_run();
            if self.pod_version(i) == NEW {
                return;
            }
            self.passes_well();
        }
        panic!("{:?}", self.versions());
    }

    /// The newest pod of that version fails.
    pub(super) fn fails(&mut self, i: i32) {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let last = json!({"terminated": {"exitCode": 1, "startedAt": self.world.now, "finishedAt": self.world.now}});
        let status = json!({"name": "etcd", "ready": false, "state": waiting, "lastState": last});
        self.world.pod_status(&Self::key(Kind::Pod, &format!("etcd-{i}")), json!({"containerStatuses": [status]}));
    }

    fn moves(&self) -> Vec<&String> {
        self.world.log.iter().filter(|line| line.contains("move leadership")).collect()
    }

    fn strategy(&self) -> Value {
        self.get(&Self::set())["spec"]["updateStrategy"].clone()
    }
}

#[test]
fn one_member_after_the_other_and_the_leader_last() {
    for (leader, moves) in [(0, 1), (1, 2), (2, 2)] {
        let mut e = Etcd::of_version(OLD, 3);
        e.serves(leader);
        e.asks_for(NEW);
        assert!(e.world.log.iter().any(|l| l.contains("compare hashes")), "{:#?}", e.world.log);
        let mut seen = vec![e.versions()];
        for _ in 0..20 {
            e.turn();
            assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
            if seen.last() != Some(&e.versions()) {
                seen.push(e.versions());
            }
        }
        let of = |new: usize| (0..3).map(|i| if i >= 3 - new { NEW } else { OLD }.to_owned()).collect::<Vec<_>>();
        assert_eq!(seen, [of(0), of(1), of(2), of(3)], "leader {leader}");
        assert_eq!(e.moves().len(), moves, "leader {leader}: {:#?}", e.world.log);
        assert_eq!(
            e.condition(ConditionType::Ready),
            is("True", Reason::AsExpected),
            "{}",
            e.message(ConditionType::Ready)
        );
        let status = e.cr.status.clone().unwrap();
        assert_eq!((status.version.as_deref(), status.operation), (Some(NEW), None));
        assert_eq!(e.strategy(), json!({"type": "OnDelete"}));
        let digest = berth_render::Catalog::builtin().etcd("3.6".parse().unwrap()).unwrap().digest();
        assert_eq!(status.templates.unwrap().digest, digest);
        assert!(status.hashes.unwrap().differing.is_empty());
        // At rest nothing more.
        e.world.log.clear();
        e.turn();
        assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    }
}

#[test]
fn a_pod_that_is_lost_comes_back_in_its_own_version() {
    let mut e = Etcd::of_version(OLD, 3);
    e.asks_for(NEW);
    e.until_new(2);
    e.world.remove(&Etcd::key(Kind::Pod, "etcd-0"));
    e.world.remove(&Etcd::key(Kind::Pod, "etcd-2"));
    e.members_run();
    assert_eq!(e.versions(), [OLD, OLD, NEW]);
}

#[test]
fn a_single_member_changes_too() {
    let mut e = Etcd::of_version(OLD, 1);
    e.asks_for(NEW);
    for _ in 0..6 {
        e.turn();
    }
    assert_eq!(e.versions(), [NEW]);
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
    assert!(e.moves().is_empty());
}

#[test]
fn at_the_first_that_fails_all_go_back() {
    for fails in [2, 1, 0] {
        let mut e = Etcd::of_version(OLD, 3);
        e.asks_for(NEW);
        e.until_new(fails);
        let others: Vec<_> = (0..3).filter(|i| *i != fails).collect();
        let silent = |e: &mut Etcd| {
            e.fails(fails);
            let leader = *others.iter().find(|i| **i == e.leads()).unwrap_or(&others[0]);
            e.serves(leader);
        };
        silent(&mut e);
        e.reconcile();
        assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::RollingOut), "it may still come");
        e.world.now += SignedDuration::from_secs(31);
        e.reconcile();
        assert_eq!(e.strategy(), json!({"type": "OnDelete"}));
        // The controller takes the former template up; the one that fails goes first.
        e.members_run();
        silent(&mut e);
        e.world.log.clear();
        e.reconcile();
        assert_eq!(e.world.log.first().map(String::as_str), Some(&*format!("delete Pod acme-9201d5e7/etcd-{fails}")));
        for _ in 0..8 {
            e.turn();
        }
        assert_eq!(e.versions(), [OLD; 3], "fails {fails}: {:#?}", e.world.log);
        assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::RolledBack));
        let message = e.message(ConditionType::Ready);
        for part in ["etcd 3.6.16 did not come up", "CrashLoopBackOff", "set it to 3.5.35, and to 3.6.16 again"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
        // An operator of before recorded all that the scheduler said.
        let mut earlier = e.clone();
        for key in [Etcd::set(), Etcd::key(Kind::ConfigMap, "etcd-bootstrap")] {
            let notes = &mut earlier.edit(&key)["metadata"]["annotations"];
            let mut record: Value = serde_json::from_str(notes[labels::ETCD_RECORD].as_str().unwrap()).unwrap();
            if let Some(why) = record.pointer_mut("/failed/why") {
                *why = "pod etcd-0: not scheduled: 0/9 nodes are available: 9 Insufficient cpu.".into();
            }
            notes[labels::ETCD_RECORD] = record.to_string().into();
        }
        earlier.reconcile();
        let message = earlier.message(ConditionType::Ready);
        assert!(message.contains("not scheduled: no node takes it: Insufficient cpu. Berth went back"), "{message}");
        // It is not tried again by itself, but when it is asked for anew.
        e.world.log.clear();
        e.turn();
        assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
        e.asks_for(OLD);
        e.turn();
        assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
        e.asks_for(NEW);
        for _ in 0..20 {
            e.turn();
        }
        assert_eq!(e.versions(), [NEW; 3]);
    }
}

#[test]
fn a_spec_that_is_turned_back_turns_the_change_back() {
    for turns in 0..12 {
        let mut e = Etcd::of_version(OLD, 3);
        e.asks_for(NEW);
        (0..turns).for_each(|_| e.turn());
        let is_done = e.versions() == [NEW; 3];
        e.asks_for(OLD);
        (0..14).for_each(|_| e.turn());
        let (expected, reason) = if is_done { (NEW, Reason::DowngradeUnsafe) } else { (OLD, Reason::AsExpected) };
        assert_eq!(e.versions(), [expected; 3], "after {turns}: {:#?}", e.world.log);
        assert_eq!(e.condition(ConditionType::Ready).1, reason.as_str(), "after {turns}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_nothing_stops_for_it() {
    let cases = [
        (NEW, OLD, Reason::DowngradeUnsafe, "does not go back from 3.6.16 to 3.5.35"),
        (NEW, "3.6.15", Reason::DowngradeUnsafe, "Set it back to 3.6.16"),
        (NEW, "3.9.0", Reason::VersionUnsupported, "3.9.0 is not supported. Set a patch version of 3.5, 3.6"),
        ("3.5.31", NEW, Reason::UpgradeBlocked, "Set a patch version of 3.5 from 3.5.32 on first"),
    ];
    for (runs, asked, reason, text) in cases {
        let mut e = Etcd::of_version(runs, 3);
        e.cr.spec.clients.push(EtcdClient { name: "another".into() });
        e.asks_for(asked);
        assert_eq!(e.condition(ConditionType::Ready), is("False", reason), "{asked}");
        assert!(e.message(ConditionType::Ready).contains(text), "{}", e.message(ConditionType::Ready));
        assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
        assert!(e.world.log.iter().all(|l| l.contains("client-another")), "{:#?}", e.world.log);
        (0..5).for_each(|_| e.turn());
        assert_eq!(e.versions(), [runs; 3]);
    }
    let mut e = Etcd::of_version("3.5.31", 3);
    e.asks_for(OLD);
    (0..20).for_each(|_| e.turn());
    assert_eq!(
        (e.versions(), e.condition(ConditionType::Ready)),
        (vec![OLD.into(); 3], is("True", Reason::AsExpected))
    );
    e.asks_for(NEW);
    (0..20).for_each(|_| e.turn());
    assert_eq!(
        (e.versions(), e.condition(ConditionType::Ready)),
        (vec![NEW.into(); 3], is("True", Reason::AsExpected))
    );
}

#[test]
fn it_begins_only_while_all_is_well() {
    let wrongs: [Wrong; 4] = [
        ("a member is away", |e| e.answer(&[0, 1], 0)),
        ("an alarm", |e| e.probe().alarms.push(alarm("NOSPACE", 0))),
        ("a claim is being deleted", |e| {
            e.edit(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"))["metadata"]["deletionTimestamp"] =
                "x".into();
        }),
        ("paused", |e| e.cr.spec.paused = true),
    ];
    for (name, wrong) in wrongs {
        let mut e = Etcd::of_version(OLD, 3);
        wrong(&mut e);
        e.asks_for(NEW);
        assert!(e.strategy()["type"] == "OnDelete" && e.cr.status.as_ref().unwrap().operation.is_none(), "{name}");
    }
}

/// Once a member's data are of the new minor, the former version would not start with them.
#[test]
fn there_is_no_way_back_from_a_raised_minor() {
    let mut e = Etcd::of_version(OLD, 3);
    e.asks_for(NEW);
    e.until_new(0);
    e.fails(0);
    e.serves(2);
    for said in e.probe().members.values_mut().flatten() {
        said.storage_version = "3.6.0".into();
    }
    e.world.now += SignedDuration::from_secs(31);
    e.reconcile();
    let status = e.cr.status.clone().unwrap();
    let digest = berth_render::Catalog::builtin().etcd("3.6".parse().unwrap()).unwrap().digest();
    assert_eq!((status.templates.unwrap().digest, status.operation), (digest, None), "it is done");
    assert_eq!((e.strategy(), e.versions()), (json!({"type": "OnDelete"}), vec![NEW.to_owned(); 3]));
    // Nor is there one by the spec.
    e.asks_for(OLD);
    assert_eq!(e.condition(ConditionType::Ready).1, Reason::DowngradeUnsafe.as_str());
    e.members_run();
    assert_eq!(e.versions(), [NEW; 3]);
    e.asks_for(NEW);
    // It comes up after all.
    let key = Etcd::key(Kind::Pod, "etcd-0");
    e.world.run_pod(&key);
    (0..4).for_each(|_| e.turn());
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
}

/// It raises its data when it starts, and then says nothing any more.
#[test]
fn a_single_member_that_ran_is_not_taken_back() {
    for (replicas, ran, reason) in [
        (1, Some(3), Reason::Held),
        (1, None, Reason::Held),
        (1, Some(2), Reason::RolledBack),
        // The others have run it, too.
        (3, Some(3), Reason::Held),
        (3, Some(0), Reason::RolledBack),
    ] {
        let mut e = Etcd::of_version(OLD, replicas);
        e.asks_for(NEW);
        e.until_new(0);
        e.fails(0);
        let key = Etcd::key(Kind::Pod, "etcd-0");
        let begun = ran.map(|ran| e.world.now - SignedDuration::from_secs(ran));
        e.edit(&key)["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] = json!(begun);
        if replicas > 1 {
            e.serves(2);
        } else {
            e.answer(&[], 0);
        }
        e.world.now += SignedDuration::from_secs(31);
        e.reconcile();
        let (said, is_held) = (e.message(ConditionType::Ready), reason == Reason::Held);
        assert_eq!(e.strategy()["type"] == "RollingUpdate", is_held, "{replicas} {ran:?}: {said}");
        assert_eq!(said.contains("may be of the new minor version by now"), is_held, "{said}");
        if is_held {
            let reason = if replicas > 1 { reason } else { Reason::QuorumLost };
            assert_eq!(e.condition(ConditionType::Ready), is("False", reason), "{said}");
            // Not by the spec, either.
            e.asks_for(OLD);
            assert_eq!(e.strategy()["type"], "RollingUpdate");
        }
    }
}

#[test]
fn nothing_begins_while_data_differ() {
    let mut e = Etcd::of_version(OLD, 3);
    let check = json!({"checkedAt": e.world.now, "revision": 5, "differing": ["etcd-1"]});
    e.cr.status.as_mut().unwrap().hashes = serde_json::from_value(check).unwrap();
    e.asks_for(NEW);
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::EtcdAlarm));
    let message = e.message(ConditionType::Ready);
    assert!(message.contains("etcd-1 differs from the majority of the 3 members"), "{message}");
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
}

/// A slow member is asked once in a reconcile, and then only later: each call takes a good part of a reconcile's deadline.
#[test]
fn a_comparison_that_came_to_nothing_is_made_again_later() {
    use berth_plan::model::EtcdCallResult;
    use berth_plan::model::{EtcdAnswer, EtcdCall, KvHash, Maintenance};
    let compares = |planned: &EtcdPlan| planned.plan.actions().any(|a| a.describe().contains("compare hashes"));
    let mut e = Etcd::of_version(OLD, 3);
    e.cr.spec.version = NEW.into();
    assert!(compares(&e.plan()));
    let call = EtcdCall::Maintain(Maintenance::CompareHashes { revision: 1 });
    let silent = KvHash { member: "etcd-0".into(), said: Err("no answer within 20 s".into()) };
    e.world.observed.told.push(EtcdCallResult::new::<()>("etcd-0", call, &Ok(EtcdAnswer::Hashes(vec![silent]))));
    let planned = e.plan();
    assert!(!compares(&planned), "not twice in a reconcile");
    assert_eq!(planned.hashes_failed_at.as_ref().map(|at| at.0), Some(e.world.now));
    e.cr.status = Some(status(e.input(&e.world), &planned, None));
    e.world.observed.told.clear();
    for seconds in [0, 599] {
        let mut e = e.clone();
        e.world.now += SignedDuration::from_secs(seconds);
        assert!(!compares(&e.plan()), "nor soon after");
        e.reconcile();
        let message = e.message(ConditionType::Ready);
        assert!(message.contains("asked again in ten minutes") && e.strategy()["type"] == "OnDelete", "{message}");
    }
    e.world.now += SignedDuration::from_secs(600);
    e.reconcile();
    assert!(e.world.log.iter().any(|l| l.contains("compare hashes")), "{:#?}", e.world.log);
    assert_eq!(e.cr.status.as_ref().unwrap().hashes_failed_at, None);
}

/// A lost volume is not the version's fault.
#[test]
fn after_a_lost_volume_the_change_begins_anew() {
    let mut e = Etcd::of_version(OLD, 3);
    e.asks_for(NEW);
    e.until_new(2);
    e.held("etcd-1", "DataLost: the volume of etcd member etcd-1 is empty");
    e.answer(&[0], 0);
    e.reconcile();
    assert_eq!(e.strategy(), json!({"type": "OnDelete"}));
    let key = Etcd::key(Kind::ConfigMap, "etcd-bootstrap");
    let record = e.get(&key)["metadata"]["annotations"][labels::ETCD_RECORD].as_str().unwrap();
    assert!(!record.contains("failed"), "{record}");
}

/// An operator of before writes the record and the StatefulSet as it knows them, and leaves the rest alone.
#[test]
fn what_an_older_operator_left_goes_on() {
    for of_new in 0..3 {
        let mut e = Etcd::of_version(OLD, 3);
        e.asks_for(NEW);
        if of_new > 0 {
            e.until_new(3 - of_new);
        }
        let former = berth_render::Catalog::builtin().etcd("3.5".parse().unwrap()).unwrap().digest();
        for key in [Etcd::set(), Etcd::key(Kind::ConfigMap, "etcd-bootstrap")] {
            let notes = &mut e.edit(&key)["metadata"]["annotations"];
            let mut record: Value = serde_json::from_str(notes[labels::ETCD_RECORD].as_str().unwrap()).unwrap();
            assert_eq!((&record["version"], &record["templates"]), (&json!(OLD), &json!(former)), "what was before");
            record["operation"]["type"] = "Other".into();
            record["operation"]["phase"] = "Other".into();
            record.as_object_mut().unwrap().remove("next");
            notes[labels::ETCD_RECORD] = record.to_string().into();
        }
        e.edit(&Etcd::set())["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        e.reconcile();
        (0..20).for_each(|_| e.turn());
        assert_eq!(e.versions(), [NEW; 3], "{of_new}: {:#?}", e.world.log);
        assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected), "{of_new}");
    }
}

#[test]
fn the_charts_resources_of_helpers_come_with_the_next_version() {
    let helpers = |e: &Etcd| e.get(&Etcd::set())["spec"]["template"]["spec"]["initContainers"][0]["resources"].clone();
    let amounts = |cpu: &str| serde_json::from_value(json!({"limits": {"cpu": cpu}})).unwrap();
    let mut e = Etcd::of_version(OLD, 1);
    let before = helpers(&e);
    e.settings.helpers.resources = Some(amounts("100m"));
    e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    e.asks_for(NEW);
    for _ in 0..40 {
        e.turn();
    }
    assert_eq!((e.versions(), helpers(&e)["limits"]["cpu"].clone()), (vec![NEW.to_owned()], json!("100m")));
    // Nothing but what is recorded counts, whichever record is lost.
    e.settings.helpers.resources = None;
    for lost in [Etcd::key(Kind::ConfigMap, "etcd-bootstrap"), Etcd::set()] {
        let mut e = e.clone();
        e.world.remove(&lost);
        e.reconcile();
        assert_eq!(helpers(&e)["limits"]["cpu"], "100m", "without {lost}");
    }
    // The spec wins, and at once.
    e.cr.spec.helpers.resources = Some(serde_json::from_value(json!({"requests": {"cpu": "5m"}})).unwrap());
    e.reconcile();
    assert_eq!(helpers(&e)["requests"]["cpu"], "5m");
    assert_eq!(before["requests"]["cpu"], "10m");
}
