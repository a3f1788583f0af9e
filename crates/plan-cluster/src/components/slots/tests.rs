//! Every state that slots can get into: with a crash after any write, with pods that fail at any time, and with a template that never works.

use super::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A StatefulSet and its pod, as far as a rollout goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
// Each is seen by itself, and every combination may be met.
#[expect(clippy::struct_excessive_bools)]
struct Set {
    exists: bool,
    /// Its template is the wanted one.
    new: bool,
    runs: bool,
    /// Its controller has seen the newest spec.
    seen: bool,
    pod: Option<Pod>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is seen by itself")]
struct Pod {
    new: bool,
    ready: bool,
    ends: bool,
    /// It is ready for `spec.upgrade.soak`.
    soaked: bool,
}

impl Set {
    fn look(self) -> Slot {
        let settled = self.seen && self.pod.is_some_and(|p| p.ready && !p.ends && p.new == self.new);
        Slot {
            exists: self.exists,
            current: self.new,
            runs: self.runs,
            ready: self.runs && settled,
            starts: false,
            soaked: self.pod.is_some_and(|p| p.soaked),
        }
    }

    fn serves(self) -> bool {
        self.pod.is_some_and(|p| p.ready && !p.ends)
    }

    fn write(&mut self, runs: bool) {
        let seen = self.exists && self.seen && self.new && self.runs == runs;
        *self = Self { exists: true, new: true, runs, seen, pod: self.pod };
    }

    /// Everything that the controller and kubelet may do next. A StatefulSet's pod is replaced only when it is gone.
    fn others(self, works: bool) -> Vec<Self> {
        let mut all = vec![];
        if !self.exists {
            return all;
        }
        if !self.seen {
            all.push(Self { seen: true, ..self });
        }
        match self.pod {
            None if self.runs && self.seen => {
                all.push(Self { pod: Some(Pod { new: self.new, ready: false, ends: false, soaked: false }), ..self });
            }
            None => {}
            Some(pod) if pod.ends => all.push(Self { pod: None, ..self }),
            Some(pod) => {
                if self.seen && (!self.runs || pod.new != self.new) {
                    all.push(Self { pod: Some(Pod { ends: true, ..pod }), ..self });
                }
                if !pod.ready && (works || !pod.new) {
                    all.push(Self { pod: Some(Pod { ready: true, ..pod }), ..self });
                }
                if pod.ready && !pod.soaked {
                    all.push(Self { pod: Some(Pod { soaked: true, ..pod }), ..self });
                }
            }
        }
        all
    }
}

type World = Vec<Set>;

fn looked(world: &World) -> Vec<Slot> {
    world.iter().map(|set| set.look()).collect()
}

/// What the operator does in one reconcile: the writes one after the other, each of which may be its last.
fn writes(world: &World, replicas: usize) -> Vec<World> {
    let mut all = vec![];
    let mut now = world.clone();
    for (slot, decided) in decide_slots(&looked(world), replicas, true).into_iter().enumerate() {
        if let Some(runs) = decided {
            now[slot].write(runs);
            all.push(now.clone());
        }
    }
    all
}

/// At rest: the first slots serve with the wanted template, and spares have it and no pod.
fn at_rest(world: &World, replicas: usize) -> bool {
    world.iter().enumerate().all(|(n, set)| {
        let pod = set.pod.is_some_and(|p| p.new && p.ready && !p.ends);
        set.new && set.seen && set.runs == (n < replicas) && if n < replicas { pod } else { set.pod.is_none() }
    })
}

fn serving(world: &World) -> usize {
    world.iter().filter(|set| set.serves()).count()
}

/// A tenant that is up, whose spec changed just now.
fn changed(slots: usize, replicas: usize) -> World {
    let up = Set {
        exists: true,
        new: false,
        runs: true,
        seen: true,
        pod: Some(Pod { new: false, ready: true, ends: false, soaked: true }),
    };
    (0..slots).map(|n| if n < replicas { up } else { Set { runs: false, pod: None, ..up } }).collect()
}

/// Every world that can be reached from there, with those that follow from each. `fails`: pods may stop serving, or be deleted.
fn explore(start: World, replicas: usize, works: bool, fails: bool) -> BTreeMap<World, Vec<World>> {
    let mut known: BTreeMap<World, Vec<World>> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        if known.contains_key(&world) {
            continue;
        }
        let mut next = writes(&world, replicas);
        for (n, set) in world.iter().enumerate() {
            for other in set.others(works) {
                let mut world = world.clone();
                world[n] = other;
                next.push(world);
            }
            if let (true, Some(pod)) = (fails, set.pod) {
                for worse in [Pod { ready: false, soaked: false, ..pod }, Pod { ends: true, ..pod }] {
                    let mut world = world.clone();
                    world[n].pod = Some(worse);
                    next.push(world);
                }
            }
        }
        queue.extend(next.iter().cloned());
        known.insert(world, next);
    }
    known
}

fn sizes() -> impl Iterator<Item = (usize, usize)> {
    (1..=3).flat_map(|slots| (1..=slots).map(move |replicas| (slots, replicas)))
}

