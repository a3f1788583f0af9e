//! What is trusted while one CA takes the place of another.

use super::{DAY, ca, info, leaf, now, root, spec, verify_issued_by};
use crate::{
    CertInfo, Decision, KeyPairPem, Kubeconfig, RenewReason, Root, Usage, decide, decide_ca, decide_kubeconfig,
    inspect_bundle, issue, issue_ca, parse_kubeconfig_certificate,
};

fn next_ca() -> KeyPairPem {
    issue_ca(&spec("kubernetes-ca-2", Usage::Ca), now()).unwrap()
}

fn bundle(all: &[&KeyPairPem]) -> String {
    all.iter().map(|pair| &*pair.cert_pem).collect()
}

/// The Secret while the first issues and the second is trusted, too.
fn rotating(current: &KeyPairPem, next: &KeyPairPem) -> Root {
    let next_key = Some(next.key_pem.expose_bytes());
    Root::read(bundle(&[current, next]).as_bytes(), current.key_pem.expose_bytes(), next_key).unwrap()
}

#[test]
fn one_certificate_has_none_beside_it() {
    let ca = ca();
    let alone = root(&ca);
    assert_eq!(alone, Root { current: info(&ca), next: None, former: vec![], trust_pem: ca.cert_pem.clone() });
    assert_eq!(alone.trusted().collect::<Vec<_>>(), [&info(&ca)]);
    let early_key = Root::read(ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), Some(b"not yet used"));
    assert_eq!(early_key, Ok(alone));
}

#[test]
fn both_are_trusted_and_the_first_issues() {
    let (old, new) = (ca(), next_ca());
    for (current, other) in [(&old, &new), (&new, &old)] {
        let root = rotating(current, other);
        assert_eq!(inspect_bundle(root.trust_pem.as_bytes()), Ok(vec![info(current), info(other)]));
        assert_eq!(root.trusted().collect::<Vec<_>>(), [&info(current), &info(other)]);
        let spec = spec("leaf", Usage::Server);
        let made = issue(&spec, root.trust_pem.as_bytes(), current.key_pem.expose_bytes(), now()).unwrap();
        assert_eq!(verify_issued_by(made.cert_pem.as_bytes(), current.cert_pem.as_bytes()), Ok(()));
        assert!(verify_issued_by(made.cert_pem.as_bytes(), other.cert_pem.as_bytes()).is_err());
    }
}

#[test]
fn a_leaf_of_either_is_kept_and_renewed_by_the_first() {
    let (old, new) = (ca(), next_ca());
    let spec = spec("leaf", Usage::Server);
    let at = |root: &Root, found: &CertInfo, days| decide(&spec, Some(Ok(found)), root, now() + DAY * days, "uid");
    let of_old = info(&leaf(&spec, &old));
    for root in [root(&old), rotating(&old, &new), rotating(&new, &old)] {
        assert!(matches!(at(&root, &of_old, 1), Decision::Keep { .. }), "{root:?}");
        assert!(matches!(at(&root, &of_old, 64), Decision::Renew { why: RenewReason::Age { .. } }), "{root:?}");
    }
    let why = RenewReason::IssuerChanged { was: of_old.issuer.clone(), now: "CN=kubernetes-ca-2".into() };
    assert_eq!(at(&root(&new), &of_old, 1), Decision::Renew { why }, "it is dropped");
    let stranger = info(&leaf(&spec, &ca()));
    assert!(matches!(at(&rotating(&old, &new), &stranger, 1), Decision::Renew { .. }));
}

#[test]
fn what_ends_with_the_former_ca_is_renewed_by_the_current_one() {
    let mut short = spec("kubernetes-ca-1", Usage::Ca);
    short.lifetime = DAY * 30;
    let (old, new) = (issue_ca(&short, now()).unwrap(), next_ca());
    let spec = spec("leaf", Usage::Client);
    let found = info(&leaf(&spec, &old));
    let at = now() + DAY * 25;
    assert!(matches!(decide(&spec, Some(Ok(&found)), &root(&old), at, "uid"), Decision::Keep { .. }));
    assert!(matches!(decide(&spec, Some(Ok(&found)), &rotating(&new, &old), at, "uid"), Decision::Renew { .. }));
    let after = now() + DAY * 31;
    assert!(matches!(decide_ca(Some(Ok(&rotating(&new, &old))), after), Decision::Keep { .. }), "it issues nothing");
    assert!(matches!(decide_ca(Some(Ok(&rotating(&old, &new))), after), Decision::Hold { .. }));
}

