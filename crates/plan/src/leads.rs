//! Leases of a tenant's, by which the programs of its control plane agree on who of them works, as several looks saw them.
//!
//! A lease that is renewed was written: by its holder, through admission of that kind, into etcd. Whoever renews it is at work; that its
//! work is done well is not proven.
//!
//! Nobody's clock is trusted alone. What was renewed between two looks is renewed. What was not, for as long as holders have, is not,
//! whatever time it bears; that time only calls for a second look.

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// What Berth's templates set, in seconds: `--leader-elect-lease-duration`.
const DURATION: i64 = 20;

/// Who says more is not waited for.
const LONGEST: i64 = 300;

/// A lease as one look found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// When its holder renewed it, by the holder's clock. None: it is not there, or was never renewed.
    pub renewed: Option<Timestamp>,
    /// How long it is the holder's without being renewed, in seconds, if it says so.
    pub duration: Option<i64>,
}

impl Lease {
    /// How long it is the holder's without being renewed.
    pub fn lasts(self) -> SignedDuration {
        SignedDuration::from_secs(self.duration.unwrap_or(DURATION).clamp(1, LONGEST))
    }

    /// After so long without a change it is not renewed: another one would have it by now.
    pub fn patience(self) -> SignedDuration {
        self.lasts() * 2
    }
}

/// Leases by name.
pub type Leases = BTreeMap<String, Lease>;

/// What is known of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// Somebody renews it.
    Renewed,
    /// One more look is needed.
    Unclear,
    /// Nobody renews it. When it was renewed last, by its holder's clock.
    Lost(Option<Timestamp>),
}

/// A lease over several looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    lease: Lease,
    /// When a look found that time of renewal first.
    since: Timestamp,
    /// How far the holder's clock is behind, as far as that is known.
    behind: SignedDuration,
}

impl Seen {
    fn of(lease: Lease, now: Timestamp) -> Self {
        Self { lease, since: now, behind: SignedDuration::ZERO }
    }

    fn age(&self, now: Timestamp) -> Option<SignedDuration> {
        self.lease.renewed.map(|renewed| now.duration_since(renewed))
    }

    fn after(self, lease: Lease, now: Timestamp) -> Self {
        if lease.renewed.is_none() || lease.renewed == self.lease.renewed {
            // A clock that was set back is no age.
            return Self { lease, since: self.since.min(now), ..self };
        }
        let new = Self { lease, since: now, ..self };
        // Only of looks that are close it is known that it was renewed just now.
        let close = now.duration_since(self.since) <= lease.patience() * 2;
        Self { behind: new.age(now).filter(|_| close).unwrap_or(self.behind), ..new }
    }

    fn judge(&self, at: Timestamp) -> Lead {
        if at.duration_since(self.since) >= self.lease.patience() {
            return Lead::Lost(self.lease.renewed);
        }
        match self.age(at) {
            Some(age) if age - self.behind <= self.lease.patience() => Lead::Renewed,
            _ => Lead::Unclear,
        }
    }
}

/// All leases of a tenant that matter, over several looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// When they were looked at last.
    pub at: Timestamp,
    all: BTreeMap<String, Seen>,
}

impl Leads {
    /// After one more look at these. `before`: what was known.
    pub fn after(before: Option<&Self>, names: &[String], read: &Leases, now: Timestamp) -> Self {
        let one = |name: &String| {
            let lease = read.get(name).copied().unwrap_or_default();
            let seen = before.and_then(|before| before.all.get(name));
            (name.clone(), seen.map_or_else(|| Seen::of(lease, now), |seen| seen.after(lease, now)))
        };
        Self { at: now, all: names.iter().map(one).collect() }
    }

    /// What the last look says of one. None: it was not looked at.
    pub fn get(&self, name: &str) -> Option<Lead> {
        self.all.get(name).map(|seen| seen.judge(self.at))
    }

