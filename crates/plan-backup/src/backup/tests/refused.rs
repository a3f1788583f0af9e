//! Jobs that get no pod: they take no place, and begin not all at once when they get one.

use super::deletion::{deleted, many_deleted, newer};
use super::places::{AFTER, BEFORE, begins};
use super::*;
use crate::backup::queue;
use berth_api::backup::BackupRef;
use berth_api::labels;
use berth_plan::backup_jobs::POD_AFTER;
use berth_plan::jobs::secret_beside;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

impl BackupFixture {
    /// The Job of another one that has had no pod for long.
    fn lacks_pod(&mut self, namespace: &str, name: &str) -> &mut BackupJob {
        let began = self.now - SignedDuration::from_secs(POD_AFTER);
        let seen = self.works(namespace, name, Pool::Platform);
        (seen.began, seen.had_pod) = (began, false);
        seen
    }

    fn is_at_home(&mut self, namespace: &str, name: &str) {
        let home = Self::home();
        self.lacks_pod(namespace, name).home = home;
    }
}

#[test]
fn jobs_without_a_pod_keep_nobody_waiting() {
    let mut world = BackupFixture::new();
    for n in 0..4 {
        world.lacks_pod(&format!("team-b{}", n / 2), &format!("b{n}"));
    }
    assert!(begins(&world));
    let now = world.now;
    for seen in Arc::make_mut(&mut world.observed.backup_jobs) {
        seen.began = now;
    }
    assert!(!begins(&world), "they are new, and may get one");
    for seen in Arc::make_mut(&mut world.observed.backup_jobs) {
        (seen.began, seen.had_pod) = (BEFORE.parse().unwrap(), true);
    }
    world.now = "2025-12-31T00:30:00Z".parse().unwrap();
    assert!(!begins(&world), "they have got theirs");
}

#[test]
fn where_one_job_gets_no_pod_the_next_one_waits_and_others_pass_it() {
    let mut world = BackupFixture::new();
    world.is_at_home(TEAM, "first");
    let said = world.says();
    assert!(said.starts_with("Queued Waiting: waiting for its turn: EtcdBackup team-a/first is first"), "{said}");
    // Those that wait in a namespace of that kind hold up nobody elsewhere.
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 1;
    world.other("team-b", "older", "Queued", BEFORE);
    assert!(!begins(&world));
    world.lacks_pod("team-b", "first").home = names::control_plane_namespace("team-b", "acme");
    assert!(begins(&world));
}

#[test]
fn who_was_refused_before_comes_last() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 1;
    world.other("team-b", "older", "Queued", BEFORE);
    let older = ObjectKey::namespaced(Kind::EtcdBackup, "team-b", "older");
    assert!(!begins(&world));
    world.observed.objects.get_mut(&older).unwrap()["status"]["reason"] = "Rejected".into();
    assert!(begins(&world));
    let mut own = world.plan();
    assert_eq!(own.phase, "Waiting");
    // It was refused itself: the other one is older.
    own.phase = "Running";
    world.backup.status = Some(refused_status(phase::RUNNING));
    assert!(!begins(&world));
    world.other("team-b", "older", "Queued", AFTER);
    world.observed.objects.get_mut(&older).unwrap()["status"]["reason"] = "Rejected".into();
    assert!(begins(&world));
}

fn refused_status(phase: &str) -> EtcdBackupStatus {
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "Rejected", "message": "", "lastTransitionTime": BEFORE,
    });
    serde_json::from_value(json!({"phase": phase, "conditions": [ready]})).unwrap()
}

#[test]
fn of_many_jobs_without_a_pod_the_youngest_are_deleted_with_their_keys() {
    let with = |older: usize| {
        let mut world = BackupFixture::new();
        world.settings.backups.concurrent = 2;
        world.ends("backup-one", None, &[]);
        let job = ObjectKey::namespaced(Kind::Job, BackupFixture::home(), "backup-one");
        let began = world.now - SignedDuration::from_secs(POD_AFTER);
        world.observed.objects.get_mut(&job).unwrap()["metadata"]["creationTimestamp"] = began.to_string().into();
        let keys = json!({"metadata": {
            "name": "backup-one", "namespace": BackupFixture::home(), "labels": BackupInput(world.input()).owner().labels,
        }});
        world.observed.objects.insert(secret_beside(&job), keys);
        for n in 0..older {
            let began = began - SignedDuration::from_secs(1);
            world.lacks_pod("team-b", &format!("b{n}")).began = began;
        }
        world
    };
    assert_eq!((with(1).plan().phase, described(&with(1).plan()).len()), ("Running", 0));
    let mut world = with(2);
    let gone = ["Secret", "Job"].map(|kind| format!("delete {kind} {}/backup-one", BackupFixture::home()));
    let (planned, status) = world.reconcile();
    assert_eq!(described(&planned), gone);
    assert_eq!(status.phase.as_deref(), Some("Queued"));
    let ready = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
    assert_eq!(ready.reason, "Rejected");
    assert!(ready.message.contains("2 others whose pods are refused keep theirs"), "{ready:?}");
    // Without a Job it says the same, and begins once there is room.
    world.observed.objects.retain(|key, _| !["backup-one"].contains(&&*key.name));
    assert_eq!((world.plan().phase, described(&world.plan()).len()), ("Queued", 0));
    assert_eq!(world.reconcile().1.conditions, status.conditions, "nothing is written anew");
    Arc::make_mut(&mut world.observed.backup_jobs).pop();
    assert!(begins(&world));
    // One with a pod stays, whatever a list said.
    let mut world = with(2);
    let job = world.observed.objects.iter_mut().find(|(key, _)| key.kind == Kind::Job).unwrap().1;
    job["status"]["active"] = 1.into();
    assert_eq!((world.plan().phase, described(&world.plan()).len()), ("Running", 0));
}

