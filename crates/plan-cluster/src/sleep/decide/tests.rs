//! Every state that a tenant's sleep reaches, whatever is asked for and wherever the operator ends.

use super::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    wanted: bool,
    state: SleepState,
    /// Workers, API servers and etcd have pods.
    pods: [bool; 3],
    busy: bool,
}

fn now() -> Timestamp {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

fn decide(world: &World) -> Next {
    let cause = String::new();
    let record = SleepRecord { state: world.state, since: Time(now()), cause, failed: None };
    let [workers, api, etcd] = world.pods;
    decide_sleep(&SleepView {
        now: now(),
        enabled: world.wanted,
        wishes: Vec::new(),
        record: Some(&record),
        obstacle: world.busy.then(|| "a rollout to end".into()),
        workers_stopped: !workers,
        api_stopped: !api,
        etcd_sleeps: !etcd,
        etcd_is_free: !world.busy,
        is_up: world.pods == [true; 3] && !world.busy,
    })
}

fn wanted_pods(level: RunLevel) -> [bool; 3] {
    [level.runs_all(), level.runs_clients(), level.runs_etcd()]
}

fn next(world: &World) -> Vec<World> {
    let decided = decide(world);
    let mut all = vec![World { wanted: !world.wanted, ..world.clone() }, World { busy: !world.busy, ..world.clone() }];
    for (part, wanted) in wanted_pods(decided.level).into_iter().enumerate() {
        let mut pods = world.pods;
        pods[part] = wanted;
        all.push(World { pods, ..world.clone() });
    }
    all.extend(decided.write.map(|record| World { state: record.state, ..world.clone() }));
    all
}

#[test]
fn etcd_never_stops_under_its_clients_and_everything_ends_as_it_is_asked_for() {
    let mut seen = BTreeSet::new();
    let mut todo = vec![World { wanted: false, state: SleepState::Awake, pods: [true; 3], busy: false }];
    while let Some(world) = todo.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let level = decide(&world).level;
        let [workers, api, _] = world.pods;
        assert!(level.runs_etcd() || !(api || workers), "etcd stops under its clients: {world:?}");
        assert!(level.runs_clients() || !workers, "API servers stop before what works by them: {world:?}");
        for new in next(&world) {
            let begins = world.state == SleepState::Awake && new.state == SleepState::FallingAsleep;
            assert!(!begins || (world.wanted && !world.busy), "begun amid something else: {world:?}");
            assert!(new.state != SleepState::Asleep || new.pods == [false; 3] || world.state == SleepState::Asleep);
            todo.push(new);
        }
    }
    assert!(seen.len() > 20, "{}", seen.len());
    for world in &seen {
        let mut at = World { busy: false, ..world.clone() };
        for _ in 0..12 {
            let decided = decide(&at);
            match decided.write {
                Some(record) => at.state = record.state,
                None => at.pods = wanted_pods(decided.level),
            }
        }
        let end = if at.wanted { (SleepState::Asleep, [false; 3]) } else { (SleepState::Awake, [true; 3]) };
        assert_eq!((at.state, at.pods), end, "{world:?}");
    }
}
