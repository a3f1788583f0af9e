//! `recovery: Automatic` through the world of a plan: what is proven, what is created, and what is said.

use super::*;
use berth_api::backup::Store;
use berth_api::etcd_recovery::Recovery;
use berth_api::{labels, names};
use berth_plan::settings::BackupStore;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const TEAM: &str = "team-a";

/// Labels of the etcd of a `Cluster`.
pub(super) fn of_a_tenant() -> std::collections::BTreeMap<String, String> {
    let of = [(labels::CLUSTER_NAME, "acme"), (labels::CLUSTER_NAMESPACE, TEAM)];
    of.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

impl Etcd {
    /// A tenant's, which is restored by itself, with a store.
    pub(super) fn automatic(replicas: i32) -> Self {
        let mut e = Self::formed(replicas);
        e.is_automatic();
        e
    }

    pub(super) fn is_automatic(&mut self) {
        self.cr.spec.recovery = Recovery::Automatic;
        self.cr.metadata.labels = Some(of_a_tenant());
        self.settings.backups.image = "backup:1".into();
        let store = Store {
            endpoint: "http://s3:9000".into(),
            bucket: "b".into(),
            region: "r".into(),
            path_style: true,
            ..Store::default()
        };
        let store =
            BackupStore { name: "main".into(), store, prefix: String::new(), secret: "s3".into(), namespaces: vec![] };
        self.settings.backups.stores.push(store);
    }

    /// These lost their volumes, and nobody else answers than those of the rest.
    pub(super) fn lose(&mut self, lost: &[i32], answer: &[i32]) {
        for i in lost {
            self.held(&format!("etcd-{i}"), &format!("DataLost: the volume of etcd member etcd-{i} is empty"));
        }
        self.answer(answer, 0);
    }

    /// As often as it takes until nothing changes by itself.
    pub(super) fn looks_on(&mut self) {
        for _ in 0..3 {
            self.reconcile();
            self.passes(30);
        }
    }

    pub(super) fn passes_by(&mut self, seconds: i64) {
        self.passes(seconds);
        self.reconcile();
    }

    /// The `EtcdRestore`s that were created.
    fn restores(&self) -> Vec<&Value> {
        self.world.observed.of_kind(Kind::EtcdRestore, TEAM).map(|(_, o)| o).collect()
    }

    /// A verified backup of it.
    pub(super) fn backed_up(&mut self, taken: &str) {
        let status = json!({"phase": "Verified", "identity": "first-uid", "epoch": 1, "takenAt": taken, "key": "k", "sha256": "ab"});
        self.world.put(
            ObjectKey::namespaced(Kind::EtcdBackup, TEAM, format!("at-{}", &taken[..4])),
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
                "metadata": {"name": format!("at-{}", &taken[..4]), "namespace": TEAM, "creationTimestamp": taken},
                "spec": {"clusterRef": {"name": "acme"}, "store": "main"}, "status": status,
            }),
        );
    }

    /// A restore found it damaged.
    pub(super) fn damage(&mut self, year: &str) {
        let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, format!("at-{year}"));
        let status = &mut self.edit(&key)["status"];
        status["phase"] = "Failed".into();
        status["damaged"] = json!({"at": "2026-01-01T00:00:00Z", "by": "EtcdRestore r", "message": "cut"});
    }

    /// What became of the last restore.
    pub(super) fn restore_is(&mut self, status: &Value) {
        let key = self.world.observed.of_kind(Kind::EtcdRestore, TEAM).last().unwrap().0.clone();
        self.edit(&key)["status"] = status.clone();
    }

    fn recovery(&self) -> Option<&berth_api::etcd_recovery::RecoveryStatus> {
        self.cr.status.as_ref().unwrap().recovery.as_ref()
    }
}

#[test]
fn what_a_member_holds_that_is_left_is_restored_once_the_loss_has_lasted() {
    let mut e = Etcd::automatic(3);
    e.lose(&[0, 1], &[2]);
    e.reconcile();
    assert!(e.restores().is_empty(), "it has to last");
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::Restoring));
    assert_eq!(e.condition(ConditionType::Degraded), is("True", Reason::Restoring));
    e.looks_on();
    let [restore] = e.restores()[..] else { panic!("{:#?}", e.world.log) };
    assert_eq!(restore["spec"]["source"], json!({"survivors": {"store": "main"}}));
    assert_eq!(restore["spec"]["clusterRef"], json!({"name": "acme"}));
    assert!(restore["spec"]["confirm"].is_null(), "an etcd that answers again is left alone");
    assert_eq!(restore["metadata"]["labels"][labels::RECOVERY], "first-uid");
    let name = restore["metadata"]["name"].clone();
    e.looks_on();
    assert_eq!(e.restores().len(), 1, "once");
    // Whoever is left has to answer for its backup, whatever clients were told.
    let left: Vec<_> = e.recovery().unwrap().left.iter().map(|l| (&*l.name, &*l.url)).collect();
    assert_eq!(left, [("etcd-2", "https://etcd-2.acme-9201d5e7.svc:2379")]);
    assert_eq!(e.recovery().unwrap().restore, Some(format!("{TEAM}/{}", name.as_str().unwrap())));
    assert_eq!((e.replicas(), e.bootstrap()["epoch"].clone()), (3, json!(1)), "nothing else is touched");
    // Its way is that of any restore; then the record says what is missing.
    e.restore_is(&json!({"phase": "Restored", "backup": "s", "takenAt": "2026-01-01T00:00:00Z", "restoredAt": "2026-01-01T00:02:00Z"}));
    e.all_answer();
    e.reconcile();
    let status = e.recovery().unwrap();
    assert!(status.restored_at.is_some() && status.taken_at.is_some(), "{status:?}");
}

