//! When a certificate is renewed.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::{DAY, MINUTE, ca, info, leaf, now, spec};
use crate::{Lifetime, Usage, renew_at};

#[test]
fn the_jitter_is_bounded_spread_and_the_same_every_time() {
    let found = info(&leaf(&spec("leaf", Usage::Client), &ca()));
    let (earliest, latest) = (found.issued_at() + DAY * 57, found.issued_at() + DAY * 63);
    let points: Vec<_> = (0..2000).map(|n| renew_at(&found, Lifetime::LEAF_90D, &format!("uid-{n}"))).collect();
    assert!(points.iter().all(|at| (earliest..=latest).contains(at)));
    let distinct: BTreeSet<_> = points.iter().collect();
    assert!(distinct.len() > 800, "only {} different points", distinct.len());
    let (first, last) = (points.iter().min().unwrap(), points.iter().max().unwrap());
    assert!(last.duration_since(*first) > DAY * 5, "spread over nearly the whole window");
    assert_eq!(points[7], renew_at(&found, Lifetime::LEAF_90D, "uid-7"));
}

#[test]
fn lifetimes_of_minutes_work_since_the_backdate_does_not_count() {
    let mut spec = spec("leaf", Usage::Client);
    spec.lifetime = Lifetime::leaf(MINUTE * 3);
    let found = info(&leaf(&spec, &ca()));
    let point = renew_at(&found, spec.lifetime, "uid").duration_since(found.issued_at());
    assert!((114..=126).contains(&point.as_secs()), "{point}");
}

#[test]
fn never_after_the_end() {
    let mut spec = spec("leaf", Usage::Client);
    spec.lifetime = Lifetime { total: MINUTE * 100, renew_after: (1, 1) };
    let found = info(&leaf(&spec, &ca()));
    for n in 0..100 {
        let at = renew_at(&found, spec.lifetime, &format!("{n}"));
        assert!(at <= found.not_after && at >= found.issued_at() + MINUTE * 95);
    }
}

#[test]
fn the_longest_lives_do_not_overflow() {
    let mut found = info(&ca());
    found.not_after = jiff::Timestamp::MAX;
    let lifetime = Lifetime { total: SignedDuration::MAX, renew_after: (u32::MAX - 1, u32::MAX) };
    assert!(renew_at(&found, lifetime, "uid") > now());
}
