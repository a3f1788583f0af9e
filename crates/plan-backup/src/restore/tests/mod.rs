//! What an `EtcdRestore` does in each situation, from observation to status.

mod damage;
pub(crate) mod messages;
mod never_ends;
mod others;
mod survivors;

use super::status::status;
use super::*;
use crate::backup::tests::{failed, manifest};
use crate::jobs::task_of;
use berth_api::backup::{At, REVISIONS_PER_EPOCH, Store, Task};
use berth_api::conditions::{self, ConditionType};
use berth_api::labels;
use berth_api::restore::EtcdRestoreStatus;
use berth_plan::secrets::SecretFacts;
use berth_plan::settings::BackupStore;
use berth_plan::{Observed, Settings};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// A tenant with a formed etcd, a proven backup of it, and an `EtcdRestore`.
struct RestoreFixture {
    restore: EtcdRestore,
    observed: Observed,
    settings: Settings,
    now: Timestamp,
}

const TEAM: &str = "team-a";
const CHECK: &str = "restore-back-check";
const RESTORE: &str = "restore-back";

impl RestoreFixture {
    fn new() -> Self {
        let restore = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore",
            "metadata": {"name": "back", "namespace": TEAM, "uid": "r1", "generation": 1, "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"clusterRef": {"name": "acme"}, "source": {"backup": "one"}, "confirm": "c1"},
        });
        let store = Store {
            endpoint: "https://s3:9000".into(),
            bucket: "b".into(),
            region: "r".into(),
            path_style: true,
            ..Store::default()
        };
        let mut settings = Settings::default();
        settings.backups.image = "backup:1".into();
        settings.backups.namespace = "berth-system".into();
        settings.backups.stores.push(BackupStore {
            name: "main".into(),
            store,
            prefix: String::new(),
            secret: "s3".into(),
            namespaces: vec![],
        });
        let mut w = Self {
            restore: serde_json::from_value(restore.clone()).unwrap(),
            observed: Observed::default(),
            settings,
            now: "2026-01-02T00:01:00Z".parse().unwrap(),
        };
        let home = Self::home();
        let labels =
            json!({labels::MANAGED_BY: "berth", labels::CLUSTER_NAME: "acme", labels::CLUSTER_NAMESPACE: TEAM});
        w.put(Kind::Namespace, json!({"metadata": {"name": home, "labels": labels}}));
        w.put(
            Kind::Cluster,
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "namespace": TEAM},
                "spec": {"version": "1.36.3"}, "status": {"version": "1.36.3"},
            }),
        );
        w.put(
            Kind::EtcdCluster,
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
                "metadata": {"name": "etcd", "namespace": home, "uid": "e1", "resourceVersion": "7"},
                "spec": {"version": "3.6.16"},
                "status": {"identity": "id", "epoch": 1, "clusterId": "c1", "version": "3.6.16"},
            }),
        );
        let user = json!({"runAsUser": 1234, "fsGroup": 1234});
        let container = json!({"name": "etcd", "image": "registry.k8s.io/etcd:3.6.16-0"});
        w.put(
            Kind::StatefulSet,
            json!({
                "metadata": {"name": "etcd", "namespace": home},
                "spec": {"template": {"spec": {"securityContext": user, "containers": [container]}}},
            }),
        );
        w.put(Kind::PersistentVolumeClaim, json!({"metadata": {"name": "data-etcd-0", "namespace": home}}));
        w.secret("berth-system", "s3", &["accessKeyID", "secretAccessKey", "ca.crt"]);
        w.secret(&home, names::APISERVER_ENCRYPTION, &["encryption.yaml"]);
        w.backup("one", "2026-01-01T00:00:00Z", &json!({}));
        w.put(Kind::EtcdRestore, restore);
        w
    }

    fn home() -> String {
        names::control_plane_namespace(TEAM, "acme")
    }

    /// A proven backup, with these fields of its status instead.
    fn backup(&mut self, name: &str, taken: &str, but: &Value) {
        let key = ObjectKey::namespaced(Kind::Secret, Self::home(), names::APISERVER_ENCRYPTION);
        let mut status = json!({
            "phase": "Verified", "key": format!("{TEAM}/acme/id/{name}.db"), "sha256": "ab", "identity": "id", "epoch": 1,
            "etcdVersion": "3.6.16", "kubernetesVersion": "1.36.3", "takenAt": taken,
            "encryptionKey": self.observed.secrets[&key].digests["encryption.yaml"],
        });
        status.as_object_mut().unwrap().extend(but.as_object().unwrap().clone());
        self.put(
            Kind::EtcdBackup,
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": name, "namespace": TEAM},
                "spec": {"clusterRef": {"name": "acme"}, "store": "main"}, "status": status,
            }),
        );
    }

    /// What is known of the members' data.
    fn members(&mut self, states: &[&str]) {
        let member = |(i, state): (usize, &&str)| json!({"name": format!("etcd-{i}"), "ready": *state == "Answers", "state": state});
        self.live(Kind::EtcdCluster)["status"]["members"] = states.iter().enumerate().map(member).collect();
    }

    fn put(&mut self, kind: Kind, mut object: Value) {
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = "u".into();
        }
        self.observed.put(ObjectKey::of(kind, &object), object);
    }

    fn secret(&mut self, namespace: &str, name: &str, keys: &[&str]) {
        let data = keys.iter().map(|key| ((*key).to_owned(), key.as_bytes().to_vec())).collect();
        let key = ObjectKey::namespaced(Kind::Secret, namespace, name);
        self.observed.secrets.insert(key, SecretFacts::read("Opaque", &data).into());
        self.put(Kind::Secret, json!({"metadata": {"name": name, "namespace": namespace}}));
    }

    fn input(&self) -> Input<'_, EtcdRestore> {
        Input { object: &self.restore, observed: &self.observed, settings: &self.settings, now: self.now }
    }

    /// Plans and takes the status in, as the driver does.
    fn reconcile(&mut self) -> (RestorePlan, EtcdRestoreStatus) {
        let planned = RestorePlanner::plan(self.input());
        let status = status(self.input(), &planned, None);
        self.restore.status = Some(status.clone());
        (planned, status)
    }

    /// Phase, reason and message.
    fn says(&mut self) -> String {
        let (_, status) = self.reconcile();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
        format!("{} {}: {}", status.phase.unwrap_or_default(), ready.reason, ready.message)
    }

    fn live(&mut self, kind: Kind) -> &mut Value {
        let found = self.observed.objects.iter_mut().find(|(key, _)| key.kind == kind);
        found.map(|(_, object)| object).expect("it is there")
    }

    /// The Job is there, with its task, and its pod ended with this.
    fn ends(&mut self, name: &str, condition: Option<&str>, said: Option<&Outcome>) {
        let job = RestorePlanner::plan(self.input()).plan.actions().find_map(|a| match a {
            Action::Create(o) if o.key().name == name => Some(o.value().clone()),
            _ => None,
        });
        let labels = json!(RestoreInput(self.input()).owner().labels);
        let mut job =
            job.unwrap_or_else(|| json!({"metadata": {"name": name, "namespace": Self::home(), "labels": labels}}));
        let conditions = condition.map(|type_| json!({"type": type_, "status": "True", "message": "too often"}));
        job["status"] = json!({"conditions": conditions.into_iter().collect::<Vec<_>>()});
        self.put(Kind::Job, job);
        if let Some(said) = said {
            let mut labels = labels;
            labels[labels::JOB_NAME] = name.into();
            let end = json!({"exitCode": 1, "finishedAt": "2026-01-02T00:00:00Z", "message": serde_json::to_string(said).unwrap()});
            self.put(Kind::Pod, json!({
                "metadata": {"name": format!("{name}-0"), "namespace": Self::home(), "labels": labels},
                "status": {"phase": "Succeeded", "containerStatuses": [{"name": "backup", "state": {"terminated": end}}]},
            }));
        }
    }

    /// Its check went well, and is recorded.
    fn fit() -> Self {
        let mut w = Self::new();
        w.ends(CHECK, Some("Complete"), Some(&checked()));
        w.reconcile();
        w
    }

    /// And what etcd has is in another backup.
    fn checked() -> Self {
        let mut w = Self::fit();
        w.before("Verified");
        w
    }

    /// The backup that is taken first, in that phase.
    fn before(&mut self, phase: &str) {
        let mut labels = json!(RestoreInput(self.input()).owner().labels);
        labels[labels::ETCD_RESTORE_UID] = "r1".into();
        let ready = json!({"type": "Ready", "status": "False", "reason": "x", "message": "store https://s3:9000: it answers 403", "lastTransitionTime": "2026-01-02T00:00:00Z"});
        self.put(Kind::EtcdBackup, json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": "before-back", "namespace": TEAM, "labels": labels},
            "spec": {"clusterRef": {"name": "acme"}, "store": "main"}, "status": {"phase": phase, "conditions": [ready]},
        }));
    }

    /// etcd was told, and is at that phase.
    fn told(restored: Option<i64>, operation: &str, epoch: i64) -> Self {
        let mut w = Self::checked();
        let request = json!({"namespace": TEAM, "name": "back", "uid": "r1", "restored": restored}).to_string();
        let etcd = w.live(Kind::EtcdCluster);
        etcd["metadata"]["annotations"] = json!({labels::RESTORE_REQUEST: request});
        etcd["status"]["epoch"] = epoch.into();
        if !operation.is_empty() {
            let at = json!({"id": 1, "type": "Restore", "target": "etcd-0", "phase": operation, "since": "2026-01-02T00:00:00Z"});
            etcd["status"]["operation"] = at;
            let message = "waiting for the pods of kube-apiserver, kube-controller-manager and kube-scheduler to end, so that nothing uses etcd";
            let ready = json!({"type": "Ready", "status": "False", "reason": "Restoring", "message": message, "lastTransitionTime": "2026-01-02T00:00:00Z"});
            etcd["status"]["conditions"] = json!([ready]);
        }
        w
    }
}

