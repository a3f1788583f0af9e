//! Connections whose other end has not shown who it is: so many at once. A new one is never refused: it takes the place of the oldest from where most
//! came, so who fills the places keeps themselves out, and nobody else.

use crate::rate::place;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct One {
    id: u64,
    source: IpAddr,
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct All {
    /// From the oldest.
    open: Vec<One>,
    next: u64,
}

/// The places.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    all: Arc<Mutex<All>>,
    most: usize,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    all: Arc<Mutex<All>>,
    id: u64,
    over: CancellationToken,
}

impl Opening {
    pub(super) fn new(most: usize) -> Self {
        Self { all: Arc::default(), most }
    }

    /// For who comes from there.
    pub(super) fn take(&self, client: IpAddr) -> Place {
        let (source, over) = (place(client), CancellationToken::new());
        let mut all = self.all.lock();
        if all.open.len() >= self.most
            && let Some(at) = oldest_of_most(&all.open)
        {
            all.open.remove(at).over.cancel();
        }
        let id = all.next;
        all.next += 1;
        all.open.push(One { id, source, over: over.clone() });
        Place { all: self.all.clone(), id, over }
    }
}

/// Of sources that have as many, the one that came first.
fn oldest_of_most(open: &[One]) -> Option<usize> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for one in open {
        *counts.entry(one.source).or_default() += 1;
    }
    let most = counts.values().max()?;
    open.iter().position(|one| counts.get(&one.source) == Some(most))
}

impl Place {
    /// Until somebody else has it.
    pub(super) async fn taken(&self) {
        self.over.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.lock().open.retain(|one| one.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_most_makes_room_for_others() {
        let places = Opening::new(4);
        let take = |client: &str| places.take(client.parse().unwrap());
        let is_taken = |place: &Place| place.over.is_cancelled();
        let operator = take("192.0.2.1");
        let flood: Vec<Place> = (0..9).map(|n| take(&format!("2001:db8::{n}"))).collect();
        assert!(!is_taken(&operator), "one network of IPv6 is one source");
        assert_eq!(flood.iter().map(is_taken).collect::<Vec<_>>(), [[true; 6].as_slice(), &[false; 3]].concat());
        let again = take("192.0.2.2");
        assert!(is_taken(&flood[6]) && !is_taken(&operator) && !is_taken(&again));
        drop(flood);
        let (_a, _b) = (take("192.0.2.3"), take("192.0.2.4"));
        assert!(!is_taken(&operator), "whoever is gone has no place");
        let _c = take("192.0.2.5");
        assert!(is_taken(&operator) && !is_taken(&again), "of as many from each the first");
        assert_eq!(places.all.lock().open.len(), 4);
    }
}
