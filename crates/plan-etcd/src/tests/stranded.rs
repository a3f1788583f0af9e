//! Members whose nodes do not come back, and members whose data is not that of the others.

use super::*;
use crate::stranded;
use berth_api::etcd_upkeep::HashCheck;
use berth_plan::model::{EtcdAnswer, EtcdCall, EtcdCallResult, KvHash, Maintenance};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn claim() -> ObjectKey {
    Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1")
}

fn pv() -> ObjectKey {
    ObjectKey::cluster(Kind::PersistentVolume, "pv-1")
}

impl Etcd {
    /// The pod of `etcd-1` finds no node since a minute ago: the volume is on `n1`, whose object is as given.
    pub(super) fn loses_a_node(replicas: i32, node: Option<Value>) -> Self {
        let mut e = Self::formed(replicas);
        let since = e.world.now - SignedDuration::from_mins(1);
        let said = "0/3 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity";
        let status = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said, "lastTransitionTime": since}
        ]});
        let member = if replicas == 1 { "etcd-0" } else { "etcd-1" };
        let claim = Self::key(Kind::PersistentVolumeClaim, &format!("data-{member}"));
        e.edit(&Self::key(Kind::Pod, member))["status"] = status;
        e.edit(&claim)["spec"]["volumeName"] = "pv-1".into();
        let uid = e.get(&claim)["metadata"]["uid"].clone();
        let on = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]});
        let terms = json!([{"matchExpressions": [on]}]);
        let volume =
            json!({"spec": {"claimRef": {"uid": uid}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
        e.world.put(pv(), volume);
        if let Some(node) = node {
            e.world.put(ObjectKey::cluster(Kind::Node, "n1"), node);
        }
        let up = if replicas == 1 { vec![] } else { vec![0, 2] };
        e.answer(&up, 0);
        e
    }

    fn did(&self) -> Vec<String> {
        let short = |line: &String| line.split(" of EtcdCluster").next().unwrap().replace("acme-9201d5e7/", "");
        let is_write = |line: &&String| !line.starts_with("apply") && !line.starts_with("update");
        self.world.log.iter().filter(is_write).map(short).collect()
    }

    /// They are compared in this reconcile, and that one differs.
    fn hears(&mut self, differs: &str) {
        let hash = |member: &str| KvHash { member: member.to_owned(), said: Ok((u32::from(member == differs), 1)) };
        let hashes = ["etcd-0", "etcd-1", "etcd-2"].map(hash).to_vec();
        let call = EtcdCall::Maintain(Maintenance::CompareHashes { revision: 6 });
        self.world.observed.told.push(EtcdCallResult::new::<()>("etcd-0", call, &Ok(EtcdAnswer::Hashes(hashes))));
    }

    /// The members' data were compared, and `etcd-1` differs.
    pub(super) fn differs(&mut self, is_confirmed: bool) {
        let serial = self.bootstrap()["serial"].as_i64().unwrap_or_default();
        let differing = vec!["etcd-1".to_owned()];
        let check = HashCheck { checked_at: Time(self.world.now), revision: 5, serial, differing, is_confirmed };
        self.cr.status.as_mut().unwrap().hashes = Some(check);
    }
}

pub(super) fn out_of_service() -> Value {
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    json!({"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}, "spec": {"taints": [taint]}})
}

#[test]
fn a_member_whose_node_is_out_of_service_is_replaced_elsewhere() {
    let mut e = Etcd::loses_a_node(3, Some(out_of_service()));
    assert_eq!(stranded::volumes(&e.cr, &e.world.observed), ["pv-1"]);
    let others = ["etcd-0", "etcd-2"].map(|name| e.get(&Etcd::key(Kind::Pod, name))["metadata"]["uid"].clone());
    e.reconcile();
    let did = e.did();
    assert_eq!(
        did[..3],
        [
            "remove member a1",
            "add learner https://etcd-1.acme-9201d5e7.svc:2380",
            "delete PersistentVolumeClaim data-etcd-1"
        ],
        "the volume goes once nobody counts on it: {did:#?}"
    );
    assert!(did.contains(&"delete Pod etcd-1".to_owned()), "its pod gets another claim: {did:#?}");
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::MembersChanging));
    assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
    for _ in 0..2 {
        e.joins(1, 0);
        e.reconcile();
        e.passes(2);
    }
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );
    assert_eq!(["etcd-0", "etcd-2"].map(|name| e.get(&Etcd::key(Kind::Pod, name))["metadata"]["uid"].clone()), others);
}

