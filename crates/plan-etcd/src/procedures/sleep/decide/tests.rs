use super::*;
use berth_api::etcd_bootstrap::Bootstrap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeSet;

/// What is there: each of it may change at any time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    record: Record,
    wanted: bool,
    pods: bool,
    well: bool,
}

fn now() -> Timestamp {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

fn decide(world: &World) -> SleepStep {
    decide_sleep(&SleepView {
        now: now(),
        wanted: world.wanted,
        is_formed: true,
        obstacle: (!world.well).then(|| "all members to be ready".into()),
        is_down: !world.pods,
        is_up: world.well && world.pods,
        has_lost: false,
        name: "etcd",
        record: &world.record,
    })
}

/// As the StatefulSet is scaled: by the record alone.
fn runs(world: &World) -> bool {
    berth_plan::RunLevel::during(world.record.operation.as_ref()).runs_etcd()
}

fn next(world: &World) -> Vec<World> {
    let mut all = vec![World { wanted: !world.wanted, ..world.clone() }];
    if world.pods != runs(world) {
        all.push(World { pods: runs(world), well: false, ..world.clone() });
    }
    if world.pods {
        all.push(World { well: !world.well, ..world.clone() });
    }
    if let SleepStep::Write(record) = decide(world) {
        let mut record = *record;
        // Serials grow for ever; the states are the same.
        record.bootstrap.serial = 1;
        record.operation.iter_mut().for_each(|operation| (operation.id, operation.since) = (1, Time(now())));
        all.push(World { record, ..world.clone() });
    }
    all
}

/// Whatever is wanted, and whatever members do meanwhile: it is never stuck, and sleeps only after it was well.
#[test]
fn from_each_state_it_comes_to_what_is_wanted() {
    let bootstrap = Bootstrap { serial: 1, ..Bootstrap::default() };
    let record = Record { bootstrap, replicas: 3, founders: Some(3), ..Record::default() };
    let mut seen = BTreeSet::new();
    let mut todo = vec![World { record, wanted: false, pods: true, well: true }];
    while let Some(world) = todo.pop() {
        if seen.insert(world.clone()) {
            let after = next(&world);
            for new in &after {
                assert!(!runs(&world) || runs(new) || new.wanted, "stopped though nobody wants it: {world:?}");
                let begins = world.record.operation.is_none() && new.record.operation.is_some();
                assert!(!begins || world.well, "begun amid something else: {world:?}");
            }
            todo.extend(after);
        }
    }
    assert!(seen.len() > 15, "{}", seen.len());
    for world in &seen {
        let mut at = world.clone();
        for _ in 0..10 {
            if at.pods != runs(&at) {
                (at.pods, at.well) = (runs(&at), runs(&at));
            } else if at.pods {
                at.well = true;
            }
            if let SleepStep::Write(record) = decide(&at) {
                at.record = *record;
            }
        }
        let asleep = matches!(decide(&at), SleepStep::Asleep(_)) && !at.pods;
        let awake = decide(&at) == SleepStep::None && at.pods;
        assert!(if at.wanted { asleep } else { awake }, "{world:?} ends as {at:?}");
    }
}

#[test]
fn nothing_begins_amid_a_change_of_members() {
    let record = Record::default().begin(OperationKind::Grow, "etcd-1", Phase::Add, now());
    let world = World { record, wanted: true, pods: true, well: true };
    assert!(matches!(decide(&world), SleepStep::Hold(why) if why.contains("Grow etcd-1")));
}
