//! How much may come in a second.

use governor::Quota;
use std::num::NonZeroU32;

/// So many a second, and for a moment twice as many.
pub fn quota(rate: NonZeroU32) -> Quota {
    Quota::per_second(rate).allow_burst(rate.saturating_mul(const { NonZeroU32::new(2).unwrap() }))
}
