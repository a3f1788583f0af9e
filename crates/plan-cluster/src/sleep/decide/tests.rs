//! Every state that a tenant's sleep reaches, whatever is asked for and wherever the operator ends.

use super::*;
use std::collections::BTreeSet;

/// The `EtcdBackup` of this fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Backup {
    Missing,
    Goes,
    Proven,
    Failed,
}

#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    wanted: bool,
    state: SleepState,
    /// Workers, API servers and etcd have pods.
    pods: [bool; 3],
    busy: bool,
    /// `backupFirst`.
    asks: bool,
    backup: Backup,
    /// The record names it.
    recorded: bool,
    /// API servers ran since it was begun.
    lacks: bool,
}

fn now() -> Timestamp {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

fn decide(world: &World) -> Next {
    let cause = String::new();
    let backup = world.recorded.then(|| "b".to_owned());
    let by_itself = ByItself::default();
    let record =
        SleepRecord { state: world.state, since: Time(now()), cause, failed: None, backup, hindrance: None, by_itself };
    let awaited = world.asks && world.state == SleepState::FallingAsleep && !world.recorded;
    let [workers, api, etcd] = world.pods;
    decide_sleep(&SleepView {
        now: now(),
        enabled: world.wanted,
        wishes: Vec::new(),
        record: Some(&record),
        obstacle: world.busy.then(|| "a rollout to end".into()),
        workers_stopped: !workers,
        api_stopped: !api,
        backup: match world.backup {
            _ if !awaited => SleepBackup::NotAwaited,
            Backup::Missing => SleepBackup::Missing,
            Backup::Goes => SleepBackup::Goes,
            Backup::Proven => SleepBackup::Proven,
            Backup::Failed => SleepBackup::Failed("the store is full".into()),
        },
        backup_name: Some("b".into()),
        hindrance: None,
        etcd_sleeps: !etcd,
        etcd_is_free: !world.busy,
        is_up: world.pods == [true; 3] && !world.busy,
    })
}

fn wanted_pods(level: RunLevel) -> [bool; 3] {
    [level.runs_all(), level.runs_clients(), level.runs_etcd()]
}

/// The world with that record.
fn written(world: &World, record: &SleepRecord) -> World {
    let begins = world.state != SleepState::FallingAsleep && record.state == SleepState::FallingAsleep;
    let (backup, lacks) = if begins { (Backup::Missing, false) } else { (world.backup, world.lacks) };
    World { state: record.state, recorded: record.backup.is_some(), backup, lacks, ..world.clone() }
}

/// What becomes of its backup: it is made once the plan says so, and ends one way or the other.
fn backed_up(world: &World, level: RunLevel) -> Vec<World> {
    let is_made =
        level == RunLevel::ClientsStopped && world.asks && !world.recorded && !world.pods[0] && !world.pods[1];
    let all = match world.backup {
        Backup::Missing if is_made && world.state == SleepState::FallingAsleep => vec![Backup::Goes],
        Backup::Goes if world.pods[2] => vec![Backup::Proven, Backup::Failed],
        _ => vec![],
    };
    all.into_iter().map(|backup| World { backup, ..world.clone() }).collect()
}

fn next(world: &World) -> Vec<World> {
    let decided = decide(world);
    let mut all = vec![World { wanted: !world.wanted, ..world.clone() }, World { busy: !world.busy, ..world.clone() }];
    for (part, wanted) in wanted_pods(decided.level).into_iter().enumerate() {
        let mut pods = world.pods;
        pods[part] = wanted;
        let lacks = world.lacks || (pods[1] && world.backup != Backup::Missing);
        all.push(World { pods, lacks, ..world.clone() });
    }
    all.extend(decided.write.map(|record| written(world, &record)));
    all.extend(backed_up(world, decided.level));
    all
}

#[test]
fn etcd_never_stops_under_its_clients_and_everything_ends_as_it_is_asked_for() {
    let mut seen = BTreeSet::new();
    let begin = |asks| World {
        wanted: false,
        state: SleepState::Awake,
        pods: [true; 3],
        busy: false,
        asks,
        backup: Backup::Missing,
        recorded: false,
        lacks: false,
    };
    let mut todo = vec![begin(false), begin(true)];
    while let Some(world) = todo.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let level = decide(&world).level;
        let [workers, api, _] = world.pods;
        assert!(level.runs_etcd() || !(api || workers), "etcd stops under its clients: {world:?}");
        assert!(level.runs_clients() || !workers, "API servers stop before what works by them: {world:?}");
        let is_kept = !world.asks || (world.recorded && !world.lacks);
        let falls = world.state == SleepState::FallingAsleep;
        assert!(level.runs_etcd() || !falls || is_kept, "etcd stops without a backup of all: {world:?}");
        for new in next(&world) {
            let begins = world.state == SleepState::Awake && new.state == SleepState::FallingAsleep;
            assert!(!begins || (world.wanted && !world.busy), "begun amid something else: {world:?}");
            assert!(new.state != SleepState::Asleep || !world.asks || (new.recorded && !new.lacks), "{world:?}");
            assert!(new.state != SleepState::Asleep || new.pods == [false; 3] || world.state == SleepState::Asleep);
            todo.push(new);
        }
    }
    assert!(seen.len() > 20, "{}", seen.len());
    for world in &seen {
        let mut at = World { busy: false, ..world.clone() };
        for _ in 0..24 {
            let decided = decide(&at);
            let backed_up = backed_up(&at, decided.level).into_iter().next();
            at = match (decided.write, backed_up) {
                (Some(record), _) => written(&at, &record),
                (None, Some(backed_up)) => backed_up,
                (None, None) => World { pods: wanted_pods(decided.level), ..at },
            };
        }
        let end = if at.wanted { (SleepState::Asleep, [false; 3]) } else { (SleepState::Awake, [true; 3]) };
        assert_eq!((at.state, at.pods), end, "{world:?}");
    }
}

