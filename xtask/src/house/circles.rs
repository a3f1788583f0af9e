//! Strongly connected components of a graph of files.

use std::collections::BTreeSet;

/// The largest set of nodes of which each leads to each other, in order. Empty: there is no circle.
pub(super) fn largest(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut back = vec![BTreeSet::new(); edges.len()];
    for (from, tos) in edges.iter().enumerate() {
        for to in tos {
            back[*to].insert(from);
        }
    }
    let mut open: BTreeSet<usize> = (0..edges.len()).collect();
    let mut largest = vec![];
    while let Some(start) = open.first().copied() {
        let ahead = reachable(start, edges);
        let circle: Vec<usize> = reachable(start, &back).intersection(&ahead).copied().collect();
        for node in &circle {
            open.remove(node);
        }
        if circle.len() > 1 && circle.len() > largest.len() {
            largest = circle;
        }
    }
    largest
}

fn reachable(start: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let (mut seen, mut open) = (BTreeSet::from([start]), vec![start]);
    while let Some(node) = open.pop() {
        open.extend(edges[node].iter().copied().filter(|to| seen.insert(*to)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_circle_is_found_and_a_tree_has_none() {
        let graph = |edges: &[&[usize]]| edges.iter().map(|tos| tos.iter().copied().collect()).collect::<Vec<_>>();
        assert_eq!(largest(&graph(&[&[1, 2], &[2], &[]])), Vec::<usize>::new());
        assert_eq!(largest(&graph(&[&[1], &[0], &[3], &[4], &[2, 0]])), [2, 3, 4]);
    }
}
