//! Volumes that are to be larger. No resizer runs here: a stand-in says how large they are.

use super::*;

/// Whether the class lets volumes grow, what changes, and what is said then.
type Refused = (bool, fn(&mut Etcd), Reason, &'static str);

fn claim(i: i32) -> ObjectKey {
    Etcd::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{i}"))
}

impl Etcd {
    /// Three members on volumes of a class that lets them grow, or not.
    pub(super) fn on_a_class(grows: bool) -> Self {
        let mut e = Self::formed(3);
        let class = ObjectKey::cluster(Kind::StorageClass, "fast");
        e.world.put(class, json!({"metadata": {"name": "fast"}, "allowVolumeExpansion": grows}));
        for i in 0..3 {
            e.world.put(claim(i), json!({"spec": {"storageClassName": "fast"}}));
            e.volume_is(i, "10Gi");
        }
        e.world.log.clear();
        e
    }

    /// What the resizer does.
    pub(super) fn volume_is(&mut self, i: i32, size: &str) {
        self.world.put(claim(i), json!({"status": {"phase": "Bound", "capacity": {"storage": size}}}));
    }

    fn asks(&self) -> Vec<String> {
        let of =
            |i| self.get(&claim(i)).pointer("/spec/resources/requests/storage").unwrap().as_str().unwrap().to_owned();
        (0..self.replicas()).map(of).collect()
    }
}

#[test]
fn volumes_grow_one_after_the_other_and_nobody_restarts() {
    let mut e = Etcd::on_a_class(true);
    let template = e.get(&Etcd::set())["spec"]["volumeClaimTemplates"].clone();
    e.cr.spec.storage.size = "20Gi".into();
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "10Gi", "10Gi"]);
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("data-etcd-0 to grow from 10Gi to 20Gi"), "{said}");
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "10Gi", "10Gi"], "the first is not done");
    // What is done is that, in whatever unit.
    e.volume_is(0, "20480Mi");
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "20Gi", "10Gi"]);
    e.volume_is(1, "21Gi");
    e.reconcile();
    e.volume_is(2, "20Gi");
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
    let grown = (0..3).map(|i| format!("have {} grow to 20Gi", claim(i))).collect::<Vec<_>>();
    assert_eq!(e.world.log, grown, "nothing else is written");
    assert_eq!(e.get(&Etcd::set())["spec"]["volumeClaimTemplates"], template, "which cannot be changed");
    // A member that comes begins as large as the template says.
    e.world.put(claim(1), json!({"spec": {"resources": {"requests": {"storage": "10Gi"}}}}));
    e.world.put(claim(1), json!({"status": {"phase": "Pending", "capacity": null}}));
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "10Gi", "20Gi"], "it has no volume yet");
    e.volume_is(1, "10Gi");
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "20Gi", "20Gi"]);
}

#[test]
fn a_volume_grows_while_no_member_answers() {
    let mut e = Etcd::on_a_class(true);
    e.answer(&[], 0);
    e.cr.spec.storage.size = "20Gi".into();
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "10Gi", "10Gi"], "it may be full");
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::QuorumLost));
    e.cr.spec.paused = true;
    e.volume_is(0, "20Gi");
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "10Gi", "10Gi"], "paused");
}

