//! The tenant's etcd is restored: nothing that uses it runs meanwhile.

use super::*;
use berth_api::labels;
use berth_plan::RunLevel;

impl Fixture {
    /// The `EtcdCluster` says that it restores, at that step.
    pub(super) fn etcd_restores(&mut self, phase: &str) {
        let etcd = self.world.observed.objects.get_mut(&Self::key(Kind::EtcdCluster, names::ETCD)).unwrap();
        let at =
            json!({"id": 7, "type": "Restore", "target": "etcd-0", "phase": phase, "since": "2026-01-01T00:00:00Z"});
        etcd["status"]["operation"] = if phase.is_empty() { Value::Null } else { at };
    }

    pub(super) fn pods_of(&mut self, name: &str, phase: Option<&str>) {
        let key = Self::key(Kind::Pod, name);
        match phase {
            Some(phase) => {
                let labels = json!({"app.kubernetes.io/component": name});
                self.world.put(key, json!({"metadata": {"labels": labels}, "status": {"phase": phase}}));
            }
            None => _ = self.world.observed.objects.remove(&key),
        }
    }

    pub(super) fn replicas(&self) -> Vec<i64> {
        let of =
            |name| self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap()["spec"]["replicas"].clone();
        components().map(|name| of(name).as_i64().unwrap()).collect()
    }

    fn run_level(&self) -> RunLevel {
        let (observed, now) = (&self.world.observed, self.world.now);
        Facts::judge(Input { object: &self.cluster, observed, settings: &self.settings, now }).tenant().run_level
    }

    /// Everything that there is, but for how many pods there are to be.
    fn all_but_replicas(&self) -> BTreeMap<ObjectKey, Value> {
        let mut all = self.world.observed.objects.clone();
        for live in all.values_mut() {
            live["status"] = Value::Null;
            for (part, field) in [
                ("spec", "replicas"),
                ("spec", "clientsStopped"),
                ("metadata", "generation"),
                ("metadata", "resourceVersion"),
            ] {
                live[part].as_object_mut().map(|fields| fields.remove(field));
            }
        }
        all
    }

    fn told_stopped(&self) -> Value {
        let etcd = self.world.observed.get(&Self::key(Kind::EtcdCluster, names::ETCD)).unwrap();
        etcd["spec"]["clientsStopped"].clone()
    }
}

#[test]
fn what_uses_etcd_stops_says_so_and_comes_back() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let before = f.replicas();
    components().for_each(|name| f.pods_of(name, Some("Running")));
    f.etcd_restores("WaitingForClients");
    f.reconcile();
    assert_eq!(f.replicas(), [0, 0, 0], "{:#?}", f.world.log);
    assert_eq!(f.told_stopped(), Value::Null, "their pods are there");
    components().for_each(|name| f.roll_out(name));
    f.pods_of(names::APISERVER, None);
    f.pods_of(names::SCHEDULER, None);
    f.reconcile();
    assert_eq!(f.told_stopped(), Value::Null, "one pod is left");
    f.pods_of(names::CONTROLLER_MANAGER, None);
    f.world.observed.api = ApiProbe::default();
    f.reconcile();
    assert_eq!(f.told_stopped(), 7);

    for phase in ["Stop", "Restore", "Start"] {
        f.etcd_restores(phase);
        f.world.log.clear();
        f.reconcile();
        assert_eq!((f.replicas(), f.told_stopped()), (vec![0, 0, 0], json!(7)), "{phase}: {:#?}", f.world.log);
        assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    }
    f.etcd_restores("Done");
    last(&mut f);
    assert_eq!((f.replicas(), f.told_stopped()), (before, Value::Null));
    f.etcd_restores("");
    let planned = last(&mut f);
    assert_eq!(planned.plan.first_problem(), None);
}

/// etcd's data is lost amid a step of a minor: components neither come up nor go back without it.
#[test]
fn a_minor_that_was_changing_goes_on_afterwards() {
    let restored = |f: &mut Fixture| {
        let (api, runs) = (f.world.observed.api.clone(), f.all_run());
        let served = f.note(labels::SERVED_MINOR);
        f.world.observed.api = ApiProbe::default();
        for phase in ["WaitingForClients", "Stop", "Restore", "Start"] {
            f.etcd_restores(phase);
            for _ in 0..3 {
                f.reconcile();
                components().for_each(|name| f.roll_out(name));
                f.later(7);
            }
            assert_eq!((f.replicas(), f.all_run()), (vec![0; 3], runs.clone()), "{phase}");
            assert_eq!((f.told_stopped(), f.note(labels::SERVED_MINOR)), (json!(7), served.clone()), "{phase}");
        }
        f.etcd_restores("Done");
        f.reconcile();
        f.etcd_restores("");
        f.reconcile();
        assert_ne!(f.replicas()[0], 0, "the others follow it");
        f.world.observed.api = api;
    };
    let upgrade = json!({"soak": "0s", "finalizeAfter": "168h"});
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": upgrade}));
    f.version("1.36.3");
    f.reconcile();
    assert_eq!(f.all_run(), ["1.36.3 as 1.35", "1.35.4", "1.35.4"]);
    restored(&mut f);
    f.rest();
    assert_eq!(
        (f.all_run(), f.condition("Ready").1),
        ([(); 3].map(|()| "1.36.3 as 1.35".to_owned()), "Emulating".into())
    );
    // Between the steps.
    restored(&mut f);
    f.rest();
    assert_eq!(f.condition("Ready").1, "Emulating");
    f.cluster.spec.upgrade.finalize_after = "0s".into();
    f.reconcile();
    assert_eq!((f.all_run()[0].as_str(), f.all_run()[1].as_str()), ("1.36.3", "1.36.3 as 1.35"));
    restored(&mut f);
    f.rest();
    assert_eq!((f.all_run(), f.note(labels::UPGRADE)), ([(); 3].map(|()| "1.36.3".to_owned()), None));
    assert_eq!(f.condition("Ready").1, "AsExpected", "{:?}", f.condition("Ready"));
    // And on the way back.
    let mut f =
        Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": {"soak": "0s", "finalizeAfter": "168h"}}));
    f.version("1.36.3");
    f.rest();
    f.version("1.35.4");
    f.reconcile();
    assert_eq!(f.all_run(), ["1.36.3 as 1.35", "1.35.4", "1.35.4"]);
    restored(&mut f);
    f.rest();
    assert_eq!((f.all_run(), f.note(labels::UPGRADE)), ([(); 3].map(|()| "1.35.4".to_owned()), None));
}

#[test]
fn a_spec_that_changes_meanwhile_starts_nothing() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.etcd_restores("Restore");
    f.reconcile();
    f.cluster.spec.replicas = 3;
    f.cluster.spec.version = "1.36.2".into();
    f.reconcile();
    assert_eq!(f.replicas(), [0, 0, 0]);
    f.etcd_restores("");
    last(&mut f);
    assert_eq!(f.replicas()[0], 3);
}

#[test]
fn at_each_run_level_components_have_their_pods_and_everything_else_stays() {
    for (phase, level) in
        [("", RunLevel::Up), ("WaitingForClients", RunLevel::ClientsStopped), ("Restore", RunLevel::Down)]
    {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        let (replicas, before) = (f.replicas(), f.all_but_replicas());
        f.etcd_restores(phase);
        assert_eq!(f.run_level(), level);
        f.reconcile();
        assert_eq!(f.replicas(), if level == RunLevel::Up { replicas } else { vec![0; 3] }, "{level:?}");
        assert_eq!(f.all_but_replicas(), before, "{level:?}");
    }
}