#[test]
fn a_kubeconfig_trusts_both() {
    let (old, new) = (ca(), next_ca());
    let root = rotating(&old, &new);
    let user = spec("admin", Usage::Client);
    let client = leaf(&user, &old);
    let mut config = Kubeconfig {
        cluster_name: "acme".into(),
        server: "https://acme:6443".into(),
        ca_pem: root.trust_pem.clone(),
        user: "admin".into(),
        cert_pem: client.cert_pem,
        key_pem: client.key_pem,
    };
    let decide = |config: &Kubeconfig, root: &Root| {
        let found = parse_kubeconfig_certificate(config.to_yaml().as_bytes()).unwrap();
        decide_kubeconfig(&user, &config.server, Some(Ok(&found)), root, now(), "uid")
    };
    assert!(matches!(decide(&config, &root), Decision::Keep { .. }));
    assert!(matches!(decide(&config, &rotating(&new, &old)), Decision::Keep { .. }), "their order does not matter");
    config.ca_pem = old.cert_pem;
    assert_eq!(decide(&config, &root), Decision::Renew { why: RenewReason::TrustChanged });
}

#[test]
fn every_certificate_is_judged_and_a_wrong_one_is_named() {
    let (old, new) = (ca(), next_ca());
    let peer = leaf(&spec("peer", Usage::Peer), &old);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let torn = "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n";
    let read = |certificates: String, key: &KeyPairPem, next: Option<&KeyPairPem>| {
        let next = next.map(|pair| pair.key_pem.expose_bytes());
        Root::read(certificates.as_bytes(), key.key_pem.expose_bytes(), next).unwrap_err()
    };
    let cases = [
        (read(bundle(&[&old]), &new, None), "does not belong to the certificate CN=kubernetes-ca-1"),
        (read(bundle(&[&old, &new]), &new, Some(&old)), "does not belong to the certificate CN=kubernetes-ca-1"),
        (read(bundle(&[&old, &peer]), &old, Some(&peer)), "CN=peer cannot sign certificates: it is not a CA"),
        (read(bundle(&[&peer]), &peer, None), "CN=peer cannot sign certificates: it is not a CA"),
        (read(bundle(&[&old]) + broken, &old, None), "cannot be read: number 2: it is not an X.509 certificate"),
        (read(bundle(&[&old]) + torn, &old, None), "cannot be read: number 2: the PEM block is not base64"),
        (read(broken.to_owned(), &old, None), "cannot be read: it is not an X.509 certificate"),
        (read(String::new(), &old, None), "there is no such PEM block"),
    ];
    for (error, expected) in &cases {
        assert!(error.to_string().contains(expected), "{error}\n{expected}");
        let why = RenewReason::Garbled { problem: error.to_string() };
        assert_eq!(decide_ca(Some(Err(error)), now()), Decision::Hold { why });
    }
}

#[test]
fn a_ca_without_its_key_is_trusted_and_issues_nothing() {
    let (old, new, former) = (ca(), next_ca(), issue_ca(&spec("former", Usage::Ca), now()).unwrap());
    let read = |all: &[&KeyPairPem], next: Option<&KeyPairPem>| {
        let next = next.map(|pair| pair.key_pem.expose_bytes());
        Root::read(bundle(all).as_bytes(), old.key_pem.expose_bytes(), next).unwrap()
    };
    for next in [None, Some(&new)] {
        let root = read(&[&old, &former], next);
        assert_eq!(
            (root.next.as_ref(), &*root.former),
            (None, &[info(&former)][..]),
            "another one's key changes nothing"
        );
        let found = info(&leaf(&spec("leaf", Usage::Server), &former));
        let decision = decide(&spec("leaf", Usage::Server), Some(Ok(&found)), &root, now() + DAY, "uid");
        assert!(matches!(decision, Decision::Keep { .. }), "{decision:?}");
    }
    for all in [[&old, &new, &former], [&old, &former, &new]] {
        let root = read(&all, Some(&new));
        assert_eq!((root.next, root.former), (Some(info(&new)), vec![info(&former)]));
    }
}
