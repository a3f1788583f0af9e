//! The decision table.

use super::{DAY, MINUTE, ca, info, ip, leaf, now, root, spec};
use crate::{CertSpec, Decision, PkiError, RenewReason, Usage, decide, issue_ca};

const SEED: &str = "5c0f6d2e-5d0a-4c5b-8a55-4f7c0a9a3b11";

/// What changes between the certificate that was issued and the spec of today, and the words that must come out.
#[test]
fn every_difference_is_named() {
    type Change = fn(&mut CertSpec);
    let cases: &[(&str, Change, &str)] = &[
        ("nothing", |_| {}, "keep"),
        ("order and case", |s| s.dns_names = vec!["Kubernetes.Default".into(), "acme.k8s.example.com".into()], "keep"),
        ("duplicates", |s| s.ip_addresses.push(ip("172.20.0.10")), "keep"),
        ("an address as a name", |s| s.dns_names.push("fd00::a".into()), "keep"),
        ("a longer life", |s| s.lifetime = DAY * 365, "keep"),
        ("a shorter life, not yet due", |s| s.lifetime = DAY * 3, "keep"),
        ("a shorter life, due", |s| s.lifetime = DAY, "with its new lifetime it was due at"),
        ("another name", |s| s.dns_names.push("new.example".into()), "it lacks new.example"),
        ("another address", |s| s.ip_addresses.push(ip("10.0.0.1")), "it lacks 10.0.0.1"),
        ("one name less", |s| _ = s.dns_names.pop(), "it should not have kubernetes.default"),
        (
            "one address for another",
            |s| s.ip_addresses = vec![ip("fd00::b"), ip("fd00::a")],
            "it lacks fd00::b; it should not have 172.20.0.10",
        ),
        (
            "another user",
            |s| s.common_name = "other".into(),
            "its subject is O=group, CN=leaf, and should be O=group, CN=other",
        ),
        ("no group", |s| s.organizations.clear(), "its subject is O=group, CN=leaf, and should be CN=leaf"),
        ("client too", |s| s.usage = Usage::Peer, "it is for serverAuth, and should be for clientAuth+serverAuth"),
        ("client only", |s| s.usage = Usage::Client, "it is for serverAuth, and should be for clientAuth"),
    ];
    let ca = ca();
    let mut issued = spec("leaf", Usage::Server);
    issued.organizations = vec!["group".into()];
    let found = info(&leaf(&issued, &ca));
    for (case, change, expected) in cases {
        let mut wanted = issued.clone();
        change(&mut wanted);
        match decide(&wanted, Some(Ok(&found)), &root(&ca), now() + DAY, SEED) {
            Decision::Keep { renew_at } => {
                assert_eq!(*expected, "keep", "{case}");
                assert!(renew_at > now() + DAY, "{case}");
            }
            Decision::Renew { why } => assert!(why.to_string().starts_with(expected), "{case}: {why}"),
            other => panic!("{case}: {other:?}"),
        }
    }
}

#[test]
fn age_is_a_point_in_time() {
    let (ca, spec) = (ca(), spec("leaf", Usage::Server));
    let found = info(&leaf(&spec, &ca));
    let at = |at| decide(&spec, Some(Ok(&found)), &root(&ca), at, SEED);
    let Decision::Keep { renew_at } = at(now()) else { panic!("new certificates are kept") };
    let due = Decision::Renew { why: RenewReason::Age { due: renew_at, not_after: found.not_after } };
    assert_eq!(at(renew_at - jiff::SignedDuration::from_nanos(1)), Decision::Keep { renew_at });
    assert_eq!(at(renew_at), due);
    assert_eq!(at(found.not_after + DAY * 400), due, "expired is due, with the same words");
}

#[test]
fn found_errors_are_reasons() {
    let (ca, spec) = (ca(), spec("leaf", Usage::Server));
    let reason = |error: &PkiError| match decide(&spec, Some(Err(error)), &root(&ca), now(), SEED) {
        Decision::Renew { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(decide(&spec, None, &root(&ca), now(), SEED), Decision::Issue);
    assert_eq!(reason(&PkiError::KeyMismatch { other_half: "CN=leaf".into() }), RenewReason::KeyMismatch);
    assert!(matches!(reason(&crate::inspect(b"").unwrap_err()), RenewReason::Garbled { .. }));
}

#[test]
fn a_new_ca_renews_its_leaves() {
    let (old, same_name) = (ca(), ca());
    let next = issue_ca(&spec("kubernetes-ca-2", Usage::Ca), now()).unwrap();
    let spec = spec("leaf", Usage::Server);
    let found = info(&leaf(&spec, &old));
    let words = |issuer: &crate::KeyPairPem| match decide(&spec, Some(Ok(&found)), &root(issuer), now(), SEED) {
        Decision::Renew { why } => why.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(words(&same_name), "it was issued by an earlier key of CN=kubernetes-ca-1");
    assert_eq!(words(&next), "it was issued by CN=kubernetes-ca-1, and should be by CN=kubernetes-ca-2");
}

#[test]
fn a_clock_that_was_ahead_does_not_break_anything_for_long() {
    let (ca, spec) = (ca(), spec("leaf", Usage::Server));
    let ahead = info(&super::issue_at(&spec, &ca, now() + MINUTE * 10));
    let at = |at| decide(&spec, Some(Ok(&ahead)), &root(&ca), at, SEED);
    let why = RenewReason::NotYetValid { not_before: ahead.not_before };
    assert_eq!(at(now()), Decision::Renew { why });
    assert!(matches!(at(now() + MINUTE * 6), Decision::Keep { .. }), "four minutes ahead is within the backdate");
}

#[test]
fn near_the_end_of_the_ca_there_is_no_renewal_loop() {
    let ca = ca();
    let root = root(&ca);
    let spec = spec("leaf", Usage::Server);
    let mut at = root.current.not_after - DAY * 100;
    let mut renewals = 0;
    let mut found = info(&super::issue_at(&spec, &ca, at));
    while at < root.current.not_after {
        match decide(&spec, Some(Ok(&found)), &root, at, SEED) {
            Decision::Keep { renew_at } => at = renew_at,
            Decision::Renew { why: RenewReason::Age { .. } } => {
                found = info(&super::issue_at(&spec, &ca, at));
                renewals += 1;
            }
            other => panic!("{other:?}"),
        }
        assert!(renewals < 3);
    }
    assert_eq!(renewals, 1, "once to the end of the CA");
    assert!(matches!(decide(&spec, Some(Ok(&found)), &root, at, SEED), Decision::Renew { .. }));
}

#[test]
fn decisions_can_be_printed_as_json() {
    let (ca, spec) = (ca(), spec("leaf", Usage::Server));
    let found = info(&leaf(&spec, &ca));
    let mut wanted = spec.clone();
    wanted.dns_names.push("new.example".into());
    let decision = decide(&wanted, Some(Ok(&found)), &root(&ca), now(), SEED);
    let json = serde_json::to_string(&decision).unwrap();
    assert_eq!(json, r#"{"Renew":{"why":{"SansChanged":{"missing":["new.example"],"extra":[]}}}}"#);
    let info = serde_json::to_value(&found).unwrap();
    assert_eq!(info["not_before"], "2026-11-20T11:55:00Z");
    assert_eq!(info["ip_addresses"][1], "fd00::a");
}
