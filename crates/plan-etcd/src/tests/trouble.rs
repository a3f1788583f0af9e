//! Lost data, lost quorum, alarms.

use super::*;
use ConditionType as T;

const LOST: &str = "DataLost: the volume of etcd member etcd-1 is empty";

#[test]
fn a_member_without_data_is_held_while_the_others_serve() {
    let mut e = Etcd::formed(3);
    // Made by an earlier Berth, whose guard lets nobody join.
    e.older_templates();
    e.held("etcd-1", LOST);
    e.answer(&[0, 2], 0);
    let planned = e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    let State::Blocked { reason, message } = state(&planned, StageId::Etcd) else { panic!("{planned:?}") };
    assert_eq!(*reason, Reason::DataLost);
    for part in ["etcd-1", "nothing is overwritten", "data-etcd-1", "an earlier Berth"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(e.condition(T::Available), is("True", Reason::AsExpected));
    assert_eq!(e.condition(T::Degraded), is("True", Reason::DataLost));
    assert_eq!(e.condition(T::Ready), is("False", Reason::DataLost));
    assert_eq!(e.condition(T::MembersReady), is("False", Reason::DataLost));
    assert_eq!(e.cr.status.as_ref().unwrap().ready_members.as_deref(), Some("2/3"));
}

#[test]
fn a_single_member_without_data_is_not_available() {
    for (said, reason_) in [
        ("DataLost: the volume of etcd member etcd-0 is empty", Reason::DataLost),
        ("ForeignData: the volume of etcd member etcd-0 holds another's", Reason::ForeignData),
    ] {
        let mut e = Etcd::formed(1);
        e.held("etcd-0", said);
        for probe in [true, false] {
            e.answer(&[], 0);
            if !probe {
                e.world.observed.etcd = None;
            }
            let planned = e.reconcile();
            assert_eq!(reason(&planned, StageId::Etcd), Some(reason_));
            assert_eq!(e.condition(T::Available), is("False", reason_));
            assert_eq!(e.condition(T::Degraded), is("True", reason_));
        }
        let said = e.message(T::Available).to_lowercase();
        assert!(said.contains("restore volume data-etcd-0"), "{said}");
        assert!(e.world.log.is_empty());
    }
}

#[test]
fn a_member_of_another_cluster_is_a_stranger() {
    let mut e = Etcd::formed(3);
    e.probe().members.get_mut("etcd-2").unwrap().as_mut().unwrap().cluster_id = "c2".into();
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Etcd), Some(Reason::ForeignData));
    assert!(e.message(T::Ready).contains("etcd-2 of cluster c2, and this is cluster c1"), "{}", e.message(T::Ready));
    assert_eq!(e.cr.status.as_ref().unwrap().cluster_id.as_deref(), Some("c1"), "never overwritten");
    // All of them: the volumes were exchanged as a whole.
    for i in 0..3 {
        e.probe().members.get_mut(&format!("etcd-{i}")).unwrap().as_mut().unwrap().cluster_id = "c2".into();
    }
    e.reconcile();
    assert_eq!(e.condition(T::Ready), is("False", Reason::ForeignData));
    assert_eq!(e.cr.status.as_ref().unwrap().cluster_id.as_deref(), Some("c1"));
}

