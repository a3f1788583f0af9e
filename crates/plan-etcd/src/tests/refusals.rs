//! Wishes that cannot be fulfilled, and objects that are not ours.

use super::*;
use berth_api::labels;
use berth_plan::model::Action;

/// Name, what is asked for.
type Change = (&'static str, Reason, fn(&mut EtcdClusterSpec));

#[test]
fn versions_without_templates_make_nothing() {
    for version in ["3.4.30", "4.0.0", "3.7.1"] {
        let mut e = Etcd::new(1);
        e.cr.spec.version = version.into();
        let planned = e.reconcile();
        assert_eq!(reason(&planned, StageId::Spec), Some(Reason::VersionUnsupported), "{version}");
        assert!(e.world.log.is_empty());
        assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::VersionUnsupported));
        assert_eq!(e.condition(ConditionType::MembersReady), is("Unknown", Reason::NotYetObserved));
        assert_eq!(e.cr.status.as_ref().unwrap().phase.as_deref(), Some("Pending"));
    }
}

#[test]
fn a_running_etcd_keeps_its_version_and_takes_up_the_rest() {
    let changes: [Change; 3] = [
        ("patch down", Reason::DowngradeUnsafe, |s| s.version = "3.6.15".into()),
        ("minor down", Reason::DowngradeUnsafe, |s| s.version = "3.5.35".into()),
        ("unknown minor", Reason::VersionUnsupported, |s| s.version = "3.9.0".into()),
    ];
    let formed = Etcd::formed(3);
    for (name, expected, change) in changes {
        let mut e = formed.clone();
        change(&mut e.cr.spec);
        e.cr.spec.clients.push(EtcdClient { name: "backup".into() });
        e.cr.metadata.generation = Some(2);
        let planned = e.reconcile();
        assert_eq!(reason(&planned, StageId::Spec), Some(expected), "{name}");
        let set = e.get(&Etcd::set());
        assert_eq!(set["spec"]["replicas"], 3, "{name}");
        assert_eq!(
            set["spec"]["template"]["spec"]["containers"][0]["image"], "registry.k8s.io/etcd:3.6.16-0",
            "{name}"
        );
        assert_eq!(
            e.world.log,
            [
                "create Secret acme-9201d5e7/etcd-client-backup: certificate tls (there is none), copy of the CA in ca.crt"
            ],
            "{name}"
        );
        assert_eq!(e.condition(ConditionType::Ready), is("False", expected), "{name}");
        assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected), "{name}");
    }
}

#[test]
fn edits_of_version_and_size_on_the_stateful_set_are_undone() {
    let mut e = Etcd::formed(3);
    e.edit(&Etcd::set())["spec"]["replicas"] = 1.into();
    e.edit(&Etcd::set())["spec"]["template"]["spec"]["containers"][0]["image"] = "evil".into();
    e.edit(&Etcd::set())["metadata"]["annotations"][labels::ETCD_RECORD] = serde_json::Value::Null;
    e.reconcile();
    assert_eq!(e.replicas(), 3);
    assert_eq!(
        e.get(&Etcd::set())["spec"]["template"]["spec"]["containers"][0]["image"],
        "registry.k8s.io/etcd:3.6.16-0"
    );
}

/// Whoever may write annotations in one namespace does not decide how much memory the operator needs for all.
#[test]
fn records_that_cannot_be_are_passed_over() {
    let mut formed = Etcd::formed(3);
    // The status would be believed first; a restore brings none.
    formed.cr.status = None;
    let text = |key: &ObjectKey| formed.get(key)["metadata"]["annotations"][labels::ETCD_RECORD].as_str().unwrap();
    let whole: Value = serde_json::from_str(text(&Etcd::set())).unwrap();
    let before = formed.plan().record.unwrap();
    let wrong = [
        ("replicas", json!(1_000)),
        ("replicas", json!(0)),
        ("replicas", json!(-1)),
        ("replicas", json!(2)),
        ("clusterUID", json!("")),
        ("clusterUID", json!("x".repeat(100_000))),
        ("clusterUID", json!("a b")),
        ("version", json!("3.6.16@sha256:0")),
        ("version", json!("3.6.16-x")),
        ("version", json!("")),
        ("templates", json!("../x")),
        ("agentImage", json!("")),
        ("agentImage", json!("a b")),
        ("joined", json!(["etcd-7", "x"])),
    ];
    for (field, value) in wrong {
        let mut record = whole.clone();
        record[field] = value.clone();
        let mut e = formed.clone();
        e.edit(&Etcd::set())["metadata"]["annotations"][labels::ETCD_RECORD] = record.to_string().into();
        assert_eq!(e.plan().record.as_ref(), Some(&before), "{field}: {value}");
        e.reconcile();
        for path in ["/metadata/annotations", "/spec"] {
            let (now, then) = (e.get(&Etcd::set()).pointer(path), formed.get(&Etcd::set()).pointer(path));
            assert_eq!(now, then, "{field}: {value}");
        }
    }
}

