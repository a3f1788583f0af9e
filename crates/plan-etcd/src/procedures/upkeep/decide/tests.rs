//! Decisions alone: an etcd in memory does what it is told, or does it late.

use super::*;
use berth_plan::observed::Progress;
use berth_plan::{EtcdCall, EtcdCallResult};
use jiff::SignedDuration;

const MIB: i64 = 1024 * 1024;

struct World {
    view: UpkeepView,
    log: Vec<String>,
    /// Bytes in use once former revisions are forgotten. etcd counts that anew only with the next write.
    live: i64,
    is_compacted: bool,
    /// Calls are carried out, but their answers come too late.
    loses_answers: bool,
}

impl World {
    /// So many members of 400 MiB, of which 100 are in use; the first leads.
    fn new(members: usize) -> Self {
        let room = |i| Room {
            name: format!("etcd-{i}"),
            id: format!("a{i}"),
            leads: i == 0,
            size: 400 * MIB,
            used: 100 * MIB,
            quota: 2048 * MIB,
            is_fragmented: true,
        };
        let view = UpkeepView {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            is_well: true,
            members: (0..members).map(room).collect(),
            alarms: vec![],
            revision: 7,
            request: None,
            last: None,
            told: vec![],
        };
        Self { view, log: vec![], live: 100 * MIB, is_compacted: false, loses_answers: false }
    }

    fn full(members: usize) -> Self {
        let mut world = Self::new(members);
        for m in &mut world.view.members {
            (m.size, m.used, m.quota) = (64 * MIB, 60 * MIB, 64 * MIB);
        }
        world.live = 10 * MIB;
        let raised = |i| RaisedAlarm { kind: "NOSPACE".into(), member: format!("etcd-{i}"), id: format!("a{i}") };
        world.view.alarms = (0..members).map(raised).collect();
        world
    }

    /// One reconcile, a second later.
    fn step(&mut self) -> UpkeepStep {
        let (upkeep, step) = decide_upkeep(&self.view);
        if let UpkeepStep::Call { via, call } = &step {
            self.log.push(format!("{via}: {}", call.describe()));
            self.carry_out(via, call);
            self.view.told = vec![EtcdCallResult {
                via: via.clone(),
                call: call.clone(),
                done: !self.loses_answers,
                hashes: vec![],
            }];
            self.view.last = decide_upkeep(&self.view).0;
            self.view.told.clear();
        } else {
            self.view.last = upkeep;
        }
        self.view.now += SignedDuration::from_secs(1);
        step
    }

    fn carry_out(&mut self, via: &str, call: &EtcdCall) {
        let members = &mut self.view.members;
        match call {
            EtcdCall::Change(MemberChange::MoveLeader { id }) => members.iter_mut().for_each(|m| m.leads = m.id == *id),
            EtcdCall::Maintain(Maintenance::Defragment) => {
                let member = members.iter_mut().find(|m| m.name == via).unwrap();
                if self.is_compacted {
                    member.used = self.live;
                }
                (member.size, member.is_fragmented) = (member.used, false);
            }
            EtcdCall::Maintain(Maintenance::Compact { .. }) => self.is_compacted = true,
            EtcdCall::Maintain(Maintenance::Disarm { id, .. }) => self.view.alarms.retain(|a| a.id != *id),
            EtcdCall::Maintain(Maintenance::Put) => assert!(self.view.alarms.is_empty()),
            EtcdCall::Maintain(Maintenance::CompareHashes { .. }) | EtcdCall::Change(_) => panic!("{call:?}"),
        }
    }

    /// Somebody deletes keys, after which so much is in use.
    fn deleted(&mut self, live: i64) {
        self.view.revision += 1;
        (self.live, self.is_compacted) = (live, false);
    }

    fn did(&self, what: &str) -> usize {
        self.log.iter().filter(|line| line.contains(what)).count()
    }

    fn seconds(&mut self, seconds: i64) -> &[String] {
        (0..seconds).for_each(|_| drop(self.step()));
        &self.log
    }