#[test]
fn fewer_than_a_majority_is_a_lost_quorum() {
    for (up, quorum) in [(vec![], false), (vec![1], false), (vec![1, 2], true)] {
        let mut e = Etcd::formed(3);
        e.answer(&up, 1);
        let planned = e.reconcile();
        assert!(e.world.log.is_empty(), "nothing is done to members: {:#?}", e.world.log);
        let (available, degraded) = if quorum {
            (is("True", Reason::AsExpected), is("False", Reason::AsExpected))
        } else {
            (is("False", Reason::QuorumLost), is("True", Reason::QuorumLost))
        };
        assert_eq!(e.condition(T::Available), available, "{up:?}");
        assert_eq!(e.condition(T::Degraded), degraded, "{up:?}");
        assert_eq!(e.condition(T::Ready).0, "False", "{up:?}");
        assert!(planned.requeue_after.unwrap() <= SignedDuration::from_secs(5));
    }
    let mut e = Etcd::formed(3);
    e.world.observed.etcd = None;
    for i in 0..3 {
        e.world.remove(&Etcd::key(Kind::Pod, &format!("etcd-{i}")));
    }
    e.reconcile();
    assert_eq!(e.condition(T::Available), is("False", Reason::QuorumLost), "no pods at all");
    let said =
        "pod etcd-0 does not exist; if that lasts, `kubectl -n acme-9201d5e7 describe statefulset etcd` says why";
    assert!(e.message(T::Available).contains(said), "{}", e.message(T::Available));
    let why = "pods \"etcd-0\" is forbidden: exceeded quota: small";
    e.world.observed.refused.insert("etcd-0".into(), why.into());
    e.reconcile();
    assert!(e.message(T::Available).contains(&format!("pod etcd-0 does not exist: the API server refuses it: {why}")));
    assert_eq!(e.condition(T::Available), is("False", Reason::QuorumLost));
    assert_eq!(e.condition(T::MembersReady), is("False", Reason::Rejected));
    e.cr.spec.placement.priority_class_name = Some("gold".into());
    e.reconcile();
    assert!(e.message(T::Available).contains("PriorityClass gold (placement.priorityClassName)"));
}

#[test]
fn a_member_that_stays_away_degrades_the_cluster() {
    let mut e = Etcd::formed(3);
    e.answer(&[0, 1], 0);
    e.reconcile();
    assert_eq!(e.condition(T::MembersReady), is("False", Reason::PodsNotReady));
    assert_eq!(e.condition(T::Degraded), is("False", Reason::AsExpected), "it may be starting");
    assert_eq!(e.cr.status.as_ref().unwrap().phase.as_deref(), Some("Updating"));
    e.world.now += SignedDuration::from_mins(3);
    e.reconcile();
    assert_eq!(e.condition(T::Degraded), is("True", Reason::PodsNotReady));
    assert_eq!(e.cr.status.as_ref().unwrap().phase.as_deref(), Some("Degraded"));
    assert!(e.message(T::Degraded).contains("etcd-2: 10.96.0.2: connection refused"), "{}", e.message(T::Degraded));
}

#[test]
fn what_keeps_pods_from_running_is_said() {
    let mut e = Etcd::new(3);
    e.reconcile();
    e.members_run();
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
    for i in 0..3 {
        let status = json!({"containerStatuses": [{"name": "etcd", "image": "x", "state": waiting}]});
        e.world.pod_status(&Etcd::key(Kind::Pod, &format!("etcd-{i}")), status);
    }
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Etcd), Some(Reason::ImageUnavailable));
    assert_eq!(e.condition(T::Available), is("False", Reason::ImageUnavailable));
    assert_eq!(e.condition(T::Degraded), is("True", Reason::ImageUnavailable));
}

#[test]
fn alarms_are_said_and_a_corrupt_cluster_does_not_serve() {
    for (kind, available, said) in [
        ("NOSPACE", "True", "etcd-0's database is full (alarm NOSPACE): etcd refuses all writes"),
        ("CORRUPT", "False", "alarm CORRUPT on etcd-0 to be disarmed: the members' data differ"),
    ] {
        let mut e = Etcd::formed(3);
        e.probe().alarms.push(alarm(kind, 0));
        e.reconcile();
        let alarm = &format!("{kind} on etcd-0");
        assert_eq!(e.condition(T::Available).0, available, "{alarm}");
        assert_eq!(e.condition(T::Degraded), is("True", Reason::EtcdAlarm), "{alarm}");
        assert_eq!(e.condition(T::Ready), is("False", Reason::EtcdAlarm), "{alarm}");
        assert!(e.message(T::Ready).contains(said), "{}", e.message(T::Ready));
        let told = if kind == "NOSPACE" { "compact at" } else { "compare hashes at" };
        assert_eq!(e.world.log, [format!("{told} revision 0 of EtcdCluster acme-9201d5e7/etcd by etcd-0")], "{kind}");
    }
}