#[test]
fn a_node_that_is_deleted_is_waited_for_a_while_and_one_that_is_not_ready_for_ever() {
    let mut e = Etcd::loses_a_node(3, None);
    e.reconcile();
    assert!(e.did().is_empty(), "kubelet may register anew: {:#?}", e.world.log);
    let said = e.message(ConditionType::Degraded);
    let what = "the node that has the volume of PersistentVolumeClaim acme-9201d5e7/data-etcd-1 does not exist";
    assert!(said.contains(what) && said.contains("after 5 minutes") && !said.contains("n1"), "{said}");
    assert_eq!(e.plan().plan.for_platform, [format!("etcd-1: {what} (n1)")]);
    e.passes(299);
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.world.log);
    e.passes(1);
    e.reconcile();
    assert!(e.did().contains(&"remove member a1".to_owned()), "{:#?}", e.world.log);

    let ready = json!({"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}});
    let renamed = json!({"metadata": {"labels": {}}});
    for node in [ready, renamed] {
        let mut e = Etcd::loses_a_node(3, Some(node));
        e.passes(86400);
        e.reconcile();
        assert!(e.did().is_empty(), "{:#?}", e.world.log);
    }
}

/// Its pod waited for long, for want of memory, before the node was away for a moment.
#[test]
fn a_node_is_away_since_that_was_seen_and_not_since_the_pod_waits() {
    let node = || json!({"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}});
    let key = ObjectKey::cluster(Kind::Node, "n1");
    let mut e = Etcd::loses_a_node(3, Some(node()));
    let since = |e: &Etcd| e.cr.status.as_ref().unwrap().absent_nodes.first().map(|absent| absent.since.0);
    e.passes(600);
    e.reconcile();
    assert_eq!(since(&e), None);
    e.world.remove(&key);
    e.reconcile();
    let seen = e.world.now;
    assert_eq!(since(&e), Some(seen));
    e.passes(299);
    e.reconcile();
    assert_eq!((since(&e), e.did()), (Some(seen), vec![]), "the status is not written again");
    // It comes back, and goes: the time starts anew.
    e.world.put(key.clone(), node());
    e.reconcile();
    assert_eq!(since(&e), None);
    e.world.remove(&key);
    e.passes(1);
    e.reconcile();
    e.passes(299);
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.world.log);
    // A status that was lost does the same.
    e.cr.status.as_mut().unwrap().absent_nodes.clear();
    e.passes(60);
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.world.log);
    e.passes(300);
    e.reconcile();
    assert!(e.did().contains(&"remove member a1".to_owned()), "{:#?}", e.world.log);
    assert_eq!(since(&e), None);
}

/// What may be somewhere else, or is not known, proves nothing.
#[test]
fn a_volume_that_does_not_name_its_node_is_not_lost_with_one() {
    let rule =
        |key: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
    let (zone, two) =
        (rule("topology.kubernetes.io/zone", json!(["a"])), rule("kubernetes.io/hostname", json!(["n1", "n2"])));
    let one = rule("kubernetes.io/hostname", json!(["n1"]));
    let odd: [fn(&mut Etcd, &Value); 3] = [
        |e, terms| {
            let affinity = &mut e.edit(&pv())["spec"]["nodeAffinity"];
            affinity["required"]["nodeSelectorTerms"] = terms.clone();
        },
        |e, _| {
            e.edit(&pv())["spec"]["claimRef"]["uid"] = "another".into();
        },
        |e, _| _ = e.world.observed.objects.remove(&pv()),
    ];
    for (change, terms) in
        [(0, json!([zone])), (0, json!([two])), (0, json!([one, zone])), (0, json!([])), (1, json!([])), (2, json!([]))]
    {
        let mut e = Etcd::loses_a_node(3, None);
        odd[change](&mut e, &terms);
        e.passes(3600);
        e.reconcile();
        assert!(e.did().is_empty(), "{terms}: {:#?}", e.world.log);
    }
    let mut e = Etcd::loses_a_node(3, None);
    assert!(e.world.observed.get(&pv()).is_some());
    e.edit(&claim())["status"]["phase"] = "Lost".into();
    e.reconcile();
    assert!(e.did().contains(&"remove member a1".to_owned()), "its volume is gone: {:#?}", e.world.log);
}

#[test]
fn nobody_is_replaced_without_a_quorum_of_the_others() {
    let mut e = Etcd::loses_a_node(3, Some(out_of_service()));
    e.answer(&[0], 0);
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.world.log);
    let mut e = Etcd::loses_a_node(1, Some(out_of_service()));
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.world.log);
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("no other member has its data: bring the node back"), "{said}");
    let give_up = "kubectl -n acme-9201d5e7 label pvc/data-etcd-0 berth.dev/allow-deletion=true && kubectl -n acme-9201d5e7 delete pvc/data-etcd-0 pod/etcd-0 --wait=false";
    assert!(said.contains(give_up), "{said}");
}

