//! Which API server a connection goes to.

/// What the choice is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// It is ready, and was not tried.
    pub(crate) is_fit: bool,
    /// Connections that are open to it through this gateway.
    pub(crate) open: usize,
}

/// Of those that are fit the one with the fewest connections; of several the next one from `turn` on. None: none is fit.
pub(crate) fn choose(all: &[Candidate], turn: usize) -> Option<usize> {
    let count = all.len().max(1);
    let fit = (0..all.len()).filter(|at| all[*at].is_fit);
    fit.min_by_key(|at| (all[*at].open, (at + count - turn % count) % count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(bool, usize)]) -> Vec<Candidate> {
        all.iter().map(|(is_fit, open)| Candidate { is_fit: *is_fit, open: *open }).collect()
    }

    #[test]
    fn the_fewest_connections_win_and_then_the_turn() {
        assert_eq!(choose(&[], 3), None);
        assert_eq!(choose(&of(&[(false, 0), (false, 0)]), 0), None);
        assert_eq!(choose(&of(&[(true, 5), (true, 2), (true, 3)]), 0), Some(1));
        assert_eq!(choose(&of(&[(true, 5), (false, 2), (true, 3)]), 0), Some(2));
        let equal = of(&[(true, 1), (true, 1), (true, 1)]);
        let turns: Vec<_> = (0..6).map(|turn| choose(&equal, turn)).collect();
        assert_eq!(turns, [Some(0), Some(1), Some(2), Some(0), Some(1), Some(2)]);
        let two = of(&[(true, 1), (false, 0), (true, 1)]);
        assert_eq!([0, 1, 2].map(|turn| choose(&two, turn)), [Some(0), Some(2), Some(2)]);
        assert_eq!(choose(&equal, usize::MAX), Some(usize::MAX % 3));
    }
}
