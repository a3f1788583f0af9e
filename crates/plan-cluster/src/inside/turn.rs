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
}

impl Turn {
    /// All in turn, one a minute: drift of each is found.
    pub fn at(now: Timestamp) -> Self {
        let minute = usize::try_from(now.as_second() / 60).unwrap_or_default();
        let turn = minute % (TenantSet::LISTINGS.len() + 1);
        TenantSet::LISTINGS.get(turn).map_or(Self::Nodes, |listing| Self::Listing(*listing))
    }
}
