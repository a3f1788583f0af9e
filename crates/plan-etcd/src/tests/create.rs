//! Coming up, and being at rest.

use super::*;
use ConditionType as T;
use berth_api::labels;
use berth_pki::Usage;
use berth_plan::object_meta::label;
use std::collections::BTreeSet;

#[test]
fn everything_is_made_in_the_first_reconcile_and_nothing_in_the_second() {
    for replicas in [1, 3, 5] {
        let mut e = Etcd::new(replicas);
        e.reconcile();
        let made: BTreeSet<String> =
            e.world.observed.objects.keys().map(|k| format!("{} {}", k.kind, k.name)).collect();
        let mut wanted: BTreeSet<String> = [
            "ConfigMap etcd-bootstrap",
            "Secret etcd-client-ca",
            "Secret etcd-client-kube-apiserver",
            "Secret etcd-peer",
            "Secret etcd-peer-ca",
            "Secret etcd-server",
            "Service etcd-peer",
            "StatefulSet etcd",
        ]
        .map(str::to_owned)
        .into();
        wanted.extend((0..replicas).map(|i| format!("Service etcd-{i}")));
        wanted.extend(made.iter().filter(|m| m.starts_with("ConfigMap etcd-templates-")).cloned());
        if replicas > 1 {
            wanted.insert("PodDisruptionBudget etcd".into());
        }
        assert_eq!(made, wanted);
        assert_eq!(e.world.log.len(), wanted.len(), "each written once: {:#?}", e.world.log);
        assert!(e.plan().plan.is_empty());
    }
}

#[test]
fn children_are_labelled_and_hold_no_uid_and_no_owner() {
    let e = Etcd::formed(3);
    for (key, object) in e.world.observed.objects.iter().filter(|(k, _)| k.kind != Kind::PersistentVolumeClaim) {
        assert_eq!(label(object, labels::ETCD_CLUSTER), Some(NAME), "{key}");
        assert!(object.pointer("/metadata/ownerReferences").is_none(), "{key}");
        if key.kind != Kind::Pod {
            assert_eq!(label(object, labels::MANAGED_BY), Some(labels::MANAGED_BY_VALUE), "{key}");
        }
    }
    let template = e.get(&Etcd::set())["spec"]["template"].to_string();
    assert!(!template.contains("uid-") && !template.contains("first-uid"), "{template}");
}

#[test]
fn certificates_name_every_member_and_fit_their_use() {
    let e = Etcd::formed(3);
    let pair = |secret: &str| e.world.observed.pair(&Etcd::key(Kind::Secret, secret), "tls").unwrap().unwrap().clone();
    let root = |secret: &str| e.world.observed.root(&Etcd::key(Kind::Secret, secret)).unwrap().current.clone();
    for (secret, issuer) in [("etcd-server", "etcd-client-ca"), ("etcd-peer", "etcd-peer-ca")] {
        let info = pair(secret);
        assert_eq!(info.usage(), Some(Usage::Peer), "{secret}");
        assert_eq!(info.aki, root(issuer).ski, "{secret}");
        for i in 0..3 {
            let names = [format!("etcd-{i}"), format!("etcd-{i}.{NAMESPACE}"), format!("etcd-{i}.{NAMESPACE}.svc")];
            assert!(names.iter().all(|n| info.dns_names.contains(n)), "{:?}", info.dns_names);
            let service = e.get(&Etcd::key(Kind::Service, &format!("etcd-{i}")));
            let address = service["spec"]["clusterIP"].as_str().unwrap().parse().unwrap();
            assert!(info.ip_addresses.contains(&address), "{:?}", info.ip_addresses);
        }
        assert!(info.dns_names.contains(&"localhost".to_owned()));
        assert!(info.ip_addresses.contains(&"127.0.0.1".parse().unwrap()));
    }
    let client = pair("etcd-client-kube-apiserver");
    assert_eq!((client.usage(), client.common_name.as_str()), (Some(Usage::Client), "kube-apiserver"));
    assert_eq!(client.aki, root("etcd-client-ca").ski);
    let digest =
        |secret: &str, key: &str| e.world.observed.secrets[&Etcd::key(Kind::Secret, secret)].digests[key].clone();
    assert_eq!(digest("etcd-server", "ca.crt"), digest("etcd-client-ca", "tls.crt"));
    assert_eq!(digest("etcd-peer", "ca.crt"), digest("etcd-peer-ca", "tls.crt"));
    assert_eq!(digest("etcd-client-kube-apiserver", "ca.crt"), digest("etcd-client-ca", "tls.crt"));
}