/// A team may create Jobs that never get a pod, and that look like those of its `EtcdBackup`s that are being deleted.
#[test]
fn a_team_that_forges_jobs_keeps_no_other_waiting_and_has_no_others_job_deleted() {
    let forged = |mut world: BackupFixture, count: usize| {
        for n in 0..count {
            let name = format!("forged-{n}");
            world.other("team-b", &name, phase::DELETING, BEFORE);
            let seen = world.lacks_pod("team-b", &name);
            (seen.pool, seen.home, seen.stands_alone) = (Pool::Teams, "team-b".into(), true);
            seen.began -= SignedDuration::from_secs(1);
        }
        world
    };
    let mut world = forged(in_own_store(), 8);
    world.works("team-c", "runs", Pool::Teams);
    assert!(begins(&world));
    world.backup.status = Some(refused_status(phase::QUEUED));
    assert!(begins(&world), "also one that was refused before");
    let mut world = forged(in_own_store(), 8);
    world.ends("backup-one", None, &[]);
    let job = ObjectKey::namespaced(Kind::Job, BackupFixture::home(), "backup-one");
    let live = world.observed.objects.get_mut(&job).unwrap();
    live["metadata"]["creationTimestamp"] = (world.now - SignedDuration::from_secs(POD_AFTER)).to_string().into();
    live["metadata"]["labels"][labels::BACKUP_POOL] = labels::BACKUP_POOL_TEAMS.into();
    assert_eq!((world.plan().phase, described(&world.plan()).len()), ("Running", 0), "it stays");
    for n in 0..3 {
        let seen = world.lacks_pod("team-d", &format!("d{n}"));
        seen.pool = Pool::Teams;
        seen.began -= SignedDuration::from_secs(1);
    }
    assert_eq!(world.plan().phase, "Queued", "with theirs as one there are four");
}

/// They wait for nobody, so there may be more of them than places.
#[test]
fn recoveries_whose_pods_are_refused_leave_a_place_to_others() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 1;
    for n in 0..3 {
        world.lacks_pod("team-b", &format!("b{n}"));
    }
    assert!(begins(&world));
    world.works("team-c", "runs", Pool::Platform);
    assert!(!begins(&world));
}

#[test]
fn a_job_that_deletes_a_snapshot_says_so_too_and_keeps_others_from_nothing() {
    let mut world = deleted();
    newer(&mut world, &|_| {});
    world.ends("backup-one-delete", None, &[]);
    assert_eq!(world.plan().requeue_after, Some(SOON));
    world.observed.refused.insert("backup-one-delete".into(), "exceeded quota: small".into());
    let said = world.says();
    assert!(said.contains("a pod of its Job, which the API server refuses: exceeded quota: small"), "{said}");
    let with = |change: &dyn Fn(&mut BackupJob)| {
        let mut world = deleted();
        many_deleted(&mut world, 0);
        for n in 0..4 {
            let seen = world.lacks_pod(TEAM, &format!("a{n}"));
            seen.does = Does::Delete;
            change(seen);
        }
        world.plan().plan.actions().any(|a| matches!(a, Action::Create(_)))
    };
    assert!(with(&|_| {}), "they get no pod");
    assert!(!with(&|seen| seen.had_pod = true), "they have theirs");
    assert!(!with(&|seen| seen.home = BackupFixture::home()), "it would get none either");
}

/// One `EtcdBackup` of a fleet.
#[derive(Default)]
struct One {
    namespace: String,
    status: Option<EtcdBackupStatus>,
    /// When its Job was created, and since when it has a pod.
    job: Option<(Timestamp, Option<Timestamp>)>,
    done: bool,
}

const PLACES: usize = 4;

/// A fleet of tenants, each with one backup; each is looked at every two seconds.
struct Fleet {
    now: Timestamp,
    all: Vec<One>,
}

impl Fleet {
    fn new(tenants: usize) -> Self {
        let one = |n: usize| One { namespace: format!("team-{n:03}"), ..One::default() };
        Self { now: "2026-01-01T00:00:00Z".parse().unwrap(), all: (0..tenants).map(one).collect() }
    }

