//! The backup before a sleep, through the world of a plan; and webhooks that hold up the wake.

use super::*;
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_api::labels;
use berth_plan::admission::Webhook;
use berth_plan::settings::BackupStore;
use jiff::SignedDuration;

impl Fixture {
    /// Awake, with a store, and a backup before each sleep.
    pub(super) fn backed_up() -> Self {
        let mut f = Self::awake();
        f.settings.backups.image = "backup:1".into();
        f.settings.backups.stores.push(BackupStore {
            name: "main".into(),
            store: berth_api::backup::Store {
                endpoint: "https://s3:9000".into(),
                ..berth_api::backup::Store::default()
            },
            prefix: String::new(),
            secret: "s3".into(),
            namespaces: vec![],
        });
        f.cluster.spec.hibernation.backup_first = true;
        f.reconcile();
        // etcd takes up that it has a client for backups.
        f.others();
        f.reconcile();
        f
    }

    /// It has one of its own, that names a store of the team's.
    pub(super) fn with_a_schedule_of_backups(&mut self) {
        let schedule = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": {"name": "nightly", "namespace": "team-a"},
            "spec": {"clusterRef": {"name": "acme"}, "secretRef": {"name": "own"}, "schedule": "0 3 * * *"}});
        self.world.put(ObjectKey::namespaced(Kind::EtcdBackupSchedule, "team-a", "nightly"), schedule);
    }

    /// Asleep, with so many webhooks in it that are asked about leases.
    pub(super) fn asleep_with_webhooks(count: usize) -> Self {
        let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["leases"]}]);
        let client = json!({"service": {"namespace": "policy", "name": "engine"}});
        let webhook = json!({"name": "leases.policy.example.com", "clientConfig": client, "rules": rules});
        let configuration = json!({"metadata": {"name": "policy"}, "webhooks": vec![webhook; count]});
        let mut f = Self::awake();
        f.world.observed.webhooks = Webhook::of("validatingwebhookconfiguration", &configuration);
        f.wants_sleep(true);
        f.world.observed.webhooks.clear();
        f.all_end();
        f.etcd_sleeps();
        f
    }

    /// The `EtcdBackup`s before sleeps, by name.
    fn sleep_backups(&self) -> Vec<(String, Value)> {
        let all = self.world.observed.of_kind(Kind::EtcdBackup, "team-a");
        all.map(|(key, live)| (key.name.clone(), live.clone())).collect()
    }

    /// The last one ends so.
    pub(super) fn backup_ends(&mut self, phase: &str, message: &str) {
        let (key, _) = self.world.observed.of_kind(Kind::EtcdBackup, "team-a").last().expect("a backup");
        let key = key.clone();
        let live = self.world.observed.objects.get_mut(&key).unwrap();
        let ready = json!({"type": "Ready", "status": "False", "reason": "X", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        live["status"] = json!({"phase": phase, "conditions": [ready]});
        self.reconcile();
    }

    fn slept(&self) -> SleepRecord {
        let live = self.world.observed.get(&Self::namespace()).unwrap();
        SleepRecord::parse(live["metadata"]["annotations"][labels::SLEEP].as_str().unwrap()).unwrap()
    }

    fn tells_etcd(&self) -> bool {
        let etcd = self.world.observed.get(&Self::key(Kind::EtcdCluster, names::ETCD)).unwrap();
        etcd["spec"]["hibernation"]["enabled"] == true
    }
}

#[test]
fn the_last_revision_is_backed_up_once_nothing_writes_and_before_etcd_stops() {
    let mut f = Fixture::backed_up();
    f.wants_sleep(true);
    for name in [names::CONTROLLER_MANAGER, names::SCHEDULER] {
        f.ends(name);
    }
    assert!(f.sleep_backups().is_empty(), "API servers may write still");
    f.ends(names::APISERVER);
    let [(name, backup)] = &f.sleep_backups()[..] else { panic!("one backup: {:?}", f.sleep_backups()) };
    assert_eq!(name, "asleep-acme-20260101000000");
    let spec = json!({"clusterRef": {"name": "acme"}, "store": "main", "deletionPolicy": "Delete"});
    assert_eq!((&backup["spec"], f.tells_etcd()), (&spec, false));
    let (ready, reason, message) = f.condition("Ready");
    assert_eq!((&*ready, &*reason), ("False", "FallingAsleep"), "{message}");
    assert!(message.contains("EtcdBackup team-a/asleep-acme-20260101000000 to be proven"), "{message}");
    assert_eq!(f.condition("Available").0, "False");
    f.world.log.clear();
    f.world.now += SignedDuration::from_mins(40);
    let last = f.reconcile();
    assert!(f.world.log.is_empty(), "it is waited for: {:#?}", f.world.log);
    assert!(last.due.is_some_and(|due| due <= SignedDuration::from_secs(15)), "{:?}", last.due);
    f.backup_ends("Verified", "");
    assert_eq!(f.slept().backup.as_deref(), Some("asleep-acme-20260101000000"));
    assert!(f.world.log[0].contains("Namespace") && f.tells_etcd(), "the record first: {:#?}", f.world.log);
    f.etcd_sleeps();
    assert_eq!((f.slept().state, f.slept().backup.is_some()), (SleepState::Asleep, true));
    // Whatever becomes of it, the tenant sleeps on.
    f.world.observed.objects.retain(|key, _| key.kind != Kind::EtcdBackup);
    f.reconcile();
    assert_eq!((f.slept().state, f.tells_etcd()), (SleepState::Asleep, true));
}

#[test]
fn a_backup_that_fails_wakes_it_and_it_is_tried_again_after_a_while() {
    let mut f = Fixture::backed_up();
    f.wants_sleep(true);
    f.all_end();
    f.backup_ends("Failed", "no answer from the store");
    assert_eq!((f.slept().state, f.tells_etcd()), (SleepState::Waking, false));
    f.comes_up();
    assert_eq!((f.slept().state, f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
    let (ready, reason, message) = f.condition("Ready");
    assert_eq!((&*ready, &*reason), ("True", "FallingAsleep"));
    assert!(message.contains("the next try at 2026-01-01T02:00:00Z, since EtcdBackup team-a/asleep-acme-20260101000000, the backup before the sleep, failed: no answer from the store"), "{message}");
    f.world.log.clear();
    f.world.now += SignedDuration::from_mins(119);
    f.reconcile();
    assert!(f.world.log.is_empty(), "nothing is tried before: {:#?}", f.world.log);
    f.world.now += SignedDuration::from_mins(1);
    f.reconcile();
    f.all_end();
    let names: Vec<_> = f.sleep_backups().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["asleep-acme-20260101020000"], "the failed one is old news");
    f.backup_ends("Verified", "");
    f.etcd_sleeps();
    assert_eq!(f.slept().state, SleepState::Asleep);
    // The next sleep's takes the place of this one.
    f.wants_sleep(false);
    f.comes_up();
    f.world.now += SignedDuration::from_hours(1);
    f.wants_sleep(true);
    f.all_end();
    assert_eq!(f.sleep_backups().len(), 2, "until the new one is proven");
    f.backup_ends("Verified", "");
    assert_eq!(f.sleep_backups().len(), 1);
}

#[test]
fn without_a_store_it_stays_awake_and_says_what_to_do() {
    let mut f = Fixture::backed_up();
    f.settings.backups.stores.clear();
    f.wants_sleep(true);
    assert_eq!(f.replicas(), [1, 1, 1]);
    let (ready, reason, message) = f.condition("Ready");
    assert_eq!((&*ready, &*reason), ("False", "InvalidSpec"), "{message}");
    assert!(message.contains("spec.hibernation.backupFirst: there is no store for a backup"), "{message}");
    // A schedule of its own names one.
    f.with_a_schedule_of_backups();
    f.reconcile();
    f.all_end();
    assert_eq!(f.sleep_backups()[0].1["spec"]["secretRef"], json!({"name": "own"}));
}

#[test]
fn what_is_asked_about_leases_nodes_or_pods_is_named_before_it_sleeps() {
    let webhook = |resource: &str, client: Value, selector: Value| {
        let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [resource]}]);
        json!({"name": format!("{resource}.policy.example.com"), "clientConfig": client, "rules": rules, "namespaceSelector": selector})
    };
    let service = json!({"service": {"namespace": "policy", "name": "engine"}});
    let exempt = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]});
    let said = |webhooks: Value| {
        let mut f = Fixture::awake();
        let configuration = json!({"metadata": {"name": "policy"}, "webhooks": webhooks});
        f.world.observed.webhooks = Webhook::of("validatingwebhookconfiguration", &configuration);
        f.wants_sleep(true);
        f.world.observed.webhooks.clear();
        f.all_end();
        f.etcd_sleeps();
        (f.slept().hindrance, f.condition("Ready").2)
    };
    let (recorded, message) = said(json!([
        webhook("pods", service.clone(), exempt.clone()),
        webhook("leases", service.clone(), json!({})),
        webhook("nodes", service.clone(), json!({})),
    ]));
    let wanted = "webhook leases.policy.example.com of validatingwebhookconfiguration policy in the tenant and one more may hold up the wake: it is asked about leases, and answered for by Service policy/engine";
    assert!(recorded.unwrap().starts_with(wanted));
    assert!(message.contains(wanted), "{message}");
    let url = json!({"url": "https://policy.example.com"});
    let harmless = json!([
        webhook("pods", service.clone(), exempt),
        webhook("leases", url, json!({})),
        webhook("secrets", service, json!({})),
    ]);
    assert_eq!(said(harmless).0, None);
}

#[test]
fn webhooks_are_looked_at_only_where_it_is_about_to_sleep() {
    let looks = |f: &Fixture| crate::falls_asleep(f.input());
    let mut f = Fixture::awake();
    assert!(!looks(&f));
    f.cluster.spec.hibernation.enabled = true;
    assert!(looks(&f));
    f.reconcile();
    assert!(!looks(&f), "it falls asleep");
}