/// In that state, with API servers and etcd in these.
fn falling(backup: SleepBackup, named: Option<&str>, api_stopped: bool, minutes: i64) -> Next {
    let since = Time(now() - SignedDuration::from_mins(minutes));
    let (state, cause) = (SleepState::FallingAsleep, String::new());
    let (before, by_itself) = (named.map(Into::into), ByItself::default());
    let record = SleepRecord { state, since, cause, failed: None, backup: before, hindrance: None, by_itself };
    decide_sleep(&SleepView {
        now: now(),
        enabled: true,
        wishes: Vec::new(),
        record: Some(&record),
        obstacle: None,
        workers_stopped: true,
        api_stopped,
        backup,
        backup_name: Some("b".into()),
        hindrance: None,
        etcd_sleeps: false,
        etcd_is_free: true,
        is_up: false,
    })
}

#[test]
fn a_backup_that_fails_or_lacks_something_ends_awake() {
    let why =
        |next: Next| next.write.map(|record| (record.state, record.cause, record.backup, record.failed.is_some()));
    let (waking, b) = (SleepState::Waking, Some("b".to_owned()));
    let full = SleepBackup::Failed("the store is full".into());
    assert_eq!(why(falling(full, None, true, 3)), Some((waking, "the store is full".into(), b.clone(), true)));
    let back = "a pod of kube-apiserver came back after the backup was begun".to_owned();
    for (backup, named) in
        [(SleepBackup::Goes, None), (SleepBackup::Proven, None), (SleepBackup::NotAwaited, Some("b"))]
    {
        assert_eq!(why(falling(backup, named, false, 3)), Some((waking, back.clone(), b.clone(), true)));
    }
    let slow = "the backup before it was not proven within 2 hours".to_owned();
    assert_eq!(why(falling(SleepBackup::Goes, None, true, 120)), Some((waking, slow, b.clone(), true)));
    // It has longer than pods have to end, and is looked at meanwhile.
    let goes = falling(SleepBackup::Goes, None, true, 119);
    assert_eq!((goes.level, goes.write, goes.until), (RunLevel::ClientsStopped, None, Some(now() + LOOKS)));
    assert_eq!(why(falling(SleepBackup::Missing, None, false, 10)).map(|why| (why.0, why.2)), Some((waking, None)));
    let proven = falling(SleepBackup::Proven, None, true, 30);
    assert_eq!(proven.level, RunLevel::ClientsStopped, "the record first");
    assert_eq!(why(proven), Some((SleepState::FallingAsleep, "spec.hibernation.enabled".into(), b, false)));
    assert_eq!(falling(SleepBackup::NotAwaited, Some("b"), true, 0).level, RunLevel::Down);
}