fn checked() -> Outcome {
    Outcome::Checked(manifest("team-a/acme/id/one.db"))
}

/// Jobs where a team chose that registry: the one that checks, and the one that restores.
pub(crate) fn jobs_of_registry(registry: &str) -> Vec<Value> {
    let jobs = [RestoreFixture::new(), RestoreFixture::told(None, "Restore", 2)].map(|mut w| {
        let image = format!("{registry}/etcd:3.6.16-0");
        w.live(Kind::StatefulSet)["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        job_of(&w.reconcile().0)
    });
    jobs.into()
}

fn described(planned: &RestorePlan) -> Vec<String> {
    planned.plan.actions().map(Action::describe).collect()
}

fn job_of(planned: &RestorePlan) -> Value {
    let jobs =
        planned.plan.actions().filter_map(|a| if let Action::Create(o) = a { Some(o.value().clone()) } else { None });
    jobs.last().expect("a Job")
}

/// What the annotation is to be, if it is written.
#[expect(clippy::option_option, reason = "it is not written, or is taken away, or says something")]
fn annotation_of(planned: &RestorePlan) -> Option<Option<Value>> {
    planned.plan.actions().find_map(|a| match a {
        Action::Apply(o) if o.key().kind == Kind::EtcdCluster => {
            assert!(o.get("/metadata/uid").is_some() && o.get("/spec").is_none(), "{o:?}");
            Some(o.annotations().get(labels::RESTORE_REQUEST).map(|text| serde_json::from_str(text).unwrap()))
        }
        _ => None,
    })
}

#[test]
fn a_job_checks_the_backup_before_etcd_is_told() {
    let mut w = RestoreFixture::new();
    let (planned, status) = w.reconcile();
    assert_eq!((status.phase.as_deref(), status.backup.as_deref()), (Some("Checking"), Some("one")));
    let job = job_of(&planned);
    let pod = &job["spec"]["template"]["spec"];
    let Some(Task::Check(task)) = task_of(&job) else { panic!("{job}") };
    assert_eq!((task.key.as_str(), task.into.identity.as_str()), ("team-a/acme/id/one.db", "id"));
    assert!(task.into.encryption_key.is_some());
    assert!(!pod["volumes"].to_string().contains("persistentVolumeClaim"), "{pod}");
    assert_eq!(job["metadata"]["labels"][labels::COMPONENT], names::ETCD_BACKUP, "NetworkPolicies go by it");
    w.ends(CHECK, Some("Failed"), Some(&failed(At::Proof, "SHA-256")));
    let (planned, status) = w.reconcile();
    assert_eq!((status.phase.as_deref(), annotation_of(&planned)), (Some("Failed"), None));
    assert_eq!(described(&w.reconcile().0), [format!("delete Job {}/{CHECK}", RestoreFixture::home())]);
}

#[test]
fn etcd_is_told_and_gets_its_data_once_it_has_stopped() {
    let mut w = RestoreFixture::checked();
    let (planned, status) = w.reconcile();
    assert_eq!(status.phase.as_deref(), Some("Stopping"));
    let told = json!({"namespace": TEAM, "name": "back", "uid": "r1"});
    assert_eq!(annotation_of(&planned), Some(Some(told.clone())));

    for phase in ["", "WaitingForClients", "Stop"] {
        let mut w = RestoreFixture::told(None, phase, 1);
        let (planned, status) = w.reconcile();
        assert_eq!(status.phase.as_deref(), Some("Stopping"));
        let jobs = planned.plan.actions().any(|a| matches!(a, Action::Create(_)));
        assert!(!jobs && annotation_of(&planned).is_none(), "{phase}: {:?}", described(&planned));
    }
    let mut w = RestoreFixture::told(None, "Restore", 2);
    let job = job_of(&w.reconcile().0);
    let Some(Task::Restore(task)) = task_of(&job) else { panic!("{job}") };
    assert_eq!((task.epoch, task.member.as_str(), task.bump), (2, "etcd-0", REVISIONS_PER_EPOCH));
    assert_eq!(task.peer_url, format!("https://etcd-0.{}.svc:2380", RestoreFixture::home()));
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsUser"], 1234, "the files are the member's");
    assert!(pod["volumes"].to_string().contains("data-etcd-0"), "{pod}");
    w.ends(RESTORE, Some("Complete"), Some(&Outcome::Restored));
    let (planned, status) = w.reconcile();
    let mut done = told;
    done["restored"] = 2.into();
    assert_eq!((annotation_of(&planned), status.epoch), (Some(Some(done)), Some(2)));
    // One of an epoch before, as when everything began anew.
    w.live(Kind::EtcdCluster)["status"]["epoch"] = 3.into();
    let (planned, _) = w.reconcile();
    assert!(described(&planned).contains(&format!("delete Job {}/{RESTORE}", RestoreFixture::home())));
    assert_eq!(annotation_of(&planned), None);

    let mut w = RestoreFixture::told(Some(2), "Done", 2);
    let (planned, status) = w.reconcile();
    assert_eq!((status.phase.as_deref(), annotation_of(&planned)), (Some("Restored"), None));
    assert!(status.restored_at.is_some(), "it is on record first");
    let (planned, _) = w.reconcile();
    assert_eq!(annotation_of(&planned), Some(None), "then etcd is let go");
}

#[test]
fn revisions_grow_with_every_epoch_since_the_backup() {
    let mut w = RestoreFixture::told(None, "Restore", 5);
    w.backup("one", "2026-01-01T00:00:00Z", &json!({"epoch": 3}));
    let Some(Task::Restore(task)) = task_of(&job_of(&w.reconcile().0)) else { panic!() };
    assert_eq!(task.bump, 2 * REVISIONS_PER_EPOCH);
}

#[test]
fn over_an_etcd_that_answers_it_wants_a_confirmation() {
    for (confirm, available, members, tells) in [
        (None, "True", ["Answers"; 3], false),
        (Some("c2"), "True", ["Answers"; 3], false),
        (Some("c1"), "True", ["Answers"; 3], true),
        (None, "False", ["DataLost"; 3], true),
        (None, "False", ["DataLost", "DataLost", "Answers"], false),
        (None, "False", ["DataLost", "DataLost", "Away"], false),
        (None, "False", ["Away"; 3], false),
        (Some("c1"), "False", ["Away"; 3], true),
    ] {
        let mut w = RestoreFixture::checked();
        w.members(&members);
        w.restore.spec.confirm = confirm.map(str::to_owned);
        let condition = json!({"type": "Available", "status": available, "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z"});
        w.live(Kind::EtcdCluster)["status"]["conditions"] = json!([condition]);
        let (planned, _) = w.reconcile();
        assert_eq!(annotation_of(&planned).is_some(), tells, "{confirm:?} {available} {members:?}");
    }
}

/// Of a member that is left without a quorum what it holds is saved first, even if somebody says that it may be lost.
#[test]
fn what_a_living_member_holds_is_saved_before_a_backup_replaces_it() {
    let mut w = RestoreFixture::fit();
    available(&mut w, "False", "2026-01-02T00:00:00Z");
    w.members(&["DataLost", "DataLost", "Answers"]);
    w.restore.spec.confirm = None;
    let said = w.says();
    assert!(said.contains("ConfirmationRequired") && said.contains("etcd-2 answers and may hold more"), "{said}");
    assert!(said.contains("--survivors") && said.contains(r#"-p '{"spec":{"confirm":"c1"}}'"#), "{said}");
    w.restore.spec.confirm = Some("c1".into());
    let (planned, _) = w.reconcile();
    let backup = job_of(&planned);
    assert_eq!(backup["metadata"]["name"], "before-back");
    assert_eq!(backup["spec"], json!({"clusterRef": {"name": "acme"}, "store": "main", "withoutQuorum": true}));
    assert_eq!(annotation_of(&planned), None);
    // Nobody could be asked.
    w.members(&["DataLost", "DataLost", "Away"]);
    assert!(annotation_of(&w.reconcile().0).is_some());
}

fn available(w: &mut RestoreFixture, status: &str, since: &str) {
    let condition =
        json!({"type": "Available", "status": status, "reason": "x", "message": "", "lastTransitionTime": since});
    w.live(Kind::EtcdCluster)["status"]["conditions"] = json!([condition]);
}

/// Whenever it was created: nobody but the members' guards can tell a loss from a restart.
#[test]
fn an_outage_is_no_loss() {
    for created in ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"] {
        let mut w = RestoreFixture::fit();
        w.restore.spec.confirm = None;
        w.restore.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
        available(&mut w, "False", "2026-01-02T00:00:30Z");
        w.members(&["Away", "Away", "Answers"]);
        let said = w.says();
        assert!(said.contains("ConfirmationRequired") && said.contains("serves again once its members run"), "{said}");
        assert_eq!(annotation_of(&RestorePlanner::plan(w.input())), None, "{created}");
    }
}

#[test]
fn amid_a_change_of_the_minor_only_a_lost_etcd_is_restored() {
    for (status, tells) in [("True", false), ("False", true)] {
        let mut w = RestoreFixture::checked();
        w.live(Kind::Namespace)["metadata"]["annotations"] = json!({labels::UPGRADE: "{}"});
        available(&mut w, status, "2026-01-02T00:00:00Z");
        w.members(&["DataLost"]);
        assert_eq!(annotation_of(&w.reconcile().0).is_some(), tells, "{status}");
    }
}

#[test]
fn one_that_nobody_confirmed_turns_back_as_soon_as_etcd_answers() {
    let mut w = RestoreFixture::checked();
    w.restore.spec.confirm = None;
    available(&mut w, "False", "2026-01-02T00:00:00Z");
    w.members(&["DataLost"]);
    let told = annotation_of(&w.reconcile().0).flatten().unwrap();
    assert_eq!(told["unconfirmed"], true);
    for (phase, turns) in [("", true), ("WaitingForClients", true), ("Stop", true), ("Restore", false)] {
        let mut w = RestoreFixture::told(None, phase, 1);
        w.restore.spec.confirm = None;
        let etcd = w.live(Kind::EtcdCluster);
        etcd["metadata"]["annotations"] = json!({labels::RESTORE_REQUEST: told.to_string()});
        available(&mut w, "True", "2026-01-02T00:00:30Z");
        assert_eq!(annotation_of(&w.reconcile().0), Some(None).filter(|_| turns), "{phase}");
    }
    let mut w = RestoreFixture::checked();
    let told = annotation_of(&w.reconcile().0).flatten().unwrap();
    assert!(told["unconfirmed"].is_null(), "{told}");
}

#[test]
fn a_backup_that_somebody_deletes_is_restored_to_the_end() {
    let but = json!({"phase": "Deleting", "verifiedAt": "2026-01-01T00:00:00Z"});
    let mut w = RestoreFixture::told(None, "Restore", 2);
    w.backup("one", "2026-01-01T00:00:00Z", &but);
    let Some(Task::Restore(task)) = task_of(&job_of(&w.reconcile().0)) else { panic!() };
    assert_eq!(task.sha256, "ab");
    let mut w = RestoreFixture::new();
    w.backup("one", "2026-01-01T00:00:00Z", &but);
    assert!(w.says().contains("EtcdBackup team-a/one to be verified"), "it is not chosen any more");
}

#[test]
fn nothing_stops_for_a_volume_that_is_lost() {
    let mut w = RestoreFixture::checked();
    w.live(Kind::PersistentVolumeClaim)["status"]["phase"] = "Lost".into();
    let said = w.says();
    assert!(said.contains("has lost its volume. Delete it and pod etcd-0"), "{said}");
    assert_eq!(annotation_of(&RestorePlanner::plan(w.input())), None);
    let mut w = RestoreFixture::told(None, "Restore", 2);
    w.observed.objects.retain(|key, _| key.kind != Kind::PersistentVolumeClaim);
    let said = w.says();
    assert!(said.contains("nothing recreates it: create it with the size"), "{said}");
}

#[test]
fn both_jobs_say_within_seconds_what_refuses_their_pods() {
    let mut checks = RestoreFixture::new();
    checks.ends(CHECK, None, None);
    let mut restores = RestoreFixture::told(None, "Restore", 2);
    restores.ends("restore-back", None, None);
    for (mut w, job, phase) in [(checks, CHECK, "Checking"), (restores, "restore-back", "Restoring")] {
        assert_eq!(w.reconcile().0.requeue_after, Some(SOON));
        w.observed.refused.insert(job.into(), "exceeded quota: small, requested: pods=1".into());
        let said = w.says();
        let refused = format!(
            "{phase} Rejected: waiting for a pod of its Job, which the API server refuses: exceeded quota: small"
        );
        assert!(said.starts_with(&refused) && said.contains("raise spec.hard of ResourceQuota small"), "{said}");
    }
}

#[test]
fn of_an_etcd_that_answers_another_backup_is_taken_first() {
    let mut w = RestoreFixture::fit();
    let (planned, _) = w.reconcile();
    assert_eq!(annotation_of(&planned), None);
    let backup = job_of(&planned);
    assert_eq!((&backup["metadata"]["name"], &backup["kind"]), (&json!("before-back"), &json!("EtcdBackup")));
    assert_eq!(backup["spec"], json!({"clusterRef": {"name": "acme"}, "store": "main"}));
    for (phase, tells) in [("Running", false), ("Failed", false), ("Verified", true)] {
        w.before(phase);
        assert_eq!(annotation_of(&w.reconcile().0).is_some(), tells, "{phase}");
    }
    // That of another one of this name is of another time.
    w.restore.metadata.uid = Some("r2".into());
    let (planned, _) = w.reconcile();
    assert!(
        described(&planned).contains(&"delete EtcdBackup team-a/before-back".to_owned()),
        "{:?}",
        described(&planned)
    );
    let mut w = RestoreFixture::fit();
    w.restore.spec.backup_first = false;
    assert!(annotation_of(&w.reconcile().0).is_some());
}

#[test]
fn the_newest_backup_until_a_time_is_chosen_once() {
    let mut w = RestoreFixture::new();
    w.restore.spec.source.backup = None;
    w.restore.spec.source.latest_before = serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap();
    w.backup("two", "2026-01-01T11:00:00Z", &json!({}));
    w.backup("failed", "2026-01-01T11:30:00Z", &json!({"phase": "Failed"}));
    w.backup("later", "2026-01-01T13:00:00Z", &json!({}));
    assert_eq!(w.reconcile().1.backup.as_deref(), Some("two"));
    w.backup("three", "2026-01-01T11:45:00Z", &json!({}));
    assert_eq!(w.reconcile().1.backup.as_deref(), Some("two"), "it stays with that");
}

#[test]
fn what_is_bad_is_refused_before_a_job_runs() {
    // What cannot come to be right ends, so that it keeps no recovery waiting.
    let cases = [
        (json!({"identity": "other"}), "Failed", "holds other data"),
        (json!({"etcdVersion": "3.7.0"}), "Waiting", "cannot read it"),
        (json!({"kubernetesVersion": "1.37.0"}), "Waiting", "Set spec.version"),
        (json!({"encryptionKey": "00"}), "Waiting", "encrypted"),
        (json!({"phase": "Failed"}), "Failed", "failed"),
    ];
    for (but, phase, word) in cases {
        let mut w = RestoreFixture::new();
        w.backup("one", "2026-01-01T00:00:00Z", &but);
        let said = w.says();
        assert!(said.starts_with(&format!("{phase} RestoreFailed")) && said.contains(word), "{said}");
        assert!(RestorePlanner::plan(w.input()).plan.is_empty());
    }
}

#[test]
fn of_two_the_older_one_goes_on() {
    let mut w = RestoreFixture::new();
    let mut other = serde_json::to_value(&w.restore).unwrap();
    other["metadata"]["name"] = "again".into();
    other["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    w.put(Kind::EtcdRestore, other.clone());
    assert!(w.says().contains("EtcdRestore team-a/again of the same etcd to end"));
    other["status"] = json!({"phase": "Failed"});
    w.put(Kind::EtcdRestore, other);
    assert!(w.says().starts_with("Checking"));
}

#[test]
fn a_restore_that_is_deleted_gives_up_and_waits_for_its_pods() {
    let mut w = RestoreFixture::told(None, "Restore", 2);
    w.ends(RESTORE, None, None);
    let labels = json!(RestoreInput(w.input()).owner().labels);
    w.put(Kind::Pod, json!({"metadata": {"name": "p", "namespace": RestoreFixture::home(), "labels": labels}, "status": {"phase": "Running"}}));
    w.restore.metadata.deletion_timestamp = Some(Time(w.now));
    let (planned, _) = w.reconcile();
    assert_eq!(annotation_of(&planned), Some(None));
    assert!(described(&planned).contains(&format!("delete Job {}/{RESTORE}", RestoreFixture::home())));
    w.observed.objects.retain(|key, _| key.kind != Kind::Job && key.kind != Kind::EtcdCluster);
    assert!(!RestorePlanner::plan(w.input()).plan.finished, "its pod writes to the volume");
    w.observed.objects.retain(|key, _| key.kind != Kind::Pod);
    assert!(RestorePlanner::plan(w.input()).plan.finished);
}