/// The worlds from which a world at rest can be reached.
fn lead_to_rest(known: &BTreeMap<World, Vec<World>>, replicas: usize) -> BTreeSet<&World> {
    let mut good: BTreeSet<&World> = known.keys().filter(|world| at_rest(world, replicas)).collect();
    loop {
        let more: Vec<_> = known
            .iter()
            .filter(|(world, next)| !good.contains(world) && next.iter().any(|n| good.contains(n)))
            .map(|(world, _)| world)
            .collect();
        if more.is_empty() {
            return good;
        }
        good.extend(more);
    }
}

#[test]
fn a_rollout_ends_the_same_wherever_it_is_interrupted_and_whatever_fails() {
    for (slots, replicas) in sizes() {
        let known = explore(changed(slots, replicas), replicas, true, true);
        assert_eq!(lead_to_rest(&known, replicas).len(), known.len(), "{slots} slots, {replicas} replicas");
        // Without further trouble nothing goes round in circles: what is at rest stays there.
        for world in known.keys().filter(|world| at_rest(world, replicas)) {
            assert!(writes(world, replicas).is_empty(), "{world:?}");
        }
    }
}

#[test]
fn a_new_tenant_comes_up_wherever_it_is_interrupted() {
    for (slots, replicas) in sizes() {
        let known = explore(vec![Set::default(); slots], replicas, true, false);
        assert_eq!(lead_to_rest(&known, replicas).len(), known.len(), "{slots} slots, {replicas} replicas");
    }
    let none = vec![Slot::default(); 3];
    assert_eq!(
        decide_slots(&none, 2, false),
        [Some(true), Some(true), Some(false)],
        "all at once, and the spare is none"
    );
}

#[test]
fn without_trouble_a_rollout_takes_no_api_server_away_that_a_spare_does_not_replace() {
    for (slots, replicas) in sizes() {
        let least = if slots > replicas { replicas } else { replicas - 1 };
        for (world, _) in explore(changed(slots, replicas), replicas, true, false) {
            assert!(serving(&world) >= least, "{slots} slots, {replicas} replicas: {world:?}");
        }
    }
}

#[test]
fn a_template_that_never_works_takes_no_more_than_one_api_server_and_none_where_there_is_a_spare() {
    for (slots, replicas) in sizes() {
        let least = if slots > replicas { replicas } else { replicas - 1 };
        for (world, _) in explore(changed(slots, replicas), replicas, false, false) {
            assert!(serving(&world) >= least, "{slots} slots, {replicas} replicas: {world:?}");
        }
    }
}

#[test]
fn no_write_takes_away_what_serves_while_another_does_not() {
    for (slots, replicas) in sizes() {
        for (world, _) in explore(changed(slots, replicas), replicas, true, true) {
            let before = looked(&world);
            let taken = |n: usize, decided: Option<bool>| {
                n < replicas && before[n].runs && before[n].ready && decided.is_some() && !before[n].current
            };
            let decided = decide_slots(&before, replicas, true);
            let count = decided.iter().enumerate().filter(|(n, d)| taken(*n, **d)).count();
            assert!(count <= 1, "{world:?}: {decided:?}");
            if count == 1 {
                assert!(before[..replicas].iter().all(|s| s.ready), "{world:?}: {decided:?}");
                assert!(before.get(replicas).is_none_or(|spare| spare.is_good()), "{world:?}: {decided:?}");
                let changed = before.iter().any(|s| s.current && s.runs);
                let proven = before.iter().any(|s| s.is_good() && s.soaked);
                assert!(!changed || proven, "the canary serves for a while first: {world:?}: {decided:?}");
            }
        }
    }
}

#[test]
fn a_spare_runs_while_one_is_lost() {
    let good = Slot { exists: true, current: true, runs: true, ready: true, starts: false, soaked: true };
    let spare = Slot { runs: false, ready: false, ..good };
    let lost = Slot { ready: false, ..good };
    assert_eq!(decide_slots(&[good, good, spare], 2, true), [None, None, None]);
    assert_eq!(decide_slots(&[good, lost, spare], 2, true), [None, None, Some(true)]);
    assert_eq!(decide_slots(&[good, lost, good], 2, true), [None, None, None]);
    assert_eq!(decide_slots(&[good, good, good], 2, true), [None, None, Some(false)]);
    assert_eq!(decide_slots(&[lost, lost, spare, spare], 2, true), [None, None, Some(true), Some(true)]);
    let young = Slot { starts: true, ..lost };
    assert_eq!(decide_slots(&[good, young, spare], 2, true), [None, None, None], "it may come up by itself");
}

#[test]
fn the_first_that_changed_serves_for_a_while_before_the_second_changes() {
    let good = Slot { exists: true, current: true, runs: true, ready: true, starts: false, soaked: true };
    let (old, young) = (Slot { current: false, ..good }, Slot { soaked: false, ..good });
    assert_eq!(decide_slots(&[old, old], 2, true), [Some(true), None], "one is the first");
    assert_eq!(decide_slots(&[young, old], 2, true), [None, None]);
    assert_eq!(decide_slots(&[good, old], 2, true), [None, Some(true)]);
    assert_eq!(
        decide_slots(&[good, young, old], 3, true),
        [None, None, Some(true)],
        "the others follow without a wait"
    );
    assert_eq!(decide_slots(&[old, old, young], 2, true), [None, None, None], "a spare proves it for them");
    assert_eq!(decide_slots(&[old, old, good], 2, true), [Some(true), None, None]);
}
