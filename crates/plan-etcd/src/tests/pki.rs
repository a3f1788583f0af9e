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

fn another_ca(name: &str, e: &Etcd) -> berth_pki::KeyPairPem {
    let spec = berth_pki::CertSpec::new(name, berth_pki::Usage::Ca, berth_pki::CA_LIFETIME);
    berth_pki::issue_ca(&spec, e.world.now).unwrap()
}

#[test]
fn another_ca_rolls_the_members() {
    let mut e = Etcd::formed(1);
    let key = Etcd::key(Kind::Secret, "etcd-peer-ca");
    let pair = another_ca("etcd-peer-ca-2", &e);
    e.world.set_secret(&key, "tls.crt", pair.cert_pem.as_bytes());
    e.world.set_secret(&key, "tls.key", pair.key_pem.expose_bytes());
    e.reconcile();
    assert!(e.world.log.iter().any(|l| l.starts_with("update Secret acme-9201d5e7/etcd-peer")), "{:#?}", e.world.log);
    assert!(e.world.log.iter().any(|l| l == "apply StatefulSet acme-9201d5e7/etcd"), "{:#?}", e.world.log);
}

#[test]
fn a_ca_beside_the_current_one_is_trusted_and_renews_no_leaf() {
    let mut e = Etcd::formed(3);
    let ca = Etcd::key(Kind::Secret, "etcd-client-ca");
    let leaves = ["etcd-server", "etcd-client-kube-apiserver"].map(|name| Etcd::key(Kind::Secret, name));
    let serials = |e: &Etcd| leaves.clone().map(|key| e.world.observed.pair(&key, "tls").unwrap().unwrap().clone());
    let before = (e.world.observed.root(&ca).unwrap().clone(), serials(&e));
    let next = another_ca("etcd-client-ca-2", &e);
    e.world.set_secret(&ca, "next.key", next.key_pem.expose_bytes());
    e.world.set_secret(&ca, "tls.crt", (before.0.trust_pem.clone() + &next.cert_pem).as_bytes());
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Pki), None);
    let root = e.world.observed.root(&ca).unwrap();
    assert_eq!((&root.current, root.next.is_some()), (&before.0.current, true));
    let digest = |key: &ObjectKey, entry: &str| e.world.observed.secrets[key].digests[entry].clone();
    assert!(leaves.iter().all(|leaf| digest(leaf, "ca.crt") == digest(&ca, "tls.crt")), "{:#?}", e.world.log);
    assert_eq!(serials(&e), before.1);
    let template = &e.get(&Etcd::set())["spec"]["template"];
    let checksum = template["metadata"]["annotations"]["checksum.berth.dev/client-ca"].as_str().unwrap();
    assert!(digest(&ca, "tls.crt").starts_with(checksum), "etcd reads whom it trusts only when it starts");
}

#[test]
fn a_broken_certificate_in_what_is_trusted_is_named_and_handed_to_nobody() {
    let mut e = Etcd::formed(1);
    let ca = Etcd::key(Kind::Secret, "etcd-client-ca");
    let trusted = e.world.observed.root(&ca).unwrap().trust_pem.clone();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    e.world.set_secret(&ca, "tls.crt", (trusted + broken).as_bytes());
    let planned = e.reconcile();
    assert_eq!(reason(&planned, StageId::Pki), Some(Reason::CertificateAuthorityInvalid));
    let (_, message) = planned.plan.first_problem().unwrap();
    assert!(message.contains("etcd-client-ca: the certificate cannot be read: number 2"), "{message}");
    assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
}

#[test]
fn a_ca_without_its_key_holds_up_no_renewal() {
    let mut e = Etcd::formed(1);
    let ca = Etcd::key(Kind::Secret, "etcd-client-ca");
    let trusted = e.world.observed.root(&ca).unwrap().trust_pem.clone();
    let former = another_ca("former", &e);
    e.world.set_secret(&ca, "tls.crt", (trusted + &former.cert_pem).as_bytes());
    let planned = e.reconcile();
    assert_ne!(reason(&planned, StageId::Pki), Some(Reason::CertificateAuthorityInvalid), "{planned:?}");
    e.world.now += SignedDuration::from_hours(24 * 70);
    let planned = e.plan();
    assert!(planned.plan.actions().any(|a| a.describe().contains("Secret")), "{planned:?}");
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