#[test]
fn the_status_says_where_and_with_what_to_connect() {
    let e = Etcd::formed(3);
    let status = e.cr.status.as_ref().unwrap();
    assert_eq!(status.endpoints.len(), 3);
    assert_eq!(status.endpoints[1].url, "https://etcd-1.acme-9201d5e7.svc:2379");
    assert_eq!(status.endpoints[1].host, "etcd-1.acme-9201d5e7.svc");
    assert!(status.endpoints[1].address.starts_with("10.96.0."));
    assert_eq!(status.clients[0].secret_ref.name, "etcd-client-kube-apiserver");
    assert_eq!(status.cluster_id.as_deref(), Some("c1"));
    assert_eq!(status.identity.as_deref(), Some("first-uid"));
    assert_eq!((status.epoch, status.ready_members.as_deref()), (Some(1), Some("3/3")));
    assert_eq!((status.version.as_deref(), status.phase.as_deref()), (Some("3.6.16"), Some("Ready")));
    assert_eq!(status.members.iter().filter_map(|m| m.id.as_deref()).collect::<Vec<_>>(), ["a0", "a1", "a2"]);
    assert!(status.certificates.as_ref().unwrap().next_expiry.is_some());
    assert_eq!(status.templates.as_ref().unwrap().agent_image, Settings::default().agent_image);
}

#[test]
fn all_conditions_are_there_from_the_first_reconcile() {
    let mut e = Etcd::new(1);
    e.reconcile();
    for t in [T::Ready, T::Available, T::Progressing, T::Degraded, T::PKIReady, T::MembersReady] {
        e.condition(t);
    }
    assert_eq!(e.condition(T::Available), is("False", Reason::Waiting));
    assert_eq!(e.condition(T::PKIReady), is("True", Reason::AsExpected));
    assert_eq!(e.condition(T::Degraded), is("False", Reason::AsExpected));
    assert_eq!(e.cr.status.as_ref().unwrap().phase.as_deref(), Some("Forming"));
}

#[test]
fn at_rest_nothing_is_written_and_the_status_stays() {
    let mut e = Etcd::formed(3);
    let before = e.cr.status.clone();
    // The driver keeps no texts of templates.
    let texts = e.world.observed.of_kind(Kind::ConfigMap, NAMESPACE).map(|(k, _)| k.clone());
    for key in texts.filter(|k| k.name.contains("templates-")).collect::<Vec<_>>() {
        e.edit(&key)["data"] = serde_json::Value::Null;
    }
    e.world.now += SignedDuration::from_mins(10);
    let planned = e.reconcile();
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
    assert_eq!(e.cr.status, before);
    assert_eq!(planned.requeue_after, Some(SignedDuration::from_secs(30)));
}

#[test]
fn requeue_intervals() {
    let mut e = Etcd::new(3);
    assert_eq!(e.reconcile().requeue_after, Some(SignedDuration::from_mins(1)), "pods are announced");
    e.members_run();
    e.answer(&[], 0);
    assert_eq!(e.reconcile().requeue_after, Some(SignedDuration::from_millis(250)), "about to answer");
    e.world.now += SignedDuration::from_mins(2);
    assert_eq!(e.reconcile().requeue_after, Some(SignedDuration::from_secs(5)), "not about to");
}

#[test]
fn a_child_that_was_edited_or_deleted_is_repaired() {
    let e = Etcd::formed(3);
    let kept = [Kind::Pod, Kind::PersistentVolumeClaim, Kind::Secret];
    let keys: Vec<_> = e.world.observed.objects.keys().filter(|k| !kept.contains(&k.kind)).cloned().collect();
    for key in keys {
        let mut gone = e.clone();
        gone.world.remove(&key);
        gone.reconcile();
        assert!(gone.world.observed.get(&key).is_some(), "{key}");
        assert_eq!(gone.bootstrap()["state"], "Established", "after the loss of {key}");
        assert_eq!(gone.bootstrap()["clusterUID"], "first-uid", "after the loss of {key}");

        let mut bare = e.clone();
        bare.edit(&key)["metadata"]["labels"] = json!({});
        bare.edit(&key)["metadata"]["annotations"][labels::ETCD_RECORD] = "nonsense".into();
        bare.reconcile();
        assert_eq!(label(bare.get(&key), labels::ETCD_CLUSTER), Some(NAME), "{key}");
        assert_eq!(bare.bootstrap(), gone.bootstrap(), "after the damage of {key}");
    }
}

#[test]
fn paused_writes_nothing() {
    let mut e = Etcd::new(1);
    e.cr.spec.paused = true;
    e.reconcile();
    assert!(e.world.log.is_empty());
    assert_eq!(e.condition(ConditionType::Progressing), is("False", Reason::Paused));
    assert_eq!(e.cr.status.as_ref().unwrap().identity, None, "nothing is bound before anything is written");
    e.cr.spec.paused = false;
    e.cr.spec.version = "3.5.35".into();
    e.reconcile();
    assert_eq!(
        e.get(&Etcd::set())["spec"]["template"]["spec"]["containers"][0]["image"],
        "registry.k8s.io/etcd:3.5.35-0"
    );
}
