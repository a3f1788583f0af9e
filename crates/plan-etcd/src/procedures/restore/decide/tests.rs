//! Every state that a restore reaches, whatever clients, Jobs and persons do meanwhile, and wherever the operator ends.

use super::*;
use berth_api::etcd_bootstrap::Bootstrap;
use berth_plan::RunLevel;
use jiff::Timestamp;
use std::collections::BTreeSet;

#[test]
fn data_of_another_etcd_begins_an_epoch_after_its_own() {
    for (own, after, next) in [(1, None, 2), (1, Some(4), 5), (7, Some(4), 8)] {
        let mut record = World::new(0).record;
        record.bootstrap.epoch = own;
        let request = RestoreRequest { after, ..RestoreRequest::default() };
        let record = record.begin(OperationKind::Restore, "e-0", Phase::Stop, time());
        let view = RestoreView {
            now: time(),
            request: Some(&request),
            is_formed: true,
            obstacle: None,
            clients_stopped: Some(1),
            has_cluster: false,
            serves: false,
            is_down: true,
            is_up: false,
            target: "e-0".into(),
            record: &record,
        };
        assert!(
            matches!(decide_restore(&view), RestoreStep::Write(record) if record.bootstrap.epoch == next),
            "{own} {after:?}"
        );
    }
}

/// What is there beside the record. Each change of it may come at any time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    record: Record,
    /// The `EtcdRestore`, by its number, and what it was told.
    request: Option<(u8, Option<i64>)>,
    /// `EtcdRestore`s that may still be created.
    left: u8,
    clients: bool,
    stopped: Option<i64>,
    /// The members' pods.
    pods: bool,
    /// The epoch that is on the volume of the first member, and the number of the `EtcdRestore` that put it there.
    volume: (i64, u8),
    /// What etcd runs with.
    runs: Option<(i64, u8)>,
    /// What clients have in their caches.
    cache: Option<(i64, u8)>,
    /// What clients were served.
    served: BTreeSet<(i64, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The record changes its epoch before etcd has stopped.
    TooEarly,
    /// The same epoch is restored.
    NoEpoch,
    /// Nobody waits for clients.
    Clients,
    /// It ends before its `EtcdRestore` has taken note, and so begins anew.
    Again,
    /// All members begin the new epoch, each from what is on its volume.
    AllMembers,
}

fn time() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

impl World {
    fn new(left: u8) -> Self {
        let bootstrap = Bootstrap { epoch: 1, ..Bootstrap::default() };
        let record = Record { bootstrap, replicas: 3, ..Record::default() };
        let served = BTreeSet::from([(1, 0)]);
        Self {
            record,
            request: None,
            left,
            clients: true,
            stopped: None,
            cache: None,
            pods: true,
            volume: (1, 0),
            runs: Some((1, 0)),
            served,
        }
    }

    fn step(&self, bug: Bug) -> RestoreStep {
        let (uid, restored) = self.request.map_or((0, None), |(uid, restored)| (uid, restored));
        let request = RestoreRequest { uid: uid.to_string(), restored, ..RestoreRequest::default() };
        let has_restarted = bug == Bug::Again && self.record.operation.is_none();
        let request = if has_restarted { RestoreRequest { restored: None, ..request } } else { request };
        let view = RestoreView {
            now: time(),
            request: self.request.map(|_| &request),
            is_formed: true,
            obstacle: None,
            clients_stopped: if bug == Bug::Clients {
                self.record.operation.as_ref().map(|o| o.id)
            } else {
                self.stopped
            },
            has_cluster: true,
            serves: false,
            is_down: !self.pods || bug == Bug::TooEarly,
            is_up: self.runs.is_some_and(|(epoch, _)| epoch == self.record.bootstrap.epoch),
            target: "e-0".into(),
            record: &self.record,
        };
        let is_done = self.record.operation.as_ref().is_some_and(|o| o.phase == Phase::Done);
        match decide_restore(&view) {
            _ if bug == Bug::Again && is_done => view.end(),
            RestoreStep::Write(mut record) if bug == Bug::NoEpoch => {
                (record.bootstrap.epoch, record.bootstrap.restored) = (1, false);
                RestoreStep::Write(record)
            }
            RestoreStep::Write(record) if bug == Bug::AllMembers => write(Record { replicas: 3, ..*record }),
            step => step,
        }
    }

    fn stops(&self) -> (bool, bool) {
        let level = RunLevel::during(self.record.operation.as_ref());
        (!level.runs_clients(), !level.runs_etcd())
    }

