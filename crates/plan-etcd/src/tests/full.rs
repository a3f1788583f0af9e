//! A database that gets full while something else is under way: etcd takes changes of members and of the version, so what was begun ends,
//! and then room is made. What is made of a full database at rest is in `trouble.rs`.

use super::versions::{NEW, OLD};
use super::*;

impl Etcd {
    /// It is full, of what a compaction frees.
    pub(super) fn is_full(&mut self) {
        self.probe().alarms = vec![alarm("NOSPACE", 0)];
        self.probe().members.values_mut().flatten().for_each(|m| {
            (m.progress.db_size, m.progress.db_size_in_use, m.progress.quota) = (64 << 20, 20 << 20, 64 << 20);
        });
    }

    /// What was done to the database.
    fn kept(&self) -> Vec<&String> {
        let kinds = ["compact", "defragment", "disarm", "write a key"];
        self.world.log.iter().filter(|line| kinds.iter().any(|kind| line.starts_with(kind))).collect()
    }

    /// The change ends under the alarm; then the alarm does.
    fn ends_and_makes_room(&mut self, step: impl Fn(&mut Self)) {
        let under_way = |e: &Self| e.cr.status.as_ref().unwrap().operation.is_some();
        assert!(under_way(self), "{}", self.message(ConditionType::Ready));
        for _ in 0..40 {
            step(self);
            let has_ended = !under_way(self);
            assert!(has_ended || self.kept().is_empty(), "not meanwhile: {:#?}", self.world.log);
        }
        assert!(!under_way(self), "{}", self.message(ConditionType::Ready));
        assert!(self.kept().iter().any(|line| line.starts_with("disarm")), "{:#?}", self.world.log);
    }

    /// Some seconds, in which whoever was added runs and catches up.
    fn members_come(&mut self) {
        self.world.now += SignedDuration::from_secs(6);
        self.members_run();
        let learner = self.probe().list.iter().flatten().any(|m| m.learner);
        let target = self.cr.status.as_ref().unwrap().operation.as_ref().map(|o| o.target.clone()).unwrap_or_default();
        if learner && self.world.observed.get(&Self::key(Kind::Pod, &target)).is_some() {
            self.joins(target.trim_start_matches("etcd-").parse().unwrap(), 0);
        }
        self.reconcile();
    }
}

#[test]
fn a_member_that_is_being_added_comes_although_the_database_is_full() {
    let mut e = Etcd::formed(3);
    e.cr.spec.replicas = 5;
    e.reconcile();
    e.is_full();
    e.reconcile();
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("NOSPACE") && said.contains("waiting for member etcd-3 to be added"), "{said}");
    e.cr.spec.replicas = 4;
    e.ends_and_makes_room(Etcd::members_come);
    assert_eq!(e.replicas(), 4);
}

#[test]
fn a_lost_member_is_replaced_although_the_database_is_full() {
    let mut e = Etcd::formed(3);
    e.held("etcd-1", "DataLost: the volume of etcd member etcd-1 is empty");
    e.answer(&[0, 2], 0);
    e.is_full();
    e.reconcile();
    assert!(e.world.log.iter().any(|line| line.starts_with("remove member a1")), "{:#?}", e.world.log);
    e.ends_and_makes_room(Etcd::members_come);
}

#[test]
fn a_change_of_the_version_ends_although_the_database_is_full() {
    let mut e = Etcd::of_version(OLD, 3);
    e.asks_for(NEW);
    e.until_new(1);
    e.is_full();
    e.ends_and_makes_room(Etcd::turn);
    assert_eq!(e.cr.status.as_ref().unwrap().version.as_deref(), Some(NEW));
}

/// What waits for the alarm must not keep room from being made.
#[test]
fn room_is_made_before_a_change_begins() {
    let changes: [fn(&mut Etcd); 3] =
        [|e| e.cr.spec.replicas = 5, |e| e.cr.spec.replicas = 1, |e| e.cr.spec.version = NEW.into()];
    for change in changes {
        let mut e = Etcd::of_version(OLD, 3);
        e.is_full();
        change(&mut e);
        e.reconcile();
        assert!(e.cr.status.as_ref().unwrap().operation.is_none());
        assert_eq!(e.kept().len(), 1, "{:#?}", e.world.log);
    }
    // Unless the one that is to go is away.
    let mut e = Etcd::formed(3);
    e.answer(&[0, 1], 0);
    e.is_full();
    e.cr.spec.replicas = 1;
    e.reconcile();
    assert!(e.world.log.iter().any(|line| line.starts_with("remove member a2")), "{:#?}", e.world.log);
}
