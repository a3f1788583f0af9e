//! What is made, and what is refused.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::{DAY, MINUTE, ca, info, ip, issue_at, leaf, now, spec, verify_issued_by};
use crate::{PkiError, Usage, inspect, inspect_pair, issue, issue_ca, issue_for};

#[test]
fn a_leaf_says_what_its_spec_says() {
    let ca = ca();
    let mut spec = spec("kube-apiserver", Usage::Peer);
    spec.organizations = vec!["team-b".into(), "team-a".into(), "team-a".into()];
    spec.dns_names = vec!["B.example".into(), "a.example".into(), "b.example".into(), "10.0.0.9".into()];
    spec.ip_addresses = vec![ip("fd00::1"), ip("10.0.0.1"), ip("10.0.0.1"), ip("::ffff:10.0.0.2")];
    let made = leaf(&spec, &ca);
    let found = info(&made);
    assert_eq!(found.common_name, "kube-apiserver");
    assert_eq!(found.organizations, ["team-a", "team-b"]);
    assert_eq!(found.dns_names, ["a.example", "b.example"]);
    assert_eq!(found.ip_addresses, [ip("10.0.0.1"), ip("10.0.0.2"), ip("10.0.0.9"), ip("fd00::1")]);
    assert!(found.other_names.is_empty());
    assert_eq!(found.usage(), Some(Usage::Peer));
    assert_eq!(found.key_usages, ["Digital Signature"]);
    assert_eq!(found.aki, info(&ca).ski);
    assert_eq!(found.issuer, info(&ca).subject);
    assert_eq!(inspect(made.cert_pem.as_bytes()).unwrap(), found);
    verify_issued_by(made.cert_pem.as_bytes(), ca.cert_pem.as_bytes()).unwrap();
}

/// Whoever asks proves to have the key, and chooses nothing else.
#[test]
fn of_a_request_only_the_key_counts() {
    let ca = ca();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut wish = rcgen::CertificateParams::new(vec!["kubernetes.default".to_owned()]).unwrap();
    wish.distinguished_name.push(rcgen::DnType::OrganizationName, "system:masters");
    wish.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    wish.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let request = wish.serialize_request(&key).unwrap().pem().unwrap();
    let spec = spec("berth-access", Usage::Client);
    let sign = |request: &str| {
        issue_for(request, &spec, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), now()).map(|pem| {
            verify_issued_by(pem.as_bytes(), ca.cert_pem.as_bytes()).unwrap();
            inspect_pair(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap()
        })
    };
    let found = sign(&request).unwrap();
    assert_eq!((&*found.common_name, found.is_ca, found.usage()), ("berth-access", false, Some(Usage::Client)));
    assert!(found.organizations.is_empty() && found.dns_names.is_empty());
    let other = rcgen::KeyPair::generate().unwrap();
    let stolen = crate::pem::encode("CERTIFICATE REQUEST", &swapped(&wish, &key, &other)).to_string();
    for wrong in ["", "-----BEGIN CERTIFICATE REQUEST-----", &ca.cert_pem, &stolen] {
        assert!(matches!(sign(wrong), Err(PkiError::Garbled { what: "certificate signing request", .. })), "{wrong}");
    }
}

/// A request with somebody else's key, signed by one's own.
fn swapped(wish: &rcgen::CertificateParams, key: &rcgen::KeyPair, other: &rcgen::KeyPair) -> Vec<u8> {
    use rcgen::PublicKeyData as _;
    let mut request = wish.serialize_request(key).unwrap().der().to_vec();
    let (own, others) = (key.der_bytes(), other.der_bytes());
    let at = request.windows(own.len()).position(|bytes| bytes == own).unwrap();
    request[at..at + own.len()].copy_from_slice(others);
    request
}

#[test]
fn validity_begins_five_minutes_back_and_counts_from_now() {
    let found = info(&leaf(&spec("leaf", Usage::Client), &ca()));
    assert_eq!(found.not_before.to_string(), "2026-11-20T11:55:00Z");
    assert_eq!(found.issued_at().to_string(), "2026-11-20T12:00:00Z");
    assert_eq!(found.not_after.to_string(), "2027-02-18T12:00:00Z");
    assert_eq!(found.life(), DAY * 90);
}

#[test]
fn a_leaf_lies_within_the_life_of_its_ca() {
    let mut ca_spec = spec("short-ca-1", Usage::Ca);
    ca_spec.lifetime = DAY * 30;
    let ca = issue_ca(&ca_spec, now()).unwrap();
    let found = info(&leaf(&spec("leaf", Usage::Client), &ca));
    assert_eq!(found.not_after, info(&ca).not_after);
    // A CA made a moment ago on a machine whose clock was ahead: the leaf begins when the CA does.
    let early = info(&issue_at(&spec("leaf", Usage::Client), &ca, now() - MINUTE * 3));
    assert_eq!(early.not_before, info(&ca).not_before);
    for wrong in [now() - MINUTE * 10, now() + DAY * 31] {
        let made =
            issue(&spec("leaf", Usage::Client), ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), wrong).unwrap_err();
        assert!(matches!(made, PkiError::IssuerNotValid { .. }), "{made}");
    }
}

