//! How much comes from one place, whichever tenants it is for.

use berth_edge::rate::{place, quota};
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::ended::Ended;

/// So many connections apart, places that have been quiet are forgotten.
const SWEEP: u32 = 1024;

/// What one place may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// Connections that are open. None: as many as they like.
    pub(crate) open: Option<NonZeroU32>,
    /// Connections that have not said whom they want.
    pub(crate) opening: NonZeroU32,
    /// New connections a second; for a moment twice as many. None: as many as they like.
    pub(crate) rate: Option<NonZeroU32>,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Sources {
    most: Most,
    held: Mutex<HashMap<IpAddr, Count>>,
    rate: Option<DefaultKeyedRateLimiter<IpAddr>>,
    turn: AtomicU32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    open: u32,
    opening: u32,
}

/// A connection counts as one of its place until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    sources: Arc<Sources>,
    place: IpAddr,
    is_opening: bool,
}

impl Sources {
    pub(crate) fn new(most: Most) -> Arc<Self> {
        let rate = most.rate.map(|rate| RateLimiter::keyed(quota(rate)));
        Arc::new(Self { most, held: Mutex::default(), rate, turn: AtomicU32::default() })
    }

    /// Counts a connection that has just come from there.
    pub(crate) fn hold(self: &Arc<Self>, client: IpAddr) -> Result<Held, Ended> {
        let place = place(client);
        if let Some(rate) = &self.rate {
            if self.turn.fetch_add(1, Relaxed).is_multiple_of(SWEEP) {
                rate.retain_recent();
                rate.shrink_to_fit();
            }
            rate.check_key(&place).map_err(|_| Ended::TooFastFromSource)?;
        }
        let mut held = self.held.lock();
        let count = held.entry(place).or_default();
        if count.opening >= self.most.opening.get() || self.most.open.is_some_and(|most| count.open >= most.get()) {
            return Err(Ended::TooManyFromSource);
        }
        count.open += 1;
        count.opening += 1;
        drop(held);
        Ok(Held { sources: self.clone(), place, is_opening: true })
    }
}

impl Held {
    /// It has said whom it wants.
    pub(crate) fn is_open(&mut self) {
        if std::mem::take(&mut self.is_opening)
            && let Some(count) = self.sources.held.lock().get_mut(&self.place)
        {
            count.opening -= 1;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.is_open();
        let mut held = self.sources.held.lock();
        if let Some(count) = held.get_mut(&self.place) {
            count.open -= 1;
            if count.open == 0 {
                held.remove(&self.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(open: u32, opening: u32, rate: u32) -> Arc<Sources> {
        let opening = NonZeroU32::new(opening).unwrap();
        Sources::new(Most { open: NonZeroU32::new(open), opening, rate: NonZeroU32::new(rate) })
    }

    fn hold(sources: &Arc<Sources>, from: &str) -> Result<Held, Ended> {
        sources.hold(from.parse().unwrap())
    }

    #[test]
    fn one_place_takes_no_more_than_its_own() {
        let sources = most(3, 2, 0);
        let (mut first, second) = (hold(&sources, "192.0.2.1").unwrap(), hold(&sources, "::ffff:192.0.2.1").unwrap());
        assert_eq!(hold(&sources, "192.0.2.1").unwrap_err(), Ended::TooManyFromSource, "two have said nothing");
        let _other = hold(&sources, "192.0.2.2").unwrap();
        first.is_open();
        first.is_open();
        let mut third = hold(&sources, "192.0.2.1").unwrap();
        third.is_open();
        assert_eq!(hold(&sources, "192.0.2.1").unwrap_err(), Ended::TooManyFromSource, "three are open");
        drop((first, second, third));
        assert_eq!(sources.held.lock().len(), 1, "who is gone is forgotten");
        let _again = hold(&sources, "192.0.2.1").unwrap();
    }

    #[test]
    fn a_place_with_ipv6_is_a_network() {
        let sources = most(1, 1, 0);
        let _first = hold(&sources, "2001:db8::1").unwrap();
        assert_eq!(hold(&sources, "2001:db8::ffff:0:0:1").unwrap_err(), Ended::TooManyFromSource);
        let _second = hold(&sources, "2001:db8:0:1::1").unwrap();
    }

    #[test]
    fn who_comes_too_fast_is_alone_with_it() {
        let sources = most(0, 1, 2);
        for _ in 0..4 {
            drop(hold(&sources, "192.0.2.1").unwrap());
        }
        assert_eq!(hold(&sources, "192.0.2.1").unwrap_err(), Ended::TooFastFromSource);
        drop(hold(&sources, "192.0.2.2").unwrap());
    }
}
