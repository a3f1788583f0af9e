//! A CA is made once, and judged, but never replaced.

use super::{DAY, MINUTE, ca, info, now, root, spec};
use crate::{Decision, RenewReason, Usage, ca_expiry_warning, decide_ca, inspect, issue_ca};

#[test]
fn only_a_missing_ca_is_made() {
    let found = root(&ca());
    let renew_at = found.current.not_after;
    assert_eq!(decide_ca(None, now()), Decision::Issue);
    for age in [0, 1, 60, 3000, 3649] {
        assert_eq!(decide_ca(Some(Ok(&found)), now() + DAY * age), Decision::Keep { renew_at }, "{age} days");
    }

    let garbled = inspect(b"").unwrap_err();
    let held = |found, at| match decide_ca(Some(found), at) {
        Decision::Hold { why } => why,
        other => panic!("{other:?}"),
    };
    assert!(matches!(held(Err(&garbled), now()), RenewReason::Garbled { .. }));
    assert!(matches!(held(Ok(&found), now() - MINUTE * 6), RenewReason::NotYetValid { .. }));
    assert!(matches!(held(Ok(&found), now() + DAY * 3650), RenewReason::Age { .. }));
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