#[test]
fn serials_and_keys_are_never_repeated() {
    let (ca, spec) = (ca(), spec("leaf", Usage::Client));
    let made: Vec<_> = (0..32).map(|_| info(&leaf(&spec, &ca))).collect();
    let serials: BTreeSet<_> = made.iter().map(|i| &i.serial_hex).collect();
    let keys: BTreeSet<_> = made.iter().map(|i| &i.public_key_sha256).collect();
    assert_eq!((serials.len(), keys.len()), (32, 32));
    for serial in serials {
        let first = u8::from_str_radix(&serial[..2], 16).unwrap();
        assert!(serial.len() == 32 && (0x40..0x80).contains(&first), "128 bits, positive: {serial}");
    }
}

#[test]
fn only_a_ca_with_its_own_key_signs() {
    let (ca, other) = (ca(), ca());
    let client = spec("leaf", Usage::Client);
    let not_a_ca = leaf(&spec("peer", Usage::Peer), &ca);
    let sign = |cert: &crate::KeyPairPem, key: &crate::KeyPairPem| {
        issue(&client, cert.cert_pem.as_bytes(), key.key_pem.expose_bytes(), now()).map(|_| ())
    };
    assert_eq!(sign(&ca, &ca), Ok(()));
    assert!(matches!(sign(&ca, &other), Err(PkiError::KeyMismatch { .. })));
    assert!(matches!(sign(&not_a_ca, &not_a_ca), Err(PkiError::NotACa { .. })));
}

#[test]
fn verify_issued_by_checks_the_signature_and_not_only_names() {
    let (ours, same_name) = (ca(), ca());
    let other_name = issue_ca(&spec("kubernetes-ca-2", Usage::Ca), now()).unwrap();
    let made = leaf(&spec("leaf", Usage::Client), &ours);
    let check = |leaf: &str, ca: &str| verify_issued_by(leaf.as_bytes(), ca.as_bytes()).map_err(|e| e.to_string());
    assert_eq!(check(&made.cert_pem, &ours.cert_pem), Ok(()));
    assert!(check(&made.cert_pem, &same_name.cert_pem).unwrap_err().contains("another key"));
    assert!(check(&made.cert_pem, &other_name.cert_pem).unwrap_err().contains("another name"));
    assert!(check(&ours.cert_pem, &made.cert_pem).unwrap_err().contains("not a CA"));
    // One flipped bit at the end of the DER, which is in the signature.
    let mut der = crate::pem::certificates(made.cert_pem.as_bytes()).unwrap().remove(0).to_vec();
    *der.last_mut().unwrap() ^= 1;
    let forged = crate::pem::encode("CERTIFICATE", &der);
    assert!(check(&forged, &ours.cert_pem).unwrap_err().contains("signature"));
}

#[test]
fn senseless_specs_are_refused_before_a_key_is_made() {
    type Change = fn(&mut crate::CertSpec);
    let server = || spec("server", Usage::Server);
    let cases: &[(&str, Change)] = &[
        ("common name is empty", |s| s.common_name = " ".into()),
        ("organization is empty", |s| s.organizations = vec![String::new()]),
        ("more than two organizations", |s| s.organizations = vec!["a".into(), "b".into(), "c".into()]),
        ("not a DNS name", |s| s.dns_names = vec!["under score.example".into()]),
        ("not a DNS name", |s| s.dns_names = vec!["trailing.dot.".into()]),
        ("not a DNS name", |s| s.dns_names = vec!["münchen.example".into()]),
        ("not a DNS name", |s| s.dns_names = vec!["a.*.example".into()]),
        ("not a DNS name", |s| s.dns_names = vec!["https://host:6443".into()]),
        ("needs a DNS name", |s| (s.dns_names, s.ip_addresses) = (vec![], vec![])),
        ("shorter than a second", |s| s.lifetime = SignedDuration::ZERO),
        ("after the year 9999", |s| s.lifetime = DAY * 365 * 9000),
        ("no intermediate", |s| (s.usage, s.dns_names, s.ip_addresses) = (Usage::Ca, vec![], vec![])),
        ("common name of its CA", |s| s.common_name = "kubernetes-ca-1".into()),
    ];
    let ca = ca();
    for (expected, change) in cases {
        let mut spec = server();
        change(&mut spec);
        let error = issue(&spec, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), now()).unwrap_err();
        assert!(matches!(error, PkiError::Spec { .. }) && error.to_string().contains(expected), "{error}");
    }
    assert!(matches!(issue_ca(&server(), now()), Err(PkiError::Spec { .. })));
    let mut named_ca = spec("ca", Usage::Ca);
    named_ca.dns_names = vec!["ca.example".into()];
    assert!(matches!(issue_ca(&named_ca, now()), Err(PkiError::Spec { .. })));
}

#[test]
fn a_key_of_another_certificate_is_a_mismatch() {
    let ca = ca();
    let (one, two) = (leaf(&spec("one", Usage::Client), &ca), leaf(&spec("two", Usage::Client), &ca));
    let error = inspect_pair(one.cert_pem.as_bytes(), two.key_pem.expose_bytes()).unwrap_err();
    assert_eq!(error, PkiError::KeyMismatch { other_half: "the certificate CN=one".into() });
}
