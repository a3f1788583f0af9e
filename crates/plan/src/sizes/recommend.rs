//! Which size usage comes to.

use super::amount::{Size, whole_mib};
use super::history::History;
use jiff::Timestamp;

/// Between what a size may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least; the steps begin here.
    pub min: Size,
    /// At most. Never above the container's limit.
    pub max: Size,
}

/// The next size of a part that has `now` this one: more once a minute has used more of it than there is room for, less once six hours have not.
/// `may_shrink`: it may become less now.
pub fn recommend(size: Size, history: &History, bounds: Bounds, now: Timestamp, may_shrink: bool) -> Size {
    let up = history.sustained();
    let down = history.peak(now).filter(|_| may_shrink);
    let Bounds { min, max } = bounds;
    let one = |of: fn(Size) -> i64, round: fn(i64) -> i64| {
        let (size, least, most) = (of(size), of(min), of(max));
        let fits = |used: Size| at_least(with_room(of(used)), least, most, round);
        let grown = up.filter(|used| with_room(of(*used)) > size).map(fits).filter(|grown| *grown > size);
        let shrunk = down.map(fits).filter(|shrunk| *shrunk < size);
        let next = grown.or(shrunk).unwrap_or(size).max(least);
        // What the bounds take away, usage would not give back.
        if may_shrink { next.min(most) } else { next.min(most.max(size)) }
    };
    Size { cpu: one(|size| size.cpu, |cpu| cpu), memory: one(|size| size.memory, whole_mib) }
}

/// A fifth more than was used.
pub(super) fn with_room(used: i64) -> i64 {
    used.saturating_add(used / 5)
}

/// The first step from `least` that is enough: each is half more than the one before.
fn at_least(wanted: i64, least: i64, most: i64, round: fn(i64) -> i64) -> i64 {
    let mut step = least.max(1);
    while step < wanted && step < most {
        step = round(step.saturating_add((step + 1) / 2));
    }
    step.min(most)
}
