//! Situations of an `EtcdBackupSchedule`, for docs/reference/messages.md.

use super::*;
use berth_testkit::situations::Situation;

/// What happened, and how.
type Case = (&'static str, fn(&mut ScheduleFixture));

/// Each message that an `EtcdBackupSchedule` can have.
pub(crate) fn situations() -> Vec<Situation> {
    let all: &[Case] = &[
        ("a schedule is created, and its time has not come", |w| w.now = "2026-01-01T02:00:00Z".parse().unwrap()),
        ("its first backup is under way", |w| w.backup(1, "Running")),
        ("its last backup is proven", |w| w.backup(1, "Verified")),
        ("its last backup failed", |w| w.backup(1, "Failed")),
        ("its last backup was found damaged", |w| {
            w.backup(1, "Failed");
            let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, "nightly-202601010300");
            let status = &mut w.observed.objects.get_mut(&key).unwrap()["status"];
            status["damaged"] = json!({"at": "2026-01-01T03:00:00Z", "by": "EtcdRestore back", "message": "cut"});
            let said =
                "damaged since it was proven, as EtcdRestore back found: the snapshot in the store is cut or changed";
            (status["conditions"][1]["reason"], status["conditions"][1]["message"]) =
                ("BackupDamaged".into(), said.into());
        }),
        ("an older backup could not be read back", |w| {
            w.backup(1, "Verified");
            w.backup(2, "Verified");
            let read = json!({"name": "nightly-202601010300", "at": "2026-01-02T03:01:00Z", "message": "the store answers 404 Not Found", "failures": 2});
            let status = w.schedule.status.get_or_insert_default();
            status.read_back.push(serde_json::from_value(read).unwrap());
            w.now = "2026-01-02T04:00:00Z".parse().unwrap();
        }),
        ("its last backup waits when the next one is due", |w| {
            w.backup(1, "Waiting");
            w.now = "2026-01-02T04:00:00Z".parse().unwrap();
        }),
        ("its etcd sleeps", |w| {
            w.backup(1, "Verified");
            sleep(w);
        }),
        ("it is suspended", |w| w.schedule.spec.suspend = true),
        ("its schedule is none", |w| w.schedule.spec.schedule = "every night".into()),
        ("its schedule never comes", |w| w.schedule.spec.schedule = "0 0 30 2 *".into()),
        ("its time zone is none", |w| w.schedule.spec.time_zone = "Mars/Base".into()),
    ];
    let of = |(text, change): &(&'static str, fn(&mut ScheduleFixture))| {
        let mut world = ScheduleFixture::new();
        change(&mut world);
        world.reconcile();
        Situation::of("EtcdBackupSchedule", text, &world.schedule)
    };
    all.iter().map(of).collect()
}
