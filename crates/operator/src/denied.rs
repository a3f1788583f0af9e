//! What the operator may not read of the meta cluster as a whole, so that no single reconcile fails for it: watches, and where nodes are. Every
//! tenant's status says it, since changes of any of them may be noticed late.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The API server may not know yet a right that was given a moment ago, as at an installation.
const LASTING: Duration = Duration::from_secs(10);

/// Whoever is refused asks again within five seconds: without that for so long, it was given back.
const OVER: Duration = Duration::from_secs(30);

/// Refusals, with when they began and were heard last.
#[derive(Debug, Default)]
pub(crate) struct Denied(Mutex<BTreeMap<String, (Instant, Instant)>>);

impl Denied {
    /// How the API server refused it.
    pub(crate) fn heard(&self, refusal: String, now: Instant) {
        self.with(now, |all| all.entry(refusal).or_insert((now, now)).1 = now);
    }

    /// Those that last.
    pub(crate) fn lasting(&self, now: Instant) -> Vec<String> {
        let lasts = |(began, last): &(Instant, Instant)| last.duration_since(*began) >= LASTING;
        self.with(now, |all| all.iter().filter(|(_, of)| lasts(of)).map(|(refusal, _)| refusal.clone()).collect())
    }

    fn with<T>(&self, now: Instant, f: impl FnOnce(&mut BTreeMap<String, (Instant, Instant)>) -> T) -> T {
        let mut all = self.0.lock();
        all.retain(|_, (_, last)| now.duration_since(*last) < OVER);
        f(&mut all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_reported_until_it_is_over() {
        let (denied, start) = (Denied::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 5] {
            denied.heard("nodes".into(), at(second));
            assert_eq!(denied.lasting(at(second)), [""; 0], "it may be on its way");
        }
        denied.heard("nodes".into(), at(10));
        denied.heard("pods".into(), at(10));
        assert_eq!(denied.lasting(at(39)), ["nodes"]);
        assert_eq!(denied.lasting(at(40)), [""; 0], "nobody was refused any more");
        denied.heard("nodes".into(), at(41));
        assert_eq!(denied.lasting(at(41)), [""; 0], "it begins anew");
    }
}
