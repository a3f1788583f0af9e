//! A member and its volume go only while those who stay have all that they have.

use super::*;

fn claim(i: i32) -> ObjectKey {
    Etcd::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{i}"))
}

impl Etcd {
    /// So many entries of the log are not applied yet by a member.
    pub(super) fn lags(&mut self, i: i32, lag: u64) {
        let said = self.probe().members.values_mut().flatten();
        said.for_each(|m| (m.progress.raft_index, m.progress.applied_index) = (5000, 5000));
        let member = self.probe().members.get_mut(&format!("etcd-{i}")).unwrap().as_mut().unwrap();
        member.progress.applied_index = 5000 - lag;
    }

    fn has_removed(&self) -> bool {
        self.world.log.iter().any(|line| line.starts_with("remove member a2"))
    }
}

#[test]
fn nobody_goes_while_one_that_stays_is_behind() {
    let mut e = Etcd::formed(3);
    e.lags(1, 1000);
    e.cr.spec.replicas = 1;
    e.reconcile();
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("member etcd-1, which stays, has not caught up"), "{said}");
    assert!(!e.has_removed() && e.cr.status.as_ref().unwrap().operation.is_none(), "{:#?}", e.world.log);
    e.lags(1, 999);
    e.reconcile();
    assert!(e.has_removed(), "{:#?}", e.world.log);
}

#[test]
fn nobody_goes_while_the_volume_of_one_that_stays_does() {
    let mut e = Etcd::formed(3);
    let kept = e.get(&claim(0)).clone();
    e.world.remove(&claim(0));
    e.cr.spec.replicas = 1;
    e.reconcile();
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("PersistentVolumeClaim data-etcd-0 of a member that stays does not exist"), "{said}");
    assert!(!e.has_removed(), "{:#?}", e.world.log);
    e.world.put(claim(0), kept);
    e.reconcile();
    assert!(e.has_removed(), "{:#?}", e.world.log);
}

/// It was removed, and its pod ends.
#[test]
fn a_volume_goes_only_once_the_others_have_caught_up() {
    let removed = || {
        let mut e = Etcd::formed(3);
        e.cr.spec.replicas = 1;
        e.reconcile();
        assert!(e.has_removed(), "{:#?}", e.world.log);
        e.probe().members.remove("etcd-2");
        e.lags(0, 1000);
        e.members_run();
        e.reconcile();
        e
    };
    let mut e = removed();
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("etcd-2 to be removed: member etcd-0, which stays, has not caught up"), "{said}");
    assert!(e.world.observed.get(&claim(2)).is_some());
    e.lags(0, 0);
    e.reconcile();
    assert!(e.world.observed.get(&claim(2)).is_none(), "{:#?}", e.world.log);
    // What helps that one must not wait for this for ever.
    let mut e = removed();
    e.passes(600);
    e.reconcile();
    assert!(e.cr.status.as_ref().unwrap().operation.is_none(), "{}", e.message(ConditionType::Ready));
    assert!(e.world.observed.get(&claim(2)).is_some(), "it is kept");
}