    fn finished(&self) -> bool {
        self.view.last.as_ref().is_some_and(|u| u.finished.is_some())
    }
}

#[test]
fn followers_first_the_leader_last_and_a_minute_between() {
    let mut world = World::new(3);
    assert_eq!(world.seconds(30), ["etcd-2: defragment"]);
    assert_eq!(world.seconds(60).len(), 2);
    assert_eq!(
        world.seconds(300),
        ["etcd-2: defragment", "etcd-1: defragment", "etcd-0: move leadership to member a1", "etcd-0: defragment"]
    );
    assert!(world.finished());
    // Half of it is free again, or was never given back: not at once.
    world.view.members[2].is_fragmented = true;
    assert_eq!(world.seconds(1000).len(), 4);
    assert_eq!(world.seconds(3000).len(), 5);
}

#[test]
fn a_single_member_is_left_alone_unless_asked() {
    let mut world = World::new(1);
    assert!(world.seconds(100).is_empty());
    world.view.request = Some("1".into());
    assert_eq!(world.seconds(100), ["etcd-0: defragment"]);
    assert!(world.finished());
    assert_eq!(world.seconds(100).len(), 1, "once for each value");
    world.view.request = Some("2".into());
    assert_eq!(world.seconds(100).len(), 2);
}

#[test]
fn nothing_begins_or_goes_on_while_anything_is_wrong() {
    let mut world = World::new(3);
    world.view.is_well = false;
    assert!(world.seconds(10).is_empty());
    world.view.is_well = true;
    assert_eq!(world.seconds(10).len(), 1);
    world.view.is_well = false;
    assert_eq!(world.seconds(200).len(), 1);
    world.view.is_well = true;
    let corrupt = RaisedAlarm { kind: "CORRUPT".into(), member: "etcd-1".into(), id: "a1".into() };
    world.view.alarms.push(corrupt);
    assert_eq!(world.seconds(200).len(), 1, "and CORRUPT is for a person");
}

/// etcd goes on with a defragmentation whose answer came too late: nobody else begins one before it shows, whoever leads meanwhile.
#[test]
fn never_two_at_once() {
    let mut world = World::new(3);
    let (upkeep, UpkeepStep::Call { via, call }) = decide_upkeep(&world.view) else { panic!() };
    assert_eq!((via.as_str(), upkeep.unwrap().member.as_deref()), ("etcd-2", Some("etcd-2")));
    world.view.told = vec![EtcdCallResult { via, call, done: false, hashes: vec![] }];
    world.view.last = decide_upkeep(&world.view).0;
    world.view.told.clear();
    assert_eq!(world.view.last.as_ref().unwrap().member.as_deref(), Some("etcd-2"));
    world.view.members.iter_mut().for_each(|m| m.leads = m.id == "a2");
    assert_eq!(world.seconds(61), ["etcd-2: move leadership to member a0"]);
    assert_eq!(world.seconds(61).last().unwrap(), "etcd-2: defragment");
    // It was carried out, and shows by itself.
    let mut world = World::new(3);
    world.view.request = Some("now".into());
    world.loses_answers = true;
    let done =
        ["etcd-2: defragment", "etcd-1: defragment", "etcd-0: move leadership to member a1", "etcd-0: defragment"];
    assert_eq!(world.seconds(100), done);
    assert!(world.finished());
}

#[test]
fn nospace_is_compacted_defragmented_disarmed_and_tried() {
    for (members, expected) in [(1, 4), (3, 9)] {
        let mut world = World::full(members);
        let log = world.seconds(60);
        assert_eq!(log[0], "etcd-0: compact at revision 7");
        assert_eq!(log.last().unwrap(), if members == 1 { "etcd-0: write a key" } else { "etcd-1: write a key" });
        assert_eq!(log.len(), expected, "{log:#?}");
        assert!(world.finished() && world.view.alarms.is_empty());
        assert_eq!(world.seconds(500).len(), expected);
    }
}