    /// What others do next, one at a time.
    fn others(&self) -> Vec<Self> {
        let mut all = vec![];
        let mut push = |change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            if next != *self {
                all.push(next);
            }
        };
        let (no_clients, no_members) = self.stops();
        let operation = self.record.under_way(OperationKind::Restore);
        let id = operation.filter(|_| no_clients).map(|o| o.id);
        // The `Cluster`'s controller.
        push(&|w| {
            w.clients = !no_clients;
            w.cache = w.cache.filter(|_| w.clients);
        });
        push(&|w| w.stopped = id.filter(|_| !w.clients));
        // The StatefulSet's, and the guard: only data of the epoch on record runs.
        push(&|w| {
            w.pods = !no_members;
            w.runs = w.runs.filter(|_| w.pods);
        });
        push(&|w| {
            if w.pods && w.volume.0 == w.record.bootstrap.epoch {
                w.runs = Some(w.volume);
            }
        });
        push(&|w| {
            if w.clients
                && let Some(runs) = w.runs
            {
                w.served.insert(runs);
                w.cache = Some(runs);
            }
        });
        let phase = operation.map(|o| o.phase);
        if let Some((number, told)) = self.request {
            let epoch = self.record.bootstrap.epoch;
            // The Job, and what its controller tells.
            if phase == Some(Phase::Restore) {
                push(&|w| w.volume = (epoch, number));
                if self.volume == (epoch, number) {
                    push(&|w| w.request = Some((number, Some(epoch))));
                }
            }
            // It is deleted, and at the end of `others`: it is done.
            push(&|w| w.request = None);
            if !(phase == Some(Phase::Done) && told == Some(epoch)) {
                let deleted = all.pop();
                all.splice(0..0, deleted);
            }
        } else if self.left > 0 {
            push(&|w| {
                w.request = Some((w.left, None));
                w.left -= 1;
            });
        }
        all
    }

    fn check(&self) -> Result<(), String> {
        if let (Some(runs), true) = (self.runs, self.clients) {
            let newest = self.served.iter().max().copied().unwrap_or_default();
            // Of one epoch there is one history.
            if runs.0 < newest.0 || (runs.0 == newest.0 && runs != newest) {
                return Err(format!("clients see {runs:?} after {newest:?}"));
            }
        }
        // k/k #118501: they serve what etcd has no more.
        if self.cache.is_some() && self.runs.is_some() && self.cache != self.runs {
            return Err("clients have kept what is gone".into());
        }
        if self.runs.is_some_and(|runs| runs != self.volume) {
            return Err("the volume is restored while etcd runs".into());
        }
        if self.record.bootstrap.epoch > 1 && self.record.replicas != 1 {
            return Err("more than one member begins an epoch".into());
        }
        Ok(())
    }
}

/// Err: what must never happen.
fn explore(restores: u8, bug: Bug) -> Result<(usize, BTreeSet<i64>), String> {
    let first = World::new(restores);
    let mut seen = BTreeSet::from([first.clone()]);
    let mut open = vec![first];
    let mut epochs = BTreeSet::new();
    while let Some(world) = open.pop() {
        world.check().map_err(|why| format!("{why}: {world:#?}"))?;
        if world.record.bootstrap.epoch > 4 || world.record.bootstrap.serial > 60 {
            return Err(format!("it never ends: {world:#?}"));
        }
        let mut next = world.others();
        if let RestoreStep::Write(record) = world.step(bug) {
            let (before, after) = (&world.record.bootstrap, &record.bootstrap);
            assert!(after.serial > before.serial && after.epoch <= before.epoch + 1);
            assert_eq!(after.restored, after.epoch > 1);
            next.push(World { record: *record, ..world.clone() });
        }
        if world.request.is_none() && world.left == 0 && world.record.operation.is_none() {
            epochs.insert(world.record.bootstrap.epoch);
        }
        if bug == Bug::None {
            ends(&world)?;
        }
        for world in next {
            if seen.insert(world.clone()) {
                open.push(world);
            }
        }
    }
    Ok((seen.len(), epochs))
}

/// If nobody interferes, it ends: with clients and etcd running on what is on record; or it waits for another `EtcdRestore`, and says so.
fn ends(world: &World) -> Result<(), String> {
    let mut world = World { left: 0, ..world.clone() };
    for _ in 0..60 {
        let step = world.step(Bug::None);
        if let RestoreStep::Write(record) = step {
            world.record = *record;
            continue;
        }
        let Some(next) = world.others().pop().filter(|next| *next != world) else {
            let serves = world.clients
                && world.runs.is_some_and(|(epoch, _)| epoch == world.record.bootstrap.epoch)
                && step == RestoreStep::None;
            let says = matches!(&step, RestoreStep::Wait(text) if text.contains("Create another EtcdRestore"));
            let ended = serves || says && world.request.is_none();
            return if ended { Ok(()) } else { Err(format!("it hangs at {step:?}: {world:#?}")) };
        };
        world = next;
    }
    Err(format!("it never ends: {world:#?}"))
}

#[test]
fn no_order_of_events_runs_old_data_in_front_of_clients() {
    let (states, epochs) = explore(2, Bug::None).unwrap();
    assert!(states > 250, "{states}");
    assert_eq!(epochs, BTreeSet::from([1, 2, 3]), "turned back, restored once, restored twice");
}

/// Nobody has confirmed that what it holds may be lost.
#[test]
fn an_etcd_that_answers_again_is_not_stopped_by_itself() {
    let mut world = World::new(1);
    world.request = Some((1, None));
    let RestoreStep::Write(record) = world.step(Bug::None) else { panic!("{world:?}") };
    let id = record.operation.as_ref().map(|o| o.id);
    for (unconfirmed, serves, stops) in [(true, true, false), (true, false, true), (false, true, true)] {
        let request = RestoreRequest { uid: "1".into(), unconfirmed, ..RestoreRequest::default() };
        let view = RestoreView {
            now: time(),
            request: Some(&request),
            is_formed: true,
            obstacle: None,
            clients_stopped: id,
            has_cluster: true,
            serves,
            is_down: false,
            is_up: false,
            target: "e-0".into(),
            record: &record,
        };
        assert_eq!(matches!(decide_restore(&view), RestoreStep::Write(_)), stops, "{unconfirmed} {serves}");
        assert!(matches!(
            decide_restore(&RestoreView { request: None, ..view }),
            RestoreStep::Write(record) if record.operation.is_none()
        ));
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Bug::TooEarly, Bug::NoEpoch, Bug::Clients, Bug::Again, Bug::AllMembers] {
        let found = explore(2, bug).err().unwrap_or_else(|| panic!("{bug:?} was not found"));
        let expected = bug != Bug::AllMembers || found.starts_with("more than one member begins an epoch");
        assert!(expected, "{bug:?}: {found}");
    }
}