    /// Whether somebody renews each of these.
    pub fn are_renewed(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.get(name) == Some(Lead::Renewed))
    }

    /// How long one may be unclear.
    pub fn patience(&self, name: &str) -> SignedDuration {
        self.all.get(name).map_or_else(Lease::default, |seen| seen.lease).patience()
    }

    /// How long it is another's after its holder is gone.
    pub fn lasts(&self, name: &str) -> SignedDuration {
        self.all.get(name).map_or_else(Lease::default, |seen| seen.lease).lasts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at one lease: (second of the look, second of the renewal).
    fn last(looks: &[(i64, Option<i64>)]) -> Lead {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let names = ["a".to_owned()];
        let look = |before: Option<Leads>, (now, renewed): &(i64, Option<i64>)| {
            let lease = Lease { renewed: renewed.map(at), duration: None };
            Some(Leads::after(before.as_ref(), &names, &BTreeMap::from([("a".to_owned(), lease)]), at(*now)))
        };
        let leads = looks.iter().fold(None, look).unwrap();
        leads.get("a").unwrap()
    }

    #[test]
    fn what_changes_between_looks_is_renewed_and_what_does_not_is_lost() {
        let lost = |second: i64| Lead::Lost(Some(Timestamp::from_second(1_800_000_000 + second).unwrap()));
        for (looks, wanted) in [
            // The first look has nothing but the clocks.
            (&[(0, Some(-3))][..], Lead::Renewed),
            (&[(0, Some(-41))], Lead::Unclear),
            (&[(0, None)], Lead::Unclear),
            // At rest, every two minutes.
            (&[(0, Some(-3)), (120, Some(117)), (240, Some(238))], Lead::Renewed),
            (&[(0, Some(-3)), (120, Some(-3))], lost(-3)),
            // It was lost soon after the first look: the time that it bears calls for another look, which decides.
            (&[(0, Some(-3)), (120, Some(2))], Lead::Unclear),
            (&[(0, Some(-3)), (120, Some(2)), (159, Some(2))], Lead::Unclear),
            (&[(0, Some(-3)), (120, Some(2)), (160, Some(2))], lost(2)),
            // Looks that come quickly one after the other.
            (&[(0, Some(-3)), (2, Some(-3)), (39, Some(-3))], Lead::Unclear),
            (&[(0, Some(-3)), (2, Some(-3)), (30, Some(-3))], Lead::Renewed),
            // A clock that is an hour behind, or ahead, is known after two looks.
            (&[(0, Some(-3600))], Lead::Unclear),
            (&[(0, Some(-3600)), (40, Some(-3560))], Lead::Renewed),
            (&[(0, Some(-3600)), (40, Some(-3560)), (160, Some(-3440))], Lead::Renewed),
            (&[(0, Some(-3600)), (40, Some(-3560)), (160, Some(-3559))], Lead::Unclear),
            (&[(0, Some(3600)), (120, Some(3720))], Lead::Renewed),
            (&[(0, Some(3600)), (120, Some(3600))], lost(3600)),
            // One that is gone, and one that never was.
            (&[(0, None), (40, None)], Lead::Lost(None)),
            (&[(0, Some(-3)), (30, None)], Lead::Unclear),
            (&[(0, Some(-3)), (40, None)], Lead::Lost(None)),
            // It comes back.
            (&[(0, Some(-3)), (120, Some(-3)), (180, Some(178))], Lead::Renewed),
            (&[(0, None), (40, None), (45, Some(44))], Lead::Renewed),
            // The operator's clock is set back.
            (&[(0, Some(-3)), (-3600, Some(-3601))], Lead::Renewed),
            (&[(0, Some(-3)), (-3600, Some(-3))], Lead::Renewed),
        ] {
            assert_eq!(last(looks), wanted, "{looks:?}");
        }
    }

    #[test]
    fn what_a_lease_says_of_its_duration_is_believed_within_bounds() {
        let patience = |duration| Lease { duration, renewed: None }.patience().as_secs();
        let said = [None, Some(15), Some(0), Some(-5), Some(i64::MIN), Some(i64::MAX)].map(patience);
        assert_eq!(said, [40, 30, 2, 2, 2, 600]);
    }
}
