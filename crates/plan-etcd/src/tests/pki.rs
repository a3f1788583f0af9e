//! CAs are made once; everything they sign follows its specification.

use super::*;

#[test]
fn a_lost_ca_is_not_made_anew_while_anything_trusts_it() {
    for ca in ["etcd-peer-ca", "etcd-client-ca"] {
        let mut e = Etcd::formed(3);
        let set = e.get(&Etcd::set()).clone();
        e.world.remove(&Etcd::key(Kind::Secret, ca));
        let planned = e.reconcile();
        assert_eq!(reason(&planned, StageId::Pki), Some(Reason::CertificateAuthorityLost), "{ca}");
        assert!(e.world.log.is_empty(), "{ca}: {:#?}", e.world.log);
        assert_eq!(e.get(&Etcd::set()), &set, "{ca}");
        assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected), "{ca}");
        assert_eq!(e.condition(ConditionType::PKIReady), is("False", Reason::CertificateAuthorityLost), "{ca}");
        assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::CertificateAuthorityLost), "{ca}");
        // The rest is still looked after.
        e.edit(&Etcd::set())["spec"]["replicas"] = 1.into();
        e.reconcile();
        assert_eq!(e.replicas(), 3, "{ca}");
    }
}

#[test]
fn a_ca_that_was_never_used_may_be_made_after_the_other() {
    let mut e = Etcd::new(1);
    // The first reconcile ended between the two: the client CA and what it signs are there.
    e.reconcile();
    for (kind, name) in [(Kind::Secret, "etcd-peer-ca"), (Kind::Secret, "etcd-peer"), (Kind::StatefulSet, "etcd")] {
        e.world.remove(&Etcd::key(kind, name));
    }
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Pki), None);
    assert!(e.world.observed.get(&Etcd::set()).is_some());
}

#[test]
fn a_damaged_ca_is_held() {
    let mut e = Etcd::formed(1);
    e.world.set_secret(&Etcd::key(Kind::Secret, "etcd-client-ca"), "tls.key", b"garbage");
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Pki), Some(Reason::CertificateAuthorityInvalid));
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
}

#[test]
fn a_lost_or_old_leaf_is_issued_and_rolls_nothing() {
    let formed = Etcd::formed(3);
    for leaf in ["etcd-server", "etcd-peer", "etcd-client-kube-apiserver"] {
        let mut e = formed.clone();
        e.world.remove(&Etcd::key(Kind::Secret, leaf));
        e.reconcile();
        assert_eq!(e.world.log.len(), 1, "{leaf}: {:#?}", e.world.log);
        e.world.log.clear();
        e.world.now += SignedDuration::from_hours(24 * 80);
        e.reconcile();
        assert_eq!(e.world.log.len(), 3, "{leaf}: {:#?}", e.world.log);
        assert!(e.world.log.iter().all(|l| l.starts_with("update Secret")), "{:#?}", e.world.log);
    }
}

#[test]
fn another_ca_rolls_the_members() {
    let mut e = Etcd::formed(1);
    let key = Etcd::key(Kind::Secret, "etcd-peer-ca");
    let spec = berth_pki::CertSpec {
        common_name: "etcd-peer-ca-2".into(),
        organizations: vec![],
        dns_names: vec![],
        ip_addresses: vec![],
        usage: berth_pki::Usage::Ca,
        lifetime: berth_pki::Lifetime::CA_10Y,
    };
    let pair = berth_pki::issue_ca(&spec, e.world.now).unwrap();
    e.world.set_secret(&key, "tls.crt", pair.cert_pem.as_bytes());
    e.world.set_secret(&key, "tls.key", pair.key_pem.expose_bytes());
    e.reconcile();
    assert!(e.world.log.iter().any(|l| l.starts_with("update Secret acme-9201d5e7/etcd-peer")), "{:#?}", e.world.log);
    assert!(e.world.log.iter().any(|l| l == "apply StatefulSet acme-9201d5e7/etcd"), "{:#?}", e.world.log);
}

#[test]
fn the_time_of_renewal_is_looked_at() {
    let mut later = Etcd::formed(1);
    let planned = later.plan();
    let end = planned.certificates.next_expiry.unwrap();
    assert_eq!(end.duration_since(later.world.now), SignedDuration::from_hours(24 * 90));
    // Just before, it is known when the renewal is due.
    later.world.now = end - SignedDuration::from_hours(24 * 40);
    while later.plan().plan.is_empty() {
        later.world.now += SignedDuration::from_hours(1);
    }
    later.world.now -= SignedDuration::from_hours(1);
    assert!(later.plan().certificates.due.unwrap() <= SignedDuration::from_hours(1));
}
