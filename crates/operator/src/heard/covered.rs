//! From when on all use is known. A pod of the gateway knows what it carried since it began, and tells it; what it carried and did not tell before it
//! ended nobody knows, so from then on it counts anew. A pure table; whoever tells it something brings the time.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Ages are told in whole seconds, and lines take their time. One that began later than that is another process, of the same pod.
const ANOTHER: SignedDuration = SignedDuration::from_secs(5);

/// Pods of the gateway that run, by name, and whether a container of theirs was started again: what ended in it told nothing.
pub(crate) type Pods = BTreeMap<String, bool>;

#[derive(Debug, Default)]
pub(super) struct Covered {
    /// When the youngest began of those that ran when each of them had told what it knows. None: that was not yet.
    first: Option<Timestamp>,
    /// When the last one ended, or was over at the latest, of which nobody knows all that it carried.
    gap: Option<Timestamp>,
    /// Pods that have told what they know.
    told: BTreeMap<String, Told>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    /// When the process began.
    since: Timestamp,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is listened to.
    Heard,
    /// Its connection is lost. It may go on.
    Silent,
    /// It has let all connections go, and has told of them.
    Over,
}

impl Covered {
    /// From then on all use is known. None: not yet.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.first.map(|first| first.max(self.gap.unwrap_or(first)))
    }

    /// These run. `before`: those that did.
    pub(super) fn runs(&mut self, before: &Pods, pods: &Pods, now: Timestamp) {
        let all: BTreeSet<_> = before.keys().chain(self.told.keys()).cloned().collect();
        for pod in all.iter().filter(|pod| !pods.contains_key(*pod)) {
            self.ends(pod, now);
        }
        // Of what ended in it before this process began nobody heard.
        let again = pods.iter().filter(|(_, again)| **again).filter_map(|(pod, _)| Some(self.told.get(pod)?.since));
        self.gap = again.max().max(self.gap);
    }

    /// Each pod that runs has told what it knows: from then on it is known what is missed.
    pub(super) fn all_have_told(&mut self) {
        let heard = self.told.values().filter(|told| told.state == State::Heard);
        self.first = self.first.or_else(|| heard.map(|told| told.since).max());
    }

    /// That pod has told all that it knows: what it carried since it began. `again`: a container of it was started again.
    pub(super) fn tells(&mut self, pod: &str, since: Timestamp, again: bool) {
        let before = self.told.insert(pod.to_owned(), Told { since, state: State::Heard });
        let is_another = before.is_some_and(|before| since.duration_since(before.since) > ANOTHER);
        if is_another || again {
            // Whatever was in the pod before has ended by then.
            self.misses(since);
        }
    }

    /// That pod has let all connections go, and takes none.
    pub(super) fn is_over(&mut self, pod: &str) {
        if let Some(told) = self.told.get_mut(pod) {
            told.state = State::Over;
        }
    }

    /// The connection to that pod is lost. `runs`: the pod runs, as far as is known.
    pub(super) fn loses(&mut self, pod: &str, runs: bool, now: Timestamp) {
        if let Some(told) = self.told.get_mut(pod).filter(|told| told.state == State::Heard) {
            told.state = State::Silent;
        }
        if !runs {
            self.ends(pod, now);
        }
    }

    /// That pod runs no more.
    fn ends(&mut self, pod: &str, now: Timestamp) {
        match self.told.get(pod).map(|told| told.state) {
            // Its last words may be on their way.
            Some(State::Heard) => return,
            Some(State::Over) => {}
            None | Some(State::Silent) => self.misses(now),
        }
        self.told.remove(pod);
    }

    fn misses(&mut self, until: Timestamp) {
        self.gap = self.gap.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(minutes: i64) -> Timestamp {
        "2026-11-29T20:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    /// `a` and `b` run since long, and are heard.
    fn heard() -> (Covered, Pods) {
        let (mut covered, pods) = (Covered::default(), run(&["a", "b"]));
        covered.runs(&Pods::new(), &pods, now(0));
        covered.tells("a", now(-600), false);
        covered.tells("b", now(-500), false);
        covered.all_have_told();
        (covered, pods)
    }

    fn run(pods: &[&str]) -> Pods {
        pods.iter().map(|&pod| (pod.to_owned(), false)).collect()
    }

    #[test]
    fn pods_that_take_the_place_of_those_that_told_all_begin_nothing_anew() {
        let (mut covered, mut pods) = heard();
        for (old, new) in [("a", "c"), ("b", "d")] {
            let both = pods.iter().map(|(pod, again)| (pod.clone(), *again)).chain(run(&[new])).collect();
            covered.runs(&pods, &both, now(1));
            covered.tells(new, now(1), false);
            covered.is_over(old);
            covered.loses(old, true, now(2));
            let left = both.iter().filter(|(pod, _)| *pod != old).map(|(pod, again)| (pod.clone(), *again)).collect();
            covered.runs(&both, &left, now(2));
            pods = left;
        }
        assert_eq!(covered.since(), Some(now(-500)));
        // Which of both is seen first makes no difference.
        covered.runs(&pods, &run(&["d"]), now(3));
        covered.is_over("c");
        covered.loses("c", false, now(3));
        assert_eq!(covered.since(), Some(now(-500)));
        assert_eq!(covered.told.keys().collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn after_one_that_ended_without_a_word_it_counts_anew() {
        for lost_first in [true, false] {
            let (mut covered, pods) = heard();
            if lost_first {
                covered.loses("a", true, now(1));
                assert_eq!(covered.since(), Some(now(-500)), "it may come back");
            }
            covered.runs(&pods, &run(&["b"]), now(2));
            if !lost_first {
                assert_eq!(covered.since(), Some(now(-500)), "its last words may be on their way");
                covered.loses("a", false, now(2));
            }
            assert_eq!(covered.since(), Some(now(2)), "{lost_first}");
        }
        // Nor does it matter when it was lost.
        let mut covered = Covered::default();
        covered.tells("a", now(-600), false);
        covered.loses("a", true, now(1));
        covered.runs(&Pods::new(), &run(&["b"]), now(2));
        covered.tells("b", now(-600), false);
        covered.all_have_told();
        assert_eq!(covered.since(), Some(now(2)));
    }

    #[test]
    fn one_that_is_connected_to_again_tells_all_and_another_process_does_not() {
        let (mut covered, _) = heard();
        covered.loses("a", true, now(1));
        covered.tells("a", now(-600) + SignedDuration::from_secs(2), false);
        assert_eq!(covered.since(), Some(now(-500)), "the same: ages are rounded");
        covered.loses("a", true, now(2));
        covered.tells("a", now(3), false);
        assert_eq!(covered.since(), Some(now(3)));
    }

    #[test]
    fn what_nobody_heard_of_counts() {
        // It ran, and never told.
        let (mut covered, pods) = heard();
        let more = run(&["a", "b", "c"]);
        covered.runs(&pods, &more, now(1));
        covered.runs(&more, &pods, now(2));
        assert_eq!(covered.since(), Some(now(2)));
        // In a pod that tells another process ended before.
        for known_first in [true, false] {
            let (mut covered, pods) = heard();
            let again: Pods = [("a", false), ("b", false), ("c", true)].map(|(pod, is)| (pod.to_owned(), is)).into();
            if known_first {
                covered.runs(&pods, &again, now(1));
            }
            covered.tells("c", now(1), known_first);
            covered.runs(&again, &again, now(2));
            assert_eq!(covered.since(), Some(now(1)));
            covered.is_over("c");
            covered.runs(&again, &pods, now(3));
            assert_eq!(covered.since(), Some(now(1)), "it stays so when the pod is gone");
        }
    }
}