/// What becomes of a full database, step by step, and what its status says of it.
#[test]
fn a_full_database_is_made_smaller_and_the_alarm_disarmed() {
    let mut e = Etcd::formed(3);
    e.probe().alarms.push(alarm("NOSPACE", 0));
    e.probe().members.values_mut().flatten().for_each(|m| {
        (m.progress.db_size, m.progress.db_size_in_use, m.progress.quota) = (64 << 20, 20 << 20, 64 << 20);
    });
    for _ in 0..60 {
        e.reconcile();
        e.passes(1);
    }
    let calls = e.world.log.iter().filter(|line| line.contains(" of EtcdCluster"));
    let told: Vec<_> = calls.map(|line| line.replace(" of EtcdCluster acme-9201d5e7/etcd", "")).collect();
    assert_eq!(
        told,
        [
            "compact at revision 0 by etcd-0",
            "defragment by etcd-2",
            "defragment by etcd-1",
            "move leadership to member a1 through etcd-0",
            "defragment by etcd-0",
            "disarm alarm NOSPACE on a0 by etcd-1",
            "write a key by etcd-1"
        ]
    );
    assert_eq!(e.condition(T::Ready), is("True", Reason::AsExpected));
    let status = e.cr.status.as_ref().unwrap();
    assert!(status.upkeep.as_ref().unwrap().finished.is_some(), "{:?}", status.upkeep);
    let member = &status.members[1];
    assert_eq!((member.db_size, member.db_size_in_use), (Some(20 << 20), Some(20 << 20)));
    assert_eq!(member.quota_backend_bytes, Some(64 << 20));
}

