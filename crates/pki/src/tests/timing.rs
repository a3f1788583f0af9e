//! When a certificate is renewed.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::{DAY, MINUTE, ca, info, leaf, spec};
use crate::{LEAF_LIFETIME, Usage, renew_at};

#[test]
fn the_jitter_is_bounded_spread_and_the_same_every_time() {
    let found = info(&leaf(&spec("leaf", Usage::Client), &ca()));
    let (earliest, latest) = (found.issued_at() + DAY * 57, found.issued_at() + DAY * 63);
    let points: Vec<_> = (0..2000).map(|n| renew_at(&found, LEAF_LIFETIME, &format!("uid-{n}"))).collect();
    assert!(points.iter().all(|at| (earliest..=latest).contains(at)));
    let distinct: BTreeSet<_> = points.iter().collect();
    assert!(distinct.len() > 800, "only {} different points", distinct.len());
    let (first, last) = (points.iter().min().unwrap(), points.iter().max().unwrap());
    assert!(last.duration_since(*first) > DAY * 5, "spread over nearly the whole window");
    assert_eq!(points[7], renew_at(&found, LEAF_LIFETIME, "uid-7"));
}

#[test]
fn lifetimes_of_minutes_work_since_the_backdate_does_not_count() {
    let mut spec = spec("leaf", Usage::Client);
    spec.lifetime = MINUTE * 3;
    let found = info(&leaf(&spec, &ca()));
    let point = renew_at(&found, spec.lifetime, "uid").duration_since(found.issued_at());
    assert!((114..=126).contains(&point.as_secs()), "{point}");
}

#[test]
fn never_after_the_end() {
    let mut found = info(&leaf(&spec("leaf", Usage::Client), &ca()));
    found.not_after = found.not_before + MINUTE;
    assert_eq!(renew_at(&found, LEAF_LIFETIME, "uid"), found.not_after);
}

#[test]
fn the_longest_lives_do_not_overflow() {
    let mut found = info(&ca());
    found.not_after = jiff::Timestamp::MAX;
    found.not_before = jiff::Timestamp::MIN;
    let half = jiff::Timestamp::MIN + jiff::Timestamp::MAX.duration_since(jiff::Timestamp::MIN) / 2;
    assert!(renew_at(&found, SignedDuration::MAX, "uid") > half);
}