#[test]
fn a_member_with_other_data_is_replaced_once_that_was_found_twice() {
    let mut e = Etcd::formed(3);
    e.differs(false);
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.world.log);
    assert!(
        e.message(ConditionType::Ready).contains("compares them again in 10 minutes"),
        "{}",
        e.message(ConditionType::Ready)
    );
    e.differs(true);
    e.reconcile();
    assert_eq!(e.did(), ["remove member a1", "add learner https://etcd-1.acme-9201d5e7.svc:2380"]);
    assert!(e.world.observed.get(&claim()).is_some(), "its data stays, set aside");
    e.joins(1, 0);
    e.reconcile();
    e.passes(2);
    e.joins(1, 0);
    e.reconcile();
    assert!(e.did().iter().any(|line| line.starts_with("promote")), "{:#?}", e.did());

    // They all differ, or another member is away.
    let mut e = Etcd::formed(3);
    e.differs(true);
    e.cr.status.as_mut().unwrap().hashes.as_mut().unwrap().differing =
        ["etcd-0", "etcd-1", "etcd-2"].map(str::to_owned).to_vec();
    e.reconcile();
    let mut away = Etcd::formed(3);
    away.differs(true);
    away.answer(&[0, 1], 0);
    away.reconcile();
    assert!(e.did().is_empty() && away.did().is_empty(), "{:#?} {:#?}", e.world.log, away.world.log);
}

/// The second comparison, ten minutes after the first, confirms it.
#[test]
fn two_comparisons_confirm_each_other() {
    let mut e = Etcd::formed(3);
    e.differs(false);
    let check = |e: &Etcd| e.cr.status.as_ref().unwrap().hashes.clone().unwrap();
    e.passes(600);
    e.hears("etcd-1");
    e.reconcile();
    assert!(check(&e).is_confirmed, "{:?}", check(&e));
    assert!(
        !e.did().iter().any(|line| line.starts_with("remove")),
        "what was just heard is written down first: {:#?}",
        e.did()
    );
    e.reconcile();
    assert!(e.did().contains(&"remove member a1".to_owned()), "{:#?}", e.did());
}

/// etcd refuses all requests: one comparison that names the member of which the alarm is raised is enough.
#[test]
fn a_corrupt_member_is_replaced_and_the_alarm_disarmed() {
    let mut e = Etcd::formed(3);
    e.probe().alarms.push(alarm("CORRUPT", 1));
    let asks = |e: &Etcd| e.plan().plan.actions().any(|a| a.describe().contains("compare hashes"));
    assert!(asks(&e), "at once: {:#?}", e.plan().plan);
    e.hears("etcd-1");
    e.reconcile();
    assert!(e.cr.status.as_ref().unwrap().hashes.as_ref().unwrap().is_confirmed);
    e.reconcile();
    assert!(e.did().contains(&"remove member a1".to_owned()), "{:#?}", e.did());
    assert_eq!(e.condition(ConditionType::Ready).1, "MembersChanging", "{}", e.message(ConditionType::Ready));
    assert_eq!(e.condition(ConditionType::Available).0, "False");
    for _ in 0..2 {
        e.joins(1, 0);
        e.reconcile();
        e.passes(2);
    }
    e.reconcile();
    assert!(e.did().iter().any(|line| line.starts_with("disarm")), "{:#?}", e.did());

    // It names another member, or none.
    for differs in ["etcd-2", ""] {
        let mut e = Etcd::formed(3);
        e.probe().alarms.push(alarm("CORRUPT", 1));
        e.hears(differs);
        e.reconcile();
        e.reconcile();
        let did = e.did();
        assert!(!did.iter().any(|line| line.starts_with("remove") || line.starts_with("disarm")), "{did:#?}");
    }
}

#[test]
fn hashes_of_an_early_patch_version_prove_nothing() {
    for (version, is_replaced) in [("3.5.17", false), ("3.5.18", true)] {
        let mut e = Etcd::of_version(version, 3);
        e.differs(true);
        e.reconcile();
        assert_eq!(e.did().contains(&"remove member a1".to_owned()), is_replaced, "{version}: {:#?}", e.did());
        assert_eq!(e.message(ConditionType::Ready).contains("less than 3.5.18"), !is_replaced, "{version}");
    }
}

/// Somebody took its label off: nobody knows whose it is, and the pod of a member that joins is left alone.
#[test]
fn a_claim_that_is_not_seen_is_no_reason_to_replace_a_pod_that_has_its_node() {
    let mut e = Etcd::loses_a_node(3, Some(out_of_service()));
    e.reconcile();
    e.members_run();
    e.edit(&claim())["metadata"]["labels"] = json!({});
    e.world.log.clear();
    e.reconcile();
    assert!(e.did().is_empty(), "{:#?}", e.did());
}
