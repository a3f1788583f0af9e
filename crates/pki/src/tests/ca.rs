//! A CA is made once, and judged, but never replaced.

use super::{DAY, MINUTE, ca, info, leaf, now, spec};
use crate::{Decision, PkiError, RenewReason, Usage, ca_expiry_warning, decide, decide_ca, inspect, issue_ca};

#[test]
fn only_a_missing_ca_is_made() {
    let pair = ca();
    let found = info(&pair);
    let renew_at = found.not_after;
    assert_eq!(decide_ca(None, now()), Decision::Issue);
    for age in [0, 1, 60, 3000, 3649] {
        assert_eq!(decide_ca(Some(Ok(&found)), now() + DAY * age), Decision::Keep { renew_at }, "{age} days");
    }

    let garbled = inspect(b"").unwrap_err();
    let mismatch = PkiError::KeyMismatch { subject: "CN=kubernetes-ca-1".into() };
    let leaf = info(&leaf(&spec("leaf", Usage::Client), &pair));
    let held = |found, at| match decide_ca(Some(found), at) {
        Decision::Hold { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(held(Err(&mismatch), now()), RenewReason::KeyMismatch);
    assert!(matches!(held(Err(&garbled), now()), RenewReason::Garbled { .. }));
    assert!(matches!(held(Ok(&leaf), now()), RenewReason::UsageChanged { .. }));
    assert!(matches!(held(Ok(&found), now() - MINUTE * 6), RenewReason::NotYetValid { .. }));
    assert!(matches!(held(Ok(&found), now() + DAY * 3650), RenewReason::Age { .. }));
}

#[test]
fn decide_hands_a_ca_over_whatever_its_spec_says() {
    let found = info(&ca());
    let other_spec = spec("another-name", Usage::Ca);
    let keep = Decision::Keep { renew_at: found.not_after };
    assert_eq!(decide(&other_spec, Some(Ok(&found)), &found, now(), "uid"), keep);
    let error = inspect(b"").unwrap_err();
    assert!(matches!(decide(&other_spec, Some(Err(&error)), &found, now(), "uid"), Decision::Hold { .. }));
}

#[test]
fn its_end_is_announced_in_three_steps() {
    let found = info(&issue_ca(&spec("kubernetes-ca-1", Usage::Ca), now()).unwrap());
    let warning = |days| ca_expiry_warning(&found, now() + DAY * days);
    let plan = "CA CN=kubernetes-ca-1 expires at 2036-11-17T12:00:00Z, and Berth cannot rotate CAs yet: plan a new Cluster before that";
    let rotate = "CA CN=kubernetes-ca-1 expires at 2036-11-17T12:00:00Z, and Berth cannot rotate CAs yet: move to a new Cluster now";
    let expired = "CA CN=kubernetes-ca-1 expired at 2036-11-17T12:00:00Z; nothing it signed is accepted";
    let cases = [
        (0, None),
        (2730, None),
        (2740, Some(plan)),
        (3280, Some(plan)),
        (3290, Some(rotate)),
        (3649, Some(rotate)),
        (3651, Some(expired)),
    ];
    for (days, expected) in cases {
        assert_eq!(warning(days).as_deref(), expected, "day {days}");
    }
}