#[test]
fn a_size_that_the_storage_cannot_give_is_taken_back_by_the_field() {
    let mut e = Etcd::on_a_class(true);
    let size = |e: &mut Etcd, size: &str| {
        e.cr.spec.storage.size = size.into();
        e.reconcile();
        (e.asks(), e.message(ConditionType::Ready))
    };
    size(&mut e, "20Ti");
    let infeasible = json!({"status": {"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}}});
    e.world.put(claim(0), infeasible);
    let (asks, said) = size(&mut e, "20Ti");
    assert_eq!(asks, ["20Ti", "10Gi", "10Gi"], "one at most");
    assert!(said.contains("Infeasible") && said.contains("to less than that, and more than 10Gi"), "{said}");
    let (asks, said) = size(&mut e, "10Gi");
    assert_eq!(asks[0], "20Ti", "Kubernetes would refuse it");
    assert!(said.contains("lets it ask for more than 10Gi in place of 20Ti"), "{said}");
    let (asks, _) = size(&mut e, "2Ti");
    assert_eq!(asks, ["2Ti", "10Gi", "10Gi"]);
    (0..3).for_each(|i| e.volume_is(i, "2Ti"));
    (0..3).for_each(|_| _ = e.reconcile());
    assert_eq!(e.asks(), ["2Ti"; 3]);
    let (asks, said) = size(&mut e, "1Ti");
    assert_eq!(asks, ["2Ti"; 3]);
    assert!(said.contains("1Ti is less than the 2Ti of") && said.contains("Set it back to 2Ti"), "{said}");
}

/// The pool is full after the first.
#[test]
fn a_size_that_only_a_later_claim_cannot_reach_is_taken_back_too() {
    let mut e = Etcd::on_a_class(true);
    e.cr.spec.storage.size = "20Gi".into();
    e.reconcile();
    e.volume_is(0, "20Gi");
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "20Gi", "10Gi"]);
    let infeasible = json!({"status": {"allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}}});
    e.world.put(claim(1), infeasible);
    e.reconcile();
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("data-etcd-1 to grow") && said.contains("to less than that, and more than 10Gi"), "{said}");
    e.cr.spec.storage.size = "10Gi".into();
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "20Gi", "10Gi"], "Kubernetes would refuse it");
    let said = e.message(ConditionType::Ready);
    assert!(said.contains("lets it ask for more than 10Gi in place of 20Gi"), "{said}");
    e.cr.spec.storage.size = "15Gi".into();
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "15Gi", "10Gi"]);
    e.world.put(claim(1), json!({"status": {"allocatedResourceStatuses": null}}));
    e.volume_is(1, "15Gi");
    e.reconcile();
    e.volume_is(2, "15Gi");
    e.reconcile();
    assert_eq!(e.asks(), ["20Gi", "15Gi", "15Gi"]);
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected), "the first stays as it is");
}

#[test]
fn what_cannot_grow_is_said_and_all_else_goes_on() {
    let small = |e: &mut Etcd| e.cr.spec.storage.size = "5Gi".into();
    let large = |e: &mut Etcd| e.cr.spec.storage.size = "20Gi".into();
    let unclassed = |e: &mut Etcd| {
        e.cr.spec.storage.size = "20Gi".into();
        (0..3).for_each(|i| e.world.put(claim(i), json!({"spec": {"storageClassName": null}})));
    };
    let unread = |e: &mut Etcd| {
        e.cr.spec.storage.size = "20Gi".into();
        e.world.remove(&ObjectKey::cluster(Kind::StorageClass, "fast"));
    };
    let cases: [Refused; 4] = [
        (
            true,
            small,
            Reason::InvalidSpec,
            "5Gi is less than the 10Gi of PersistentVolumeClaim acme-9201d5e7/data-etcd-0, and volumes do not shrink. Set it back to 10Gi",
        ),
        (false, large, Reason::EtcdChangeUnsupported, "StorageClass fast does not let volumes grow"),
        (true, unclassed, Reason::EtcdChangeUnsupported, "has no StorageClass, so it stays at 10Gi"),
        (true, unread, Reason::EtcdChangeUnsupported, "StorageClass fast does not exist, or Berth may not read it"),
    ];
    for (grows, change, reason, said) in cases {
        let mut e = Etcd::on_a_class(grows);
        change(&mut e);
        e.reconcile();
        assert_eq!(e.condition(ConditionType::Ready), is("False", reason));
        let message = e.message(ConditionType::Ready);
        assert!(message.starts_with("spec.storage.size (spec.etcd.storage.size of its Cluster): "), "{message}");
        assert!(message.contains(said) && message.contains("Set it back to 10Gi; until then"), "{message}");
        assert_eq!(e.condition(ConditionType::Available).0, "True");
        assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
        // The rest of the spec takes effect.
        e.cr.spec.quota_backend_bytes = Some(4 << 30);
        e.reconcile();
        assert!(!e.world.log.is_empty());
    }
}

/// The class is read for it, and only for it.
#[test]
fn a_class_is_asked_for_while_a_volume_is_too_small() {
    let mut e = Etcd::on_a_class(true);
    let class = |e: &Etcd| super::super::storage_class(&e.cr, &e.world.observed);
    assert_eq!(class(&e), None);
    e.cr.spec.storage.size = "10240Mi".into();
    assert_eq!(class(&e), None);
    e.cr.spec.storage.size = "11Gi".into();
    assert_eq!(class(&e).as_deref(), Some("fast"));
}
