//! A tenant that sleeps, or is on its way into a sleep or out of it.

use crate::tests::Fixture;
use crate::tests::sleep_by_time::office;
use berth_api::names;
use berth_plan::observed::ApiProbe;
use berth_render::Kind;
use jiff::SignedDuration;
use serde_json::json;

/// With the status as it is then.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let falling = || {
        let mut f = Fixture::awake();
        f.wants_sleep(true);
        f
    };
    let held = |text, happens: fn(&mut Fixture)| {
        let mut f = Fixture::awake();
        happens(&mut f);
        f.wants_sleep(true);
        (text, f)
    };
    let with_status = |change: fn(&mut berth_api::cluster::ClusterStatus)| {
        let mut f = Fixture::awake();
        f.cluster.spec.hibernation.enabled = true;
        change(f.cluster.status.as_mut().unwrap());
        f.reconcile();
        f
    };
    let mut waking = Fixture::asleep();
    waking.wants_sleep(false);
    let mut changed = Fixture::asleep();
    changed.cluster.spec.version = "1.36.4".into();
    changed.reconcile();
    let mut woken = changed.copy();
    woken.wants_sleep(false);
    let mut late = falling();
    late.world.now += SignedDuration::from_mins(10);
    late.reconcile();
    late.comes_up();
    let mut new = Fixture::new(json!({"version": "1.36.3", "hibernation": {"enabled": true}}));
    for _ in 0..2 {
        new.reconcile();
    }
    vec![
        ("it is to sleep, and its pods end", falling()),
        ("it is to sleep, and its API servers have ended", {
            let mut f = falling();
            f.all_end();
            f
        }),
        ("it sleeps, since somebody asked for it", {
            let mut f = Fixture::awake();
            f.requests("sleep");
            f.all_end();
            f.etcd_sleeps();
            f
        }),
        ("it sleeps", Fixture::asleep()),
        ("it sleeps, and another version is asked for", changed),
        ("it wakes", waking),
        ("it wakes, and another version is asked for", woken),
        ("it did not come to sleep in time", late),
        ("it is created asleep", new),
        held("it is to sleep, and a pod is not ready", |f| {
            let api = f.world.observed.objects.get_mut(&Fixture::key(Kind::Deployment, names::APISERVER)).unwrap();
            api["status"]["availableReplicas"] = 0.into();
        }),
        held("it is to sleep, and a member of etcd is added", |f| {
            let etcd = f.world.observed.objects.get_mut(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
            etcd["status"]["operation"] =
                json!({"id": 3, "type": "Grow", "target": "etcd-1", "phase": "Add", "since": "2026-01-01T00:00:00Z"});
        }),
        held("it is to sleep, and etcd is not ready", |f| {
            let etcd = f.world.observed.objects.get_mut(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
            etcd["status"]["conditions"][0]["status"] = "False".into();
            etcd["status"]["conditions"][0]["message"] = "etcd-2: it does not answer".into();
        }),
        held("it is to sleep, and a backup is taken", |f| f.pods_of(names::ETCD_BACKUP, Some("Running"))),
        held("it is to sleep, and an app is installed", |f| f.pods_of(names::APPS, Some("Running"))),
        (
            "it is to sleep, and a release is rolled out",
            with_status(|status| {
                status.rollout = Some(berth_api::cluster::RolloutStatus { revision: 7, ..Default::default() });
            }),
        ),
        (
            "it is to sleep, and the version changes",
            with_status(|status| {
                status.turn = Some(berth_api::cluster::TurnStatus {
                    to: "1.36.4".into(),
                    state: berth_api::cluster::TurnState::Running,
                    since: None,
                    until: None,
                    came_back: false,
                });
            }),
        ),
        ("it sleeps by a schedule", {
            let mut f = Fixture::with_schedules(office());
            f.goes_to("2026-02-05T19:00:00Z");
            f.all_end();
            f.etcd_sleeps();
            f
        }),
        ("its schedules sleep and wake at one minute", {
            Fixture::with_schedules(json!([{"sleep": "0 20 * * *"}, {"wake": "0 20 * * 1-5"}]))
        }),
        ("its schedule is none", Fixture::with_schedules(json!([{"sleep": "61 20 * * *"}]))),
        ("its schedule never comes", Fixture::with_schedules(json!([{"sleep": "0 20 30 2 *"}]))),
        (
            "its schedule has no time zone",
            Fixture::with_schedules(json!([{"wake": "0 7 * * *", "timeZone": "Mars/Base"}])),
        ),
        ("its schedule says nothing", Fixture::with_schedules(json!([{"timeZone": "UTC"}]))),
        ("it sleeps after a backup", {
            let mut f = Fixture::backed_up();
            f.with_a_schedule_of_backups();
            f.wants_sleep(true);
            f.all_end();
            f.backup_ends("Verified", "");
            f.etcd_sleeps();
            f
        }),
        ("a webhook would hold up its wake", Fixture::asleep_with_webhooks(1)),
        ("two webhooks would hold up its wake", Fixture::asleep_with_webhooks(2)),
        ("three webhooks would hold up its wake", Fixture::asleep_with_webhooks(3)),
        ("it is to sleep after a backup, and there is no store", {
            let mut f = Fixture::awake();
            f.cluster.spec.hibernation.backup_first = true;
            f.wants_sleep(true);
            f
        }),
        ("it is to sleep after a backup, and the operator has no image for that", {
            let mut f = Fixture::backed_up();
            f.settings.backups.image.clear();
            f.wants_sleep(true);
            f
        }),
        ("it is to sleep, and the backup before is taken", {
            let mut f = Fixture::backed_up();
            f.wants_sleep(true);
            f.all_end();
            f
        }),
        ("it is to sleep, and the backup before failed", {
            let mut f = Fixture::backed_up();
            f.wants_sleep(true);
            f.all_end();
            f.backup_ends("Failed", "no answer from the store");
            f.comes_up();
            f
        }),
        ("it is to sleep, and the API does not answer", {
            let mut f = Fixture::awake();
            f.world.observed.api = ApiProbe::Failed("refused".into());
            f.reconcile();
            f.wants_sleep(true);
            f
        }),
    ]
}