/// Whoever creates an `EtcdCluster` writes its labels.
#[test]
fn labels_give_no_say_in_another_namespace() {
    for (namespace, cluster) in [("team-b", "acme"), (TEAM, "other"), ("", "")] {
        let mut e = Etcd::automatic(3);
        let of = [(labels::CLUSTER_NAME, cluster), (labels::CLUSTER_NAMESPACE, namespace)];
        e.cr.metadata.labels = Some(of.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        assert!(!berth_plan::etcd_home::is_tenants(&e.cr));
        e.lose(&[0, 1], &[2]);
        assert!(e.settings.backups.stores[0].namespaces.is_empty());
        e.looks_on();
        assert!(e.world.observed.of_kind(Kind::EtcdRestore, NAMESPACE).next().is_none(), "the store is for Clusters");
        e.settings.backups.stores[0].namespaces.push(NAMESPACE.into());
        assert_eq!(crate::recovers(&e.cr, &e.world.observed).as_deref(), Some(NAMESPACE));
        e.looks_on();
        let (key, restore) = e.world.observed.objects.iter().find(|(key, _)| key.kind == Kind::EtcdRestore).unwrap();
        assert_eq!(key.namespace.as_deref(), Some(NAMESPACE), "where it is itself");
        assert_eq!(
            (&restore["spec"]["etcdClusterRef"], &restore["spec"]["clusterRef"]),
            (&json!({"name": NAME}), &Value::Null)
        );
    }
    let e = Etcd::automatic(3);
    assert!(berth_plan::etcd_home::is_tenants(&e.cr));
}

#[test]
fn a_quorum_that_is_away_or_that_may_come_back_is_left_alone() {
    let lost: [&dyn Fn(&mut Etcd); 6] = [
        &|e| e.answer(&[], 0),
        &|e| e.lose(&[0], &[1, 2]),
        // One is lost, one is away.
        &|e| e.lose(&[0], &[1]),
        &|e| {
            e.lose(&[0, 1], &[2]);
            e.cr.spec.recovery = Recovery::Manual;
        },
        &|e| {
            e.lose(&[0, 1], &[2]);
            e.cr.spec.paused = true;
        },
        // Somebody mixes volumes up.
        &|e| {
            e.lose(&[0, 1], &[]);
            e.held("etcd-2", "ForeignData: the volume of etcd member etcd-2 holds another's");
        },
    ];
    for (i, change) in lost.iter().enumerate() {
        let mut e = Etcd::automatic(3);
        change(&mut e);
        e.looks_on();
        assert!(e.restores().is_empty() && e.recovery().is_none(), "{i}: {:#?}", e.world.log);
    }
    let mut e = Etcd::automatic(3);
    e.lose(&[0, 1], &[]);
    e.looks_on();
    assert!(e.restores().is_empty(), "etcd-2 is not lost, and may hold more than any backup");
    assert!(e.message(ConditionType::Ready).contains("member etcd-2 to answer"), "{}", e.message(ConditionType::Ready));
}

#[test]
fn where_nothing_is_left_the_newest_backup_is_restored() {
    for n in [1, 3] {
        let mut e = Etcd::automatic(n);
        e.backed_up("2025-01-01T00:00:00Z");
        e.backed_up("2024-01-01T00:00:00Z");
        let lost: Vec<i32> = (0..n).collect();
        e.lose(&lost, &[]);
        e.looks_on();
        let [restore] = e.restores()[..] else { panic!("{:#?}", e.world.log) };
        assert_eq!(restore["spec"]["source"], json!({"backup": "at-2025"}));
        let taken: Time = serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
        assert_eq!(e.recovery().unwrap().taken_at, Some(taken));
    }
    let mut e = Etcd::automatic(1);
    e.lose(&[0], &[]);
    e.looks_on();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::DataLost));
    assert!(e.message(ConditionType::Ready).contains("No verified EtcdBackup"), "{}", e.message(ConditionType::Ready));
}

