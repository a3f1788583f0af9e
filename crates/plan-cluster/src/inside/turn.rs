//! What is asked next inside a tenant that is well.

use berth_render::{Listing, TenantSet};
use jiff::Timestamp;

/// A question inside a tenant that is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// What Berth keeps there.
    Listing(Listing),
    /// The nodes.
    Nodes,
    /// Who leads.
    Leases,
}

impl Turn {
    /// One a minute. Every second minute who leads: a tenant whose controllers stand still is to be told of soon. All others in turn, so that
    /// drift of each is found within half an hour.
    pub fn at(now: Timestamp) -> Self {
        let minute = usize::try_from(now.as_second() / 60).unwrap_or_default();
        if minute.is_multiple_of(2) {
            return Self::Leases;
        }
        let turn = minute / 2 % (TenantSet::LISTINGS.len() + 1);
        TenantSet::LISTINGS.get(turn).map_or(Self::Nodes, |listing| Self::Listing(*listing))
    }
}