/// Nobody can make it smaller but by deleting keys: the message says so, with commands, and that Berth looks.
#[test]
fn what_a_person_can_do_about_a_full_database_can_be_typed() {
    for is_tenants in [false, true] {
        let mut e = Etcd::formed(3);
        if is_tenants {
            e.cr.metadata.labels = Some(crate::tests::recovery::of_a_tenant());
        }
        e.probe().alarms.push(alarm("NOSPACE", 0));
        e.probe().members.values_mut().flatten().for_each(|m| {
            (m.progress.db_size, m.progress.db_size_in_use, m.progress.quota) = (64 << 20, 60 << 20, 64 << 20);
        });
        for _ in 0..20 {
            e.reconcile();
            e.passes(1);
        }
        let patch = if is_tenants {
            r#"kubectl -n team-a patch clusters.berth.dev acme --type=merge -p '{"spec":{"etcd":{"quotaBackendBytes":134217728}}}'"#
        } else {
            r#"kubectl -n acme-9201d5e7 patch etcdclusters.berth.dev etcd --type=merge -p '{"spec":{"quotaBackendBytes":134217728}}'"#
        };
        let said = e.message(T::Ready);
        for part in [
            "etcd-0's database is full (alarm NOSPACE): etcd refuses all writes but deletions. ",
            "60 MiB of 64 MiB are still in use",
            "within a minute of a deletion it compacts and defragments again, and disarms the alarm",
            patch,
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let events = "kubectl berth connect acme -n team-a -- kubectl delete events --all --all-namespaces";
        assert_eq!(said.contains(events), is_tenants, "{said}");
        assert_eq!(e.condition(T::Progressing).0, "True");
        // Somebody deletes what fills it.
        let done = e.world.log.len();
        e.passes(600);
        e.reconcile();
        assert_eq!(e.world.log.len(), done, "no keys were deleted: {:#?}", e.world.log);
        e.probe().members.values_mut().flatten().for_each(|m| {
            (m.progress.db_size_in_use, m.progress.revision) = (20 << 20, 1);
        });
        for _ in 0..60 {
            e.reconcile();
            e.passes(1);
        }
        assert_eq!(e.condition(T::Ready), is("True", Reason::AsExpected), "{}", e.message(T::Ready));
    }
}

/// Sizes change with every write; the status does not.
#[test]
fn a_status_says_sizes_roughly() {
    let mut e = Etcd::formed(1);
    let mut said = vec![];
    for size in [10_000_000, 12_000_000, 18_000_000, 30_000_000, 60_000_000, 50_000_000, 5_000_000, 0] {
        e.probe().members.values_mut().flatten().for_each(|m| m.progress.db_size = size);
        e.reconcile();
        said.push(e.cr.status.as_ref().unwrap().members[0].db_size.unwrap_or_default() >> 20);
    }
    assert_eq!(said, [10, 10, 10, 29, 58, 58, 5, 5]);
}

/// A defragmentation changes one of them by more than the other.
#[test]
fn no_more_is_said_to_be_in_use_than_there_is() {
    let mut e = Etcd::formed(1);
    for (size, used) in [(24, 16), (8, 8)] {
        e.probe().members.values_mut().flatten().for_each(|m| {
            (m.progress.db_size, m.progress.db_size_in_use) = (size << 20, used << 20);
        });
        e.reconcile();
    }
    let member = &e.cr.status.as_ref().unwrap().members[0];
    assert_eq!((member.db_size, member.db_size_in_use), (Some(8 << 20), Some(8 << 20)));
}

#[test]
fn a_corrupt_member_comes_with_the_command_that_disarms_the_alarm() {
    let mut e = Etcd::formed(3);
    e.probe().alarms.push(alarm("CORRUPT", 0));
    e.reconcile();
    let said = e.message(T::Ready);
    let command =
        format!("kubectl -n {NAMESPACE} exec {NAME}-0 -c etcd -- etcdctl --endpoints=https://127.0.0.1:2379 ");
    assert!(said.contains(&command) && said.ends_with(" alarm disarm"), "{said}");
    let container = &e.get(&Etcd::set())["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], "etcd");
    // Its files are those that the member itself is given.
    for (own, member) in [("--cacert=", "--trusted-ca-file="), ("--cert=", "--cert-file="), ("--key=", "--key-file=")] {
        let file = said.split(' ').find_map(|word| word.strip_prefix(own)).unwrap();
        let given = format!("{member}{file}");
        assert!(container["args"].as_array().unwrap().contains(&json!(given)), "{given}");
    }
}

#[test]
fn without_an_answer_kubelets_word_counts() {
    let mut e = Etcd::formed(3);
    e.world.observed.etcd = None;
    e.reconcile();
    assert_eq!(e.condition(T::Available), is("True", Reason::AsExpected));
    assert_eq!(e.cr.status.as_ref().unwrap().members[0].id.as_deref(), Some("a0"), "what was known stays");
}

#[test]
fn a_volume_that_does_not_come_is_named_with_its_class() {
    let mut e = Etcd::new(1);
    e.reconcile();
    let labels = json!({"berth.dev/etcd-cluster": NAME});
    let said = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
    let unscheduled = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}]);
    let pod = json!({"metadata": {"name": "etcd-0", "labels": labels}, "status": {"conditions": unscheduled}});
    let spec = json!({"storageClassName": "nowhere"});
    let claim = json!({"metadata": {"labels": labels}, "spec": spec, "status": {"phase": "Pending"}});
    e.world.put(ObjectKey::namespaced(Kind::Pod, NAMESPACE, "etcd-0"), pod);
    e.world.put(ObjectKey::namespaced(Kind::PersistentVolumeClaim, NAMESPACE, "data-etcd-0"), claim);
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready).1, "Unschedulable");
    let all = &e.cr.status.as_ref().unwrap().conditions;
    let message = &conditions::find(all, ConditionType::Ready).unwrap().message;
    assert!(message.contains("data-etcd-0") && message.contains("StorageClass nowhere"), "{message}");
}

#[test]
fn pods_that_are_not_there_are_asked_for_once_their_set_was_taken_up() {
    let mut e = Etcd::formed(3);
    let absent = |e: &Etcd| super::super::missing_members(&e.cr, &e.world.observed);
    assert_eq!(absent(&e), [""; 0]);
    e.world.remove(&Etcd::key(Kind::Pod, "etcd-1"));
    assert_eq!(absent(&e), ["etcd-1"]);
    let mut terminating = e.cr.clone();
    terminating.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(e.world.now));
    assert_eq!(super::super::missing_members(&terminating, &e.world.observed), [""; 0], "nobody waits for it");
    let set = Etcd::key(Kind::StatefulSet, "etcd");
    let generation = e.world.observed.get(&set).unwrap()["metadata"]["generation"].as_i64().unwrap_or_default();
    e.world.observed.objects.get_mut(&set).unwrap()["metadata"]["generation"] = (generation + 1).into();
    assert_eq!(absent(&e), [""; 0], "its controller has not looked yet");
    e.world.remove(&set);
    assert_eq!(absent(&e), [""; 0]);
}