#[test]
fn one_that_is_found_damaged_is_followed_by_the_next_older_one_by_itself() {
    let mut e = Etcd::automatic(1);
    e.backed_up("2025-01-01T00:00:00Z");
    e.backed_up("2024-01-01T00:00:00Z");
    e.lose(&[0], &[]);
    e.looks_on();
    assert_eq!(e.restores().len(), 1);
    e.damage("2025");
    e.restore_is(&json!({"phase": "Failed", "backup": "at-2025"}));
    e.looks_on();
    let sources: Vec<_> = e.restores().into_iter().map(|r| r["spec"]["source"]["backup"].clone()).collect();
    assert_eq!(sources, ["at-2025", "at-2024"]);
    assert_eq!(e.recovery().unwrap().backup.as_deref(), Some("at-2024"));
}

/// Three others, whose recoveries began just now.
fn three_begin(e: &mut Etcd, place: impl Fn(&str) -> String, labels: impl Fn(&str) -> Value) {
    for n in ["a", "b", "c"] {
        let (name, now) = (place(n), e.world.now.to_string());
        e.world.put(
            ObjectKey::namespaced(Kind::EtcdCluster, &*name, format!("etcd-of-{n}")),
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
                "metadata": {"name": format!("etcd-of-{n}"), "namespace": name, "labels": labels(n)},
                "spec": {"version": "3.6.16", "recovery": "Automatic"},
                "status": {"recovery": {"since": now, "epoch": 1, "begun": now}},
            }),
        );
    }
}

fn labels_of(cluster: &str) -> Value {
    json!({labels::CLUSTER_NAMESPACE: TEAM, labels::CLUSTER_NAME: cluster})
}

#[test]
fn others_of_the_fleet_hold_it() {
    let mut e = Etcd::automatic(1);
    e.backed_up("2025-01-01T00:00:00Z");
    three_begin(&mut e, |cluster| names::control_plane_namespace(TEAM, cluster), labels_of);
    e.lose(&[0], &[]);
    e.looks_on();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::RecoveryHeld));
    assert!(e.restores().is_empty());
    e.passes_by(3600);
    e.looks_on();
    assert_eq!(e.restores().len(), 1, "an hour later it is its turn");
}

/// A team can lose the data of its own stand-alone etcds as often as it likes.
#[test]
fn those_of_stand_alone_etcds_hold_no_tenant_whatever_their_labels_say() {
    for labels in [|_: &str| json!({}), labels_of] {
        let mut e = Etcd::automatic(1);
        e.backed_up("2025-01-01T00:00:00Z");
        three_begin(&mut e, |_| "a-team".to_owned(), labels);
        e.lose(&[0], &[]);
        e.looks_on();
        assert_eq!(e.restores().len(), 1, "{:#?}", e.condition(ConditionType::Ready));
    }
}

/// One that is left, and then loses its volume, too, is left no more.
#[test]
fn who_is_lost_is_not_among_those_that_are_left() {
    let mut e = Etcd::automatic(3);
    e.lose(&[0, 1], &[2]);
    e.looks_on();
    let left = |e: &Etcd| e.recovery().unwrap().left.iter().map(|m| m.name.clone()).collect::<Vec<_>>();
    assert_eq!(left(&e), ["etcd-2"]);
    e.lose(&[0, 1, 2], &[]);
    e.reconcile();
    assert_eq!(left(&e), [""; 0]);
}

/// Whether a majority is lost depends on who votes, which is not known while that changes.
#[test]
fn whoever_may_vote_counts_for_the_quorum() {
    // Of etcd-0..2: lost, stage; whether it is proven.
    for (members, proven) in [
        ([(true, "Voter"), (true, "Voter"), (false, "Voter")], true),
        ([(true, "Voter"), (false, "Voter"), (false, "Leaving")], false),
        ([(true, "Voter"), (true, "Leaving"), (false, "Voter")], true),
        ([(true, "Voter"), (true, "Joining"), (false, "Voter")], true),
        ([(true, "Voter"), (false, "Joining"), (false, "Voter")], false),
        ([(false, "Voter"), (true, "Leaving"), (false, "Voter")], false),
    ] {
        let mut e = Etcd::automatic(3);
        let key = Etcd::key(Kind::ConfigMap, &names::etcd::bootstrap(NAME));
        let journal: Vec<Value> = (0..3)
            .map(|i| json!({"name": format!("etcd-{i}"), "id": format!("a{i}"), "peerURL": "https://x", "stage": members[i].1}))
            .collect();
        let note = e.get(&key)["metadata"]["annotations"][labels::ETCD_RECORD].as_str().unwrap();
        let mut record: Value = serde_json::from_str(note).unwrap();
        (record["serial"], record["members"]) = (7.into(), journal.into());
        e.edit(&key)["metadata"]["annotations"][labels::ETCD_RECORD] = record.to_string().into();
        let of = |lost: bool| (0..3).filter(|i| members[usize::try_from(*i).unwrap()].0 == lost).collect::<Vec<i32>>();
        e.lose(&of(true), &of(false));
        e.probe().list = None;
        e.reconcile();
        assert_eq!(e.recovery().is_some(), proven, "{members:?}: {}", e.message(ConditionType::Ready));
    }
}