    fn object(&self, n: usize) -> EtcdBackup {
        let mut backup = EtcdBackup::new("b", berth_api::backup::EtcdBackupSpec::default());
        backup.spec.cluster_ref = Some(BackupRef { name: "t".into() });
        backup.metadata.namespace = Some(self.all[n].namespace.clone());
        backup.metadata.uid = Some(format!("{n:03}"));
        backup.metadata.creation_timestamp = Some(Time(BEFORE.parse().unwrap()));
        backup.status.clone_from(&self.all[n].status);
        backup
    }

    fn live_job(&self, n: usize) -> Option<Value> {
        let One { namespace, job, .. } = &self.all[n];
        let (began, pod) = (*job)?;
        Some(json!({
            "metadata": {
                "name": "backup-b", "namespace": names::control_plane_namespace(namespace, "t"), "uid": "job",
                "creationTimestamp": began.to_string(),
                "labels": {
                    labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::ETCD_BACKUP: "b",
                    labels::ETCD_BACKUP_NAMESPACE: namespace,
                },
            },
            "status": {"active": i32::from(pod.is_some())},
        }))
    }

    fn observed(&self, n: usize) -> Observed {
        let mut observed = Observed::default();
        for other in (0..self.all.len()).filter(|other| !self.all[*other].done) {
            let mut object = serde_json::to_value(self.object(other)).unwrap();
            let reason = object.pointer("/status/conditions/0/reason").cloned().unwrap_or_default();
            object["status"]["reason"] = reason;
            observed.objects.insert(ObjectKey::of(Kind::EtcdBackup, &object), object);
        }
        let jobs = (0..self.all.len()).filter_map(|other| BackupJob::read(&self.live_job(other)?));
        observed.backup_jobs = Arc::new(jobs.collect());
        if let Some(job) = self.live_job(n) {
            observed.objects.insert(ObjectKey::of(Kind::Job, &job), job);
        }
        observed
    }

    /// One look at one of them.
    fn reconcile(&mut self, n: usize, settings: &Settings) {
        let (object, observed) = (self.object(n), self.observed(n));
        let input = BackupInput(Input { object: &object, observed: &observed, settings, now: self.now });
        let job = input.target().job(names::backup("b"));
        let one = &mut self.all[n];
        match one.job {
            None => match queue::waits(input) {
                None => one.job = Some((self.now, None)),
                Some(State::Waiting { reason: Reason::Rejected, .. }) => {
                    one.status = Some(refused_status(phase::QUEUED));
                }
                Some(_) => one.status = serde_json::from_value(json!({"phase": phase::QUEUED})).unwrap(),
            },
            Some(_) if queue::steps_back(input, &job) => {
                (one.job, one.status) = (None, Some(refused_status(phase::QUEUED)));
            }
            Some(_) => one.status = serde_json::from_value(json!({"phase": phase::RUNNING})).unwrap(),
        }
    }

    /// Two seconds. `refused`: whose pods are. A pod takes twenty seconds.
    fn pass(&mut self, refused: impl Fn(usize) -> bool) {
        let settings = settings();
        for n in 0..self.all.len() {
            if !self.all[n].done {
                self.reconcile(n, &settings);
            }
        }
        let now = self.now;
        for (n, one) in self.all.iter_mut().enumerate() {
            if let Some((_, pod)) = &mut one.job {
                match pod {
                    None if !refused(n) => *pod = Some(now),
                    Some(since) if now.duration_since(*since).as_secs() >= 20 => (one.job, one.done) = (None, true),
                    _ => {}
                }
            }
        }
        self.now += SignedDuration::from_secs(2);
        let jobs = self.all.iter().filter(|one| one.job.is_some()).count();
        assert!(jobs <= 2 * PLACES, "{jobs} at {}", self.now);
    }

    fn done(&self) -> usize {
        self.all.iter().filter(|one| one.done).count()
    }
}

fn settings() -> Settings {
    let mut settings = BackupFixture::new().settings;
    settings.backups.concurrent = PLACES;
    settings
}

#[test]
fn however_many_are_refused_the_others_end_and_all_end_once_nobody_is() {
    const TENANTS: usize = 14;
    for refused in [0, 1, 4, 5, 10] {
        let mut fleet = Fleet::new(TENANTS);
        let all_others = TENANTS - refused;
        // An hour is the deadline of a Job: nobody waits for that.
        for _ in 0..150 {
            fleet.pass(|n| n < refused);
            if fleet.done() == all_others {
                break;
            }
        }
        assert_eq!(fleet.done(), all_others, "{refused} are refused");
        let at_work = |one: &&One| one.job.is_some_and(|(_, pod)| pod.is_some());
        let mut most = 0;
        while fleet.done() < TENANTS {
            fleet.pass(|_| false);
            most = most.max(fleet.all.iter().filter(at_work).count());
        }
        assert!(most <= 2 * PLACES, "{most}");
    }
}