#[test]
fn a_stateful_set_that_asks_for_countless_pods_is_not_counted() {
    let mut e = Etcd::formed(3);
    e.edit(&Etcd::set())["spec"]["replicas"] = 1_000.into();
    assert!(super::super::missing_members(&e.cr, &e.world.observed).is_empty());
    e.reconcile();
    assert_eq!(e.replicas(), 3);
}

#[test]
fn a_client_cannot_take_the_name_of_the_ca() {
    let mut e = Etcd::formed(1);
    e.cr.spec.clients.push(EtcdClient { name: "ca".into() });
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Spec), Some(Reason::InvalidSpec));
    assert!(e.world.log.is_empty());
    assert_eq!(e.cr.status.as_ref().unwrap().clients.len(), 1);
}

#[test]
fn what_is_not_ours_is_left_as_it_is() {
    let names = [
        (Kind::Service, "etcd-0", StageId::Endpoint),
        (Kind::Secret, "etcd-peer-ca", StageId::Pki),
        (Kind::Secret, "etcd-client-ca", StageId::Pki),
        (Kind::Secret, "etcd-server", StageId::Pki),
        (Kind::ConfigMap, "etcd-bootstrap", StageId::Etcd),
        (Kind::StatefulSet, "etcd", StageId::Etcd),
    ];
    let owners = [
        json!({}),
        json!({(labels::ETCD_CLUSTER): "another", (labels::MANAGED_BY): "berth"}),
        json!({(labels::CLUSTER_NAME): "etcd-peer", (labels::MANAGED_BY): "berth"}),
    ];
    for (kind, name, component) in names {
        for owner in &owners {
            let mut e = Etcd::new(1);
            let key = Etcd::key(kind, name);
            e.world.put(key.clone(), json!({"metadata": {"name": name, "labels": owner}, "data": {"x": "y"}}));
            let before = e.get(&key).clone();
            let planned = e.reconcile();
            assert_eq!(reason(&planned, component), Some(Reason::ForeignObject), "{key} of {owner}");
            assert_eq!(e.get(&key), &before, "{key} of {owner}");
            assert_eq!(e.condition(ConditionType::Degraded), is("True", Reason::ForeignObject), "{key} of {owner}");
        }
    }
}

#[test]
fn certificates_of_clients_that_are_no_longer_named_go() {
    let mut e = Etcd::formed(1);
    e.cr.spec.clients = vec![EtcdClient { name: "other".into() }];
    let key = Etcd::key(Kind::Secret, "etcd-client-kube-apiserver");
    let uid = e.get(&key)["metadata"]["uid"].as_str().unwrap().to_owned();
    let first = e.plan();
    assert!(first.plan.prune.is_empty(), "first the new one is written");
    e.reconcile();
    assert!(e.world.observed.get(&key).is_none());
    assert_eq!(e.world.log.len(), 2, "{:#?}", e.world.log);
    assert!(!uid.is_empty());
    let left: Vec<_> = e.world.observed.of_kind(Kind::Secret, NAMESPACE).map(|(k, _)| k.name.as_str()).collect();
    assert_eq!(left, ["etcd-client-ca", "etcd-client-other", "etcd-peer", "etcd-peer-ca", "etcd-server"]);
    assert!(e.plan().plan.actions().all(|a| !matches!(a, Action::Delete { .. })));
}
