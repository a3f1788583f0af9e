//! Two clocks, one of which is wrong.

use super::{DAY, now, root, spec};
use crate::{Clocks, Decision, KeyPairPem, Usage, decide, inspect, issue, issue_ca};
use jiff::SignedDuration;

fn ca() -> KeyPairPem {
    issue_ca(&spec("kubernetes-ca", Usage::Ca), now() - DAY * 365).unwrap()
}

#[test]
fn what_is_issued_is_valid_by_both_and_not_due_at_once() {
    let (ca, leaf) = (ca(), spec("leaf", Usage::Client));
    let issuer = root(&ca);
    for days in [-30, -1, 0, 1, 30] {
        let clocks = Clocks::new(now(), DAY * days);
        let pair = issue(&leaf, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), clocks).unwrap();
        let info = inspect(pair.cert_pem.as_bytes()).unwrap();
        let by = |time: jiff::Timestamp| info.not_before < time && time + DAY * 45 < info.not_after;
        assert!(by(now()) && by(now() + DAY * days), "{days}: {info:?}");
        let decision = decide(&leaf, Some(Ok(&info)), &issuer, now(), "seed");
        assert!(matches!(decision, Decision::Keep { renew_at } if renew_at > now() + DAY * 20), "{days}: {decision:?}");
    }
}

#[test]
fn clocks_that_are_far_apart_make_no_certificate_that_never_ends() {
    let (ca, leaf) = (ca(), spec("leaf", Usage::Client));
    for days in [-36_500, 36_500] {
        let clocks = Clocks::new(now(), DAY * days);
        let pair = issue(&leaf, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), clocks).unwrap();
        let info = inspect(pair.cert_pem.as_bytes()).unwrap();
        assert!(info.not_after <= now() + DAY * 120 && info.not_before >= now() - DAY * 31, "{days}: {info:?}");
    }
}

#[test]
fn what_is_kept_in_memory_is_valid_by_both_however_far_they_are_apart() {
    let ca = ca();
    for days in [-100, 100] {
        let clocks = Clocks::new(now(), DAY * days);
        let lifetime = clocks.covered(SignedDuration::from_hours(1));
        let leaf = crate::CertSpec { lifetime, ..spec("operator", Usage::Client) };
        let pair = issue(&leaf, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), clocks).unwrap();
        let info = inspect(pair.cert_pem.as_bytes()).unwrap();
        for time in [now(), now() + DAY * days] {
            assert!(info.not_before < time && time < info.not_after, "{days}: {info:?}");
        }
    }
}

#[test]
fn a_clock_from_before_the_ca_renews_nothing_and_the_other_one_issues() {
    let (ca, leaf) = (ca(), spec("leaf", Usage::Client));
    let issuer = root(&ca);
    let issued = |clocks: Clocks| issue(&leaf, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), clocks);
    let began = issuer.current.not_before;
    let info = inspect(issued((began + DAY).into()).unwrap().cert_pem.as_bytes()).unwrap();
    let before = began - DAY;
    assert!(matches!(decide(&leaf, Some(Ok(&info)), &issuer, before, "seed"), Decision::Keep { .. }));
    assert!(matches!(decide(&leaf, Some(Ok(&info)), &issuer, began, "seed"), Decision::Renew { .. }));
    assert!(issued(before.into()).is_err());
    assert!(issued(Clocks::new(before, DAY * 2)).is_ok());
}