/// It cannot be made smaller: one member shows that, and nothing more is done before somebody deletes keys or raises the quota.
#[test]
fn what_is_in_use_fills_it_and_the_alarm_stays() {
    let mut world = World::full(3);
    world.live = 60 * MIB;
    world.seconds(3600);
    let UpkeepStep::UsedUp(room, None) = world.step() else { panic!("{:?}", world.log) };
    assert_eq!((room.size, room.quota), (60 * MIB, 64 * MIB));
    assert_eq!(world.log, ["etcd-0: compact at revision 7", "etcd-2: defragment"]);
    assert_eq!(world.view.alarms.len(), 3);
    world.view.members.iter_mut().for_each(|m| m.quota = 128 * MIB);
    assert_eq!(world.seconds(60).iter().filter(|line| line.contains("disarm")).count(), 3);
    assert!(world.finished());
}

#[test]
fn what_was_deleted_makes_room_within_a_minute() {
    for members in [1, 3] {
        let mut world = World::full(members);
        world.live = 60 * MIB;
        world.seconds(3600);
        let before = world.log.len();
        world.deleted(20 * MIB);
        world.seconds(60);
        assert!(world.finished() && world.view.alarms.is_empty(), "{:#?}", world.log);
        assert_eq!(world.log[before], "etcd-0: compact at revision 8");
        assert_eq!(world.did("defragment"), 1 + members, "each once more: {:#?}", world.log);
    }
}

/// Leases end one by one, and none of that makes room.
#[test]
fn deletions_that_make_no_room_cost_little() {
    let mut world = World::full(3);
    world.live = 60 * MIB;
    for _ in 0..590 {
        world.deleted(60 * MIB);
        world.step();
    }
    let compactions = world.did("compact");
    assert!((10..=21).contains(&compactions), "twice a minute: {:#?}", world.log);
    assert!((compactions - 1..=compactions).contains(&world.did("etcd-2: defragment")), "{:#?}", world.log);
    assert_eq!(world.log.len(), compactions + world.did("etcd-2: defragment"), "nobody else: {:#?}", world.log);
    let UpkeepStep::UsedUp(_, Some(after)) = world.step() else { panic!("{:?}", world.log) };
    assert!(after <= COMPACT_AGAIN);
}

/// What a defragmentation leaves is a little more than what etcd says is in use.
#[test]
fn a_member_that_is_as_small_as_it_gets_is_not_defragmented_again() {
    let mut world = World::full(1);
    world.live = 60 * MIB;
    world.seconds(60);
    world.view.members[0].used = 54 * MIB;
    assert_eq!(world.seconds(3600).len(), 2, "{:#?}", world.log);
    // A person compacted, and etcd has counted anew.
    (world.live, world.view.members[0].used) = (20 * MIB, 20 * MIB);
    world.seconds(60);
    assert!(world.finished(), "{:#?}", world.log);
    assert_eq!(world.did("compact"), 1);
}

/// What runs and is interrupted by a full database remembers who may still be at it.
#[test]
fn a_full_database_comes_first() {
    let mut world = World::new(3);
    world.seconds(1);
    world.view.last.as_mut().unwrap().member = Some("etcd-1".into());
    world.view.alarms = World::full(3).view.alarms;
    world.view.members.iter_mut().for_each(|m| (m.size, m.quota) = (400 * MIB, 400 * MIB));
    world.seconds(20);
    let log: Vec<_> = world.log.iter().skip(1).take(2).collect();
    assert_eq!(log, ["etcd-0: compact at revision 7", "etcd-1: defragment"]);
}

#[test]
fn half_free_and_large_or_nearly_full() {
    let is = |size, used, quota| {
        Progress { db_size: size * MIB, db_size_in_use: used * MIB, quota: quota * MIB, ..Progress::default() }
            .is_fragmented()
    };
    assert!(is(100, 49, 2048) && !is(100, 51, 2048) && !is(99, 10, 2048), "half of a large one");
    assert!(is(52, 40, 64) && !is(52, 45, 64) && !is(40, 1, 64), "a fifth of a nearly full one");
    assert!(!is(0, 0, 0) && !is(52, 40, 0));
}
