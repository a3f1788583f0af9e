//! What the explorations of decisions share.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Of all worlds, those from which a good end is reached by going on. Backwards from all good ends: who is left over never gets there by
/// itself.
pub(crate) fn that_end<W: Copy + Eq + Hash>(
    known: &HashSet<W>,
    goes_on: impl Fn(&W) -> Vec<W>,
    ends: impl Fn(&W) -> bool,
) -> HashSet<W> {
    let mut before: HashMap<W, Vec<W>> = HashMap::new();
    for world in known {
        for next in goes_on(world) {
            before.entry(next).or_default().push(*world);
        }
    }
    let mut good: HashSet<W> = known.iter().filter(|world| ends(world)).copied().collect();
    let mut left: Vec<W> = good.iter().copied().collect();
    while let Some(world) = left.pop() {
        let sources = before.get(&world).into_iter().flatten();
        left.extend(sources.copied().filter(|source| good.insert(*source)));
    }
    good
}
