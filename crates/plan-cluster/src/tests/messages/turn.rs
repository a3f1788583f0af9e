//! A change that waits for the fleet, or for its window: each begins with a tenant of two API servers at rest.

use super::super::turn::other;
use super::*;
use berth_plan::fleet::{Answer, TenantId};

const NEW: &str = "1.36.3";

fn asks(f: &mut Fixture, answer: Option<Answer>) {
    f.ordered(answer);
    f.version(NEW);
}

const CASES: &[Case] = &[
    ("another version, and nobody has looked at the fleet yet", |f| asks(f, None)),
    ("another version, while as many change as may", |f| {
        asks(f, Some(Answer::Full { most: 10, on: Some(other()) }));
    }),
    ("another version, while nobody may change", |f| asks(f, Some(Answer::Full { most: 0, on: None }))),
    ("another version, while a lower wave is not through", |f| {
        asks(f, Some(Answer::Wave { wave: 2, on: other() }));
    }),
    ("another version, a while after lower waves were through", |f| {
        let until = f.world.now.saturating_add(SignedDuration::from_mins(30)).unwrap();
        asks(f, Some(Answer::Soak { until }));
    }),
    ("another version, from which too many came back", |f| {
        let back = (0..12).map(|n| called(&format!("shop-{n}"))).collect();
        asks(f, Some(Answer::Stopped { version: NEW.into(), back, only: None, most: 2 }));
    }),
    ("another version, from which too many of this namespace came back", |f| {
        let back = (0..3).map(|n| called(&format!("shop-{n}"))).collect();
        asks(f, Some(Answer::Stopped { version: NEW.into(), back, only: Some(other().namespace), most: 2 }));
    }),
    ("another version, outside of the window", |f| {
        f.window("03:00", "Europe/Berlin");
        f.version(NEW);
    }),
    ("another flag, outside of the window", |f| {
        f.window("03:00", "UTC");
        f.flag("v");
    }),
    ("a window in an unknown time zone", |f| f.window("03:00", "Mars/Base")),
];

fn called(name: &str) -> TenantId {
    TenantId { name: name.into(), ..other() }
}

pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let up = Fixture::two_of_each();
    let mut cases: Vec<(&'static str, Fixture)> = CASES
        .iter()
        .map(|(text, happens)| {
            let mut f = up.copy();
            happens(&mut f);
            f.reconcile();
            (*text, f)
        })
        .collect();
    let mut second = Fixture::up_for_upgrade(json!({"version": "1.35.4"}));
    second.version(NEW);
    second.rest();
    second.ordered(None);
    second.later(11);
    second.reconcile();
    cases.push(("the second step of a minor is due, and has no turn", second));
    cases
}
