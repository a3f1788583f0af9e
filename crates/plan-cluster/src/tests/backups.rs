//! The schedule that the platform gives.

use super::*;
use berth_api::backup_schedule::Keep;
use berth_plan::settings::{BackupStore, DefaultBackups};

fn fixture() -> Fixture {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.settings.backups.image = "backup:1".into();
    f.settings.backups.stores.push(BackupStore {
        name: "main".into(),
        store: berth_api::backup::Store { endpoint: "https://s3:9000".into(), ..berth_api::backup::Store::default() },
        prefix: String::new(),
        secret: "s3".into(),
        namespaces: vec![],
    });
    f.settings.backups.default = Some(DefaultBackups {
        store: "main".into(),
        schedule: "0 3 * * *".into(),
        time_zone: "UTC".into(),
        keep: Keep::default(),
    });
    f
}

/// Until the tenant is ready.
fn up(mut f: Fixture) -> Fixture {
    assert_eq!(last(&mut f).plan.first_problem(), None);
    f
}

fn key() -> ObjectKey {
    ObjectKey::namespaced(Kind::EtcdBackupSchedule, "team-a", "default-acme")
}

fn own(name: &str, of: &str) -> (ObjectKey, Value) {
    let spec = json!({"clusterRef": {"name": of}, "store": "main", "schedule": "0 1 * * *", "suspend": true});
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": name, "namespace": "team-a", "uid": name}, "spec": spec,
    });
    (ObjectKey::namespaced(Kind::EtcdBackupSchedule, "team-a", name), object)
}

#[test]
fn a_tenant_without_a_schedule_gets_the_platforms_and_gives_it_back() {
    let mut f = up(fixture());
    let live = f.world.observed.get(&key()).expect("it is given").clone();
    let schedule: berth_api::EtcdBackupSchedule = serde_json::from_value(live.clone()).expect("a valid one");
    assert_eq!((schedule.spec.store.name.as_str(), schedule.spec.schedule.as_str()), ("main", "0 3 * * *"));
    assert!(super::super::backups::is_default(&live));
    assert_eq!(f.plan().plan.actions().count(), 0, "at rest nothing is written");
    // Another tenant's is none of its own.
    let (other, object) = own("other", "initech");
    f.world.put(other, object);
    assert_eq!(f.plan().plan.actions().count(), 0);
    let (nightly, object) = own("nightly", "acme");
    f.world.put(nightly.clone(), object);
    f.reconcile();
    assert!(f.world.observed.get(&key()).is_none(), "its own one replaces it, also if that is suspended");
    f.world.observed.objects.remove(&nightly);
    f.reconcile();
    assert!(f.world.observed.get(&key()).is_some());
    f.settings.backups.default.as_mut().unwrap().schedule = "0 5 * * *".into();
    f.reconcile();
    assert_eq!(f.world.observed.get(&key()).unwrap()["spec"]["schedule"], "0 5 * * *");
    f.settings.backups.default = None;
    f.reconcile();
    assert!(f.world.observed.get(&key()).is_none(), "it is off by default");
}

#[test]
fn a_name_that_is_taken_holds_up_nothing_and_is_not_touched() {
    let mut f = fixture();
    let (taken, object) = own("default-acme", "initech");
    f.world.put(taken.clone(), object.clone());
    let f = up(f);
    assert_eq!(f.world.observed.get(&taken).unwrap()["spec"], object["spec"]);
}

#[test]
fn it_goes_with_its_tenant() {
    let mut f = up(fixture());
    f.cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(f.world.now));
    let gone =
        |f: &Fixture| f.plan().plan.actions().any(|a| a.describe().contains("EtcdBackupSchedule team-a/default-acme"));
    f.cluster.spec.deletion.protected = true;
    assert!(!gone(&f));
    f.cluster.spec.deletion.protected = false;
    assert!(gone(&f));
}
