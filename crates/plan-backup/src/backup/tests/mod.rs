//! What an `EtcdBackup` does in each situation, from observation to status.

mod deletion;
mod earlier;
pub(crate) mod messages;
mod places;
mod refused;
mod volumes;

use super::status::status;
use super::*;
use berth_api::backup::{At, EtcdBackupStatus, Failure, Manifest, Store, Subject};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::labels;
use berth_plan::backup_jobs::{BackupJob, Does, Pool};
use berth_plan::model::Action;
use berth_plan::secrets::SecretFacts;
use berth_plan::settings::BackupStore;
use berth_plan::{Observed, Settings};
use berth_render::{Kind, Object};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A tenant with a formed etcd, a store, and an `EtcdBackup`.
#[derive(Clone)]
struct BackupFixture {
    backup: EtcdBackup,
    observed: Observed,
    settings: Settings,
    now: Timestamp,
}

const TEAM: &str = "team-a";

/// The same in a store of the team's own.
fn in_own_store() -> BackupFixture {
    let mut w = BackupFixture::new();
    w.backup.spec.store.name = String::new();
    w.backup.spec.store.secret_ref = Some(berth_api::backup::StoreSecret { name: "mine".into() });
    w.settings.backups.endpoints = vec!["https://s3.team:9000".into()];
    own_store(&mut w, &[]);
    w
}

/// Its Secret, with these keys instead.
fn own_store(w: &mut BackupFixture, but: &[(&str, &str)]) {
    let mut data = BTreeMap::from([
        ("endpoint", "https://s3.team:9000"),
        ("bucket", "teams"),
        ("prefix", "mine"),
        ("accessKeyID", "AKIA-team"),
        ("secretAccessKey", "dontsay"),
        ("ca.crt", "ca"),
    ]);
    for (key, value) in but {
        data.remove(key);
        if !value.is_empty() {
            data.insert(key, value);
        }
    }
    let data = data.into_iter().map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).collect();
    let key = ObjectKey::namespaced(Kind::Secret, TEAM, "mine");
    w.observed.secrets.insert(key, SecretFacts::read(berth_api::backup::STORE_SECRET, &data).into());
}

#[test]
fn a_backup_goes_to_a_store_of_the_teams_own() {
    let mut w = in_own_store();
    w.settings.backups.stores.clear();
    let planned = BackupPlanner::plan(w.input());
    let secret = planned.plan.actions().find_map(|a| if let Action::Secret(s) = a { Some(s.clone()) } else { None });
    let secret = secret.expect("a copy beside the Job");
    assert_eq!(secret.key.namespace, Some(BackupFixture::home()));
    let source = ObjectKey::namespaced(Kind::Secret, TEAM, "mine");
    let copied = |entry: &berth_plan::model::SecretEntry| match entry {
        berth_plan::model::SecretEntry::Copy { name, source: of, .. } if *of == source => name.clone(),
        other => panic!("{other:?}"),
    };
    let copied: Vec<String> = secret.entries.iter().map(copied).collect();
    assert_eq!(copied, ["accessKeyID", "secretAccessKey", "ca.crt"], "and nothing else of it");
    let job =
        planned.plan.actions().find_map(|a| if let Action::Create(o) = a { Some(o.value().clone()) } else { None });
    let job = job.expect("a Job").to_string();
    for word in ["https://s3.team:9000", "mine/team-a/acme/"] {
        assert!(job.contains(word), "{word}: {job}");
    }
    let everything = format!("{planned:?} {:?}", status(w.input(), &planned, None));
    assert!(!everything.contains("dontsay") && !everything.contains("AKIA-team"));
    own_store(&mut w, &[("sessionToken", "dontsay"), ("serverSideEncryption", "aws:kms"), ("kmsKeyID", "k1")]);
    let everything = format!("{:?}", BackupPlanner::plan(w.input()));
    for word in ["sessionToken", "serverSideEncryption", "aws:kms", "kmsKeyId", "k1"] {
        assert!(everything.contains(word), "{word}: {everything}");
    }
    assert!(!everything.contains("dontsay"));
}

/// The etcd of a team that chose a registry of its own.
fn of_own_registry(w: &mut BackupFixture) {
    let containers = json!([{"name": "etcd", "image": "mirror.example.com/teams/a/etcd:3.6.16-0"}]);
    let set = json!({
        "metadata": {"name": "etcd", "namespace": BackupFixture::home()},
        "spec": {"template": {"spec": {"containers": containers}}},
    });
    w.put(Kind::StatefulSet, set);
}

/// Who chooses a registry chooses what runs from it.
#[test]
fn no_job_runs_a_program_of_a_team() {
    let image = |w: &BackupFixture| {
        let job = w.plan().plan.actions().find_map(|a| if let Action::Create(o) = a { Some(o.clone()) } else { None });
        job.unwrap().get("/spec/template/spec/containers/0/image").and_then(Value::as_str).map(str::to_owned)
    };
    let mut w = in_own_store();
    of_own_registry(&mut w);
    assert_eq!(image(&w).as_deref(), Some("registry.k8s.io/etcd:3.6.16-0"), "it reaches more than the team's own pods");
    let mut w = BackupFixture::new();
    of_own_registry(&mut w);
    assert_eq!(image(&w).as_deref(), Some("registry.k8s.io/etcd:3.6.16-0"));
    w.settings.registry = "mirror.example.com/k8s/".into();
    assert_eq!(image(&w).as_deref(), Some("mirror.example.com/k8s/etcd:3.6.16-0"));
    let mut w = deletion::deleted();
    of_own_registry(&mut w);
    deletion::newer(&mut w, &|_| {});
    assert_eq!(image(&w).as_deref(), Some("registry.k8s.io/etcd:3.6.16-0"), "also to delete it in the store");
}

/// Jobs where a team chose a registry of its own: to a store of the platform, to the team's, and the one that deletes.
pub(crate) fn jobs_of_own_registry() -> Vec<Value> {
    let mut deleted = deletion::deleted();
    deletion::newer(&mut deleted, &|_| {});
    let jobs = [BackupFixture::new(), in_own_store(), deleted].map(|mut w| {
        of_own_registry(&mut w);
        job_of(&w.plan()).into_value()
    });
    jobs.into()
}

/// Its etcd is the team's own, beside it.
fn stands_alone(w: &mut BackupFixture) {
    let mut etcd = w.observed.objects[&crate::Target::from(&w.backup).etcd].clone();
    etcd["metadata"]["namespace"] = TEAM.into();
    w.put(Kind::EtcdCluster, etcd);
    w.backup.spec.cluster_ref = None;
    w.backup.spec.etcd_cluster_ref = Some(berth_api::backup::BackupRef { name: "etcd".into() });
}

#[test]
fn keys_of_the_platform_are_put_beside_no_team_that_it_does_not_name() {
    let mut w = BackupFixture::new();
    stands_alone(&mut w);
    let said = w.says();
    assert!(said.contains("NotAllowed: spec.store: store main is not for a stand-alone EtcdCluster"), "{said}");
    assert_eq!(w.plan().plan.actions().count(), 0);
    w.settings.backups.stores[0].namespaces = vec!["team-b".into()];
    assert_eq!(w.plan().plan.actions().count(), 0);
    w.settings.backups.stores[0].namespaces.push(TEAM.into());
    assert_eq!(described(&w.plan()).last().unwrap(), "create Job team-a/backup-one");
}

/// Members that clients were not told of count, too, and none of those that are left is left out.
#[test]
fn members_that_are_named_are_all_asked_and_each_has_to_answer() {
    let mut w = BackupFixture::new();
    w.backup.spec.without_quorum = true;
    let task = |w: &BackupFixture| {
        let planned = BackupPlanner::plan(w.input());
        let job =
            planned.plan.actions().find_map(|a| if let Action::Create(o) = a { Some(o.value().clone()) } else { None });
        let said = status(w.input(), &planned, None).conditions;
        let said = conditions::find(&said, ConditionType::Ready).map(|c| c.message.clone()).unwrap_or_default();
        job.map(|job| job.to_string()).ok_or(said)
    };
    assert!(!task(&w).unwrap().contains(r#"\"all\":true"#), "whoever answers");
    w.backup.spec.members = vec!["etcd-2".into(), "etcd-4".into()];
    let said = task(&w).unwrap_err();
    assert!(said.contains("to say where member etcd-") && said.contains("spec.members"), "{said}");
    let endpoint = |name: &str| json!({"name": name, "url": format!("https://{name}.x:2379"), "host": format!("{name}.x"), "address": "10.96.9.9"});
    let left = [endpoint("etcd-2"), endpoint("etcd-4")];
    let recovery = json!({"since": "2026-01-01T00:00:00Z", "epoch": 1, "begun": "2026-01-01T00:00:30Z", "left": left});
    etcd(&mut w)["status"]["recovery"] = recovery;
    let job = task(&w).unwrap();
    let members = r#"\"members\":[\"https://etcd-2.x:2379\",\"https://etcd-4.x:2379\"]"#;
    assert!(job.contains(members) && job.contains(r#"\"all\":true"#), "{job}");
    assert!(job.contains("etcd-4.x") && job.contains("10.96.9.9"), "{job}");
    // As an earlier Berth asked for it.
    w.backup.spec.members.clear();
    w.backup.metadata.labels = Some([(berth_api::labels::RECOVERY.to_owned(), "r".to_owned())].into());
    assert_eq!(task(&w).unwrap(), job);
    etcd(&mut w)["status"]["recovery"]["left"] = json!([]);
    let said = task(&w).unwrap_err();
    assert!(said.contains("to say which members are left"), "{said}");
}

fn etcd(w: &mut BackupFixture) -> &mut Value {
    w.observed.objects.iter_mut().find(|(key, _)| key.kind == Kind::EtcdCluster).unwrap().1
}

impl BackupFixture {
    fn new() -> Self {
        let backup = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": "one", "namespace": TEAM, "uid": "u1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"clusterRef": {"name": "acme"}, "store": "main", "deletionPolicy": "Delete"},
        });
        let store = BackupStore {
            name: "main".into(),
            store: Store {
                endpoint: "https://s3:9000".into(),
                bucket: "b".into(),
                region: "r".into(),
                path_style: true,
                ..Store::default()
            },
            prefix: "prod".into(),
            secret: "s3".into(),
            namespaces: vec![],
        };
        let mut settings = Settings::default();
        settings.backups.image = "backup:1".into();
        settings.backups.namespace = "berth-system".into();
        settings.backups.stores.push(store);
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut world = Self {
            backup: serde_json::from_value(backup.clone()).unwrap(),
            observed: Observed::default(),
            settings,
            now,
        };
        let home = BackupFixture::home();
        let labels =
            json!({labels::MANAGED_BY: "berth", labels::CLUSTER_NAME: "acme", labels::CLUSTER_NAMESPACE: TEAM});
        world.put(Kind::Namespace, json!({"metadata": {"name": home, "labels": labels}}));
        world.put(
            Kind::Cluster,
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "namespace": TEAM},
                "spec": {"version": "1.36.3"}, "status": {"version": "1.36.3"},
            }),
        );
        world.put(Kind::EtcdCluster, json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd", "namespace": home},
            "spec": {"version": "3.6.16"},
            "status": {
                "identity": "id", "epoch": 1, "clusterId": "c1",
                "endpoints": [{"name": "etcd-0", "url": "https://etcd-0.x.svc:2379", "host": "etcd-0.x.svc", "address": "10.0.0.1"}],
                "clients": [{"name": "backup", "secretRef": {"name": "etcd-client-backup"}}],
            },
        }));
        world.secret("berth-system", "s3", &["accessKeyID", "secretAccessKey", "ca.crt"]);
        world.secret(&home, names::APISERVER_ENCRYPTION, &["encryption.yaml"]);
        world.put(Kind::EtcdBackup, backup);
        world
    }

    fn home() -> String {
        names::control_plane_namespace(TEAM, "acme")
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

    /// A Job takes that other backup, since this moment.
    fn works(&mut self, namespace: &str, name: &str, pool: Pool) -> &mut BackupJob {
        let of = ObjectKey::namespaced(Kind::EtcdBackup, namespace, name);
        let home = format!("home-of-{namespace}-{name}");
        let (does, stands_alone, had_pod, ended) = (Does::Take, false, true, false);
        let seen = BackupJob { of, does, pool, home, stands_alone, had_pod, began: self.now, ended };
        let all = Arc::make_mut(&mut self.observed.backup_jobs);
        all.push(seen);
        all.last_mut().unwrap()
    }

    fn input(&self) -> Input<'_, EtcdBackup> {
        Input { object: &self.backup, observed: &self.observed, settings: &self.settings, now: self.now }
    }

    fn plan(&self) -> BackupPlan {
        BackupPlanner::plan(self.input())
    }

    /// Plans and takes the status in, as the driver does; what it says.
    fn reconcile(&mut self) -> (BackupPlan, EtcdBackupStatus) {
        let planned = self.plan();
        let status = status(self.input(), &planned, None);
        self.backup.status = Some(status.clone());
        let mut live = serde_json::to_value(&self.backup).unwrap();
        live["metadata"]["uid"] = "u1".into();
        self.put(Kind::EtcdBackup, live);
        (planned, status)
    }

    fn says(&mut self) -> String {
        let (_, status) = self.reconcile();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
        format!("{} {}: {}", status.phase.unwrap_or_default(), ready.reason, ready.message)
    }

    /// The Job is there, and its pod ended with this.
    fn ends(&mut self, job: &str, condition: Option<&str>, messages: &[Outcome]) {
        let (home, labels) = (Self::home(), json!(BackupInput(self.input()).owner().labels));
        let conditions: Vec<_> = condition
            .map(|type_| json!({"type": type_, "status": "True", "message": "too often"}))
            .into_iter()
            .collect();
        self.put(Kind::Job, json!({
            "metadata": {"name": job, "namespace": home, "labels": labels, "uid": "job"}, "status": {"conditions": conditions},
        }));
        for (n, message) in messages.iter().enumerate() {
            let mut labels = labels.clone();
            labels[labels::JOB_NAME] = job.into();
            let message = serde_json::to_string(message).unwrap();
            let end = json!({"exitCode": 1, "finishedAt": format!("2026-01-01T00:00:0{n}Z"), "message": message});
            self.put(Kind::Pod, json!({
                "metadata": {"name": format!("{job}-{n}"), "namespace": home, "labels": labels},
                "status": {"phase": "Failed", "containerStatuses": [{"name": "backup", "state": {"terminated": end}}]},
            }));
        }
    }
}

fn verified() -> Outcome {
    Outcome::from(manifest("prod/team-a/acme/id/20260101T000000Z-7.db"))
}

/// Of a proven backup that is at that key.
pub(crate) fn manifest(key: &str) -> Manifest {
    Manifest {
        key: key.into(),
        sha256: "ab".into(),
        size: 9,
        revision: 7,
        keys: 3,
        hash: 1,
        cluster_id: "c1".into(),
        etcd_version: "3.6.16".into(),
        taken_at: "2026-01-01T00:00:00Z".into(),
        verified_at: "2026-01-01T00:00:30Z".into(),
        of: Subject { identity: "id".into(), epoch: 1, ..Subject::default() },
    }
}

pub(crate) fn failed(at: At, message: &str) -> Outcome {
    Outcome::Failed(Failure { at, message: message.into() })
}

fn described(planned: &BackupPlan) -> Vec<String> {
    planned.plan.actions().map(Action::describe).collect()
}

fn job_of(planned: &BackupPlan) -> Object {
    let jobs = planned.plan.actions().filter_map(|a| if let Action::Create(o) = a { Some(o.clone()) } else { None });
    jobs.last().expect("a Job")
}

#[test]
fn a_job_runs_beside_etcd_with_a_copy_of_the_credentials_and_nothing_else() {
    let world = BackupFixture::new();
    let planned = world.plan();
    let home = BackupFixture::home();
    assert_eq!(
        described(&planned),
        [
            format!(
                "create Secret {home}/backup-one: copy of accessKeyID of Secret berth-system/s3, copy of secretAccessKey of Secret berth-system/s3, copy of ca.crt of Secret berth-system/s3"
            ),
            format!("create Job {home}/backup-one"),
        ]
    );
    let job = job_of(&planned);
    let pod = job.get("/spec/template/spec").unwrap();
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["containers"][0]["image"], "registry.k8s.io/etcd:3.6.16-0");
    assert_eq!(pod["hostAliases"], json!([{"ip": "10.0.0.1", "hostnames": ["etcd-0.x.svc"]}]));
    let task: Value = serde_json::from_str(pod["containers"][0]["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(task["take"]["prefix"], "prod/team-a/acme/id");
    assert_eq!(task["take"]["of"]["kubernetesVersion"], "1.36.3");
    assert_eq!(task["take"]["of"]["encryptionKey"].as_str().map(str::len), Some(64));
    let volumes: Vec<_> = pod["volumes"].as_array().unwrap().iter().map(|v| v["name"].clone()).collect();
    assert_eq!(volumes, ["scratch", "store", "berth", "etcd"]);
    let findings = berth_render::lint(std::slice::from_ref(&job));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn an_image_volume_needs_no_init_container() {
    let mut world = BackupFixture::new();
    world.settings.agent_delivery = berth_api::common::AgentDelivery::ImageVolume;
    let job = job_of(&world.plan());
    assert_eq!(job.get("/spec/template/spec/initContainers"), None);
    assert_eq!(job.get("/spec/template/spec/volumes/2/image/reference"), Some(&json!("backup:1")));
}

#[test]
fn each_container_of_a_job_gets_what_is_asked_for_and_else_what_the_chart_says() {
    let amounts = |value: Value| serde_json::from_value(value).unwrap();
    let of = |defaults: Value, asked: Value| {
        let mut world = BackupFixture::new();
        world.settings.helpers.resources = amounts(defaults["resources"].clone());
        world.settings.helpers.jobs = amounts(defaults["jobs"].clone());
        let etcd = ObjectKey::namespaced(Kind::EtcdCluster, BackupFixture::home(), "etcd");
        world.observed.objects.get_mut(&etcd).unwrap()["spec"]["helpers"] = asked;
        let job = job_of(&world.plan());
        let resources = |path: &str| job.get(&format!("/spec/template/spec/{path}/0/resources")).unwrap().clone();
        (resources("initContainers"), resources("containers"))
    };
    let install = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}});
    let own = json!({"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "4Gi"}});
    assert_eq!(of(json!({}), json!({})), (install, own.clone()));
    let all = json!({
        "limits": {"cpu": "20m", "memory": "32Mi", "ephemeral-storage": "64Mi"},
        "requests": {"cpu": "5m", "memory": "8Mi", "ephemeral-storage": "16Mi"},
    });
    let helper = json!({"limits": {"cpu": "20m", "memory": "32Mi"}, "requests": all["requests"]});
    let its_own = own.clone();
    for (defaults, asked) in [(json!({"resources": all}), json!({})), (json!({}), json!({"resources": all}))] {
        let (install, own) = of(defaults, asked);
        assert_eq!(own, its_own, "it would not do with what is for a helper");
        assert_eq!(install, helper, "the pod is evicted for the limits on storage that there are");
    }
    let of_jobs = json!({"resources": {"limits": {"ephemeral-storage": "42Gi"}}});
    let (install, own) = of(json!({}), json!({"resources": all, "jobs": of_jobs}));
    assert_eq!((&install, &own["limits"]["ephemeral-storage"]), (&all, &json!("42Gi")));
    let (_, own) = of(json!({"resources": all, "jobs": {"limits": {"cpu": "2", "memory": "8Gi"}}}), json!({}));
    assert_eq!(own["limits"], json!({"cpu": "2", "memory": "8Gi"}));
    let (_, own) = of(
        json!({"jobs": {"limits": {"cpu": "2"}}}),
        json!({"resources": all, "jobs": {"resources": {"limits": {"cpu": "3"}}}}),
    );
    assert_eq!(own["limits"], json!({"cpu": "3", "memory": "4Gi"}));
}

#[test]
fn a_job_reaches_its_store_by_the_charts_proxy() {
    let names = |proxy: Option<Value>| {
        let mut world = BackupFixture::new();
        world.settings.proxy = proxy.map(|proxy| serde_json::from_value(proxy).unwrap());
        let job = job_of(&world.plan());
        let env = job.get("/spec/template/spec/containers/0/env").unwrap().clone();
        env.as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["BERTH_BACKUP_TASK"]);
    let proxy = json!({"https": "http://proxy:3128"});
    assert_eq!(names(Some(proxy)), ["BERTH_BACKUP_TASK", "HTTPS_PROXY", "NO_PROXY"]);
}

#[test]
fn what_is_missing_is_named_with_the_way_out() {
    let says = |change: &dyn Fn(&mut BackupFixture)| {
        let mut world = BackupFixture::new();
        change(&mut world);
        world.says()
    };
    let home = BackupFixture::home();
    let remove = |kind, namespace: &str, name: &str| {
        let key = if kind == Kind::Namespace {
            ObjectKey::cluster(kind, name)
        } else {
            ObjectKey::namespaced(kind, namespace, name)
        };
        move |world: &mut BackupFixture| {
            world.observed.objects.remove(&key);
            world.observed.secrets.remove(&key);
        }
    };
    let starts = |said: String, wanted: &str| assert!(said.starts_with(wanted), "{said}");
    starts(
        says(&remove(Kind::Cluster, TEAM, "acme")),
        "Waiting Waiting: waiting for Cluster team-a/acme, which does not exist",
    );
    starts(says(&remove(Kind::Namespace, "", &home)), "Waiting Waiting: waiting for namespace acme-");
    starts(says(&remove(Kind::EtcdCluster, &home, "etcd")), "Waiting Waiting: waiting for EtcdCluster");
    starts(
        says(&remove(Kind::Secret, "berth-system", "s3")),
        "Waiting StoreUnavailable: waiting for Secret berth-system/s3, with the credentials of store main",
    );
    starts(
        says(&|w| w.secret("berth-system", "s3", &["accessKeyID", "secretAccessKey"])),
        "Waiting StoreUnavailable: waiting for key ca.crt of Secret berth-system/s3",
    );
    starts(
        says(&|w| w.backup.spec.store.name = "other".into()),
        "Waiting StoreUnavailable: spec.store: no store other: only main",
    );
    starts(
        says(&|w| w.settings.backups.image.clear()),
        "Waiting StoreUnavailable: the operator was started without --backup-image",
    );
    let no_clients = |w: &mut BackupFixture| {
        let key = crate::Target::from(&w.backup).etcd;
        w.observed.objects.get_mut(&key).unwrap()["status"]["clients"] = json!([]);
    };
    starts(says(&no_clients), "Waiting Waiting: waiting for client backup of EtcdCluster");
    let alone = |w: &mut BackupFixture| {
        no_clients(w);
        stands_alone(w);
        w.settings.backups.stores[0].namespaces.push(TEAM.into());
    };
    starts(
        says(&alone),
        "Waiting Waiting: waiting for client backup of EtcdCluster team-a/etcd: add {name: backup} to its spec.clients",
    );
    let foreign = |w: &mut BackupFixture| {
        w.put(Kind::Job, json!({"metadata": {"name": "backup-one", "namespace": BackupFixture::home()}}));
    };
    starts(says(&foreign), "Waiting ForeignObject: Job acme-");
}

#[test]
fn what_the_pod_says_becomes_the_status_and_stays_when_the_job_is_gone() {
    let mut world = BackupFixture::new();
    world.ends("backup-one", None, &[failed(At::Store, "no connection")]);
    let said = world.says();
    assert_eq!(said, "Running Waiting: waiting for a retry of its Job; the last error: no connection");
    world.ends("backup-one", Some("Complete"), &[failed(At::Store, "no connection"), verified()]);
    let (planned, status) = world.reconcile();
    assert!(described(&planned).is_empty(), "the Job stays until its result is recorded");
    assert_eq!((status.revision, status.keys, status.phase.as_deref()), (Some(7), Some(3), Some("Verified")));
    let home = BackupFixture::home();
    let (planned, _) = world.reconcile();
    assert_eq!(described(&planned), [format!("delete Job {home}/backup-one")]);
    world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
    let (planned, again) = world.reconcile();
    assert!(described(&planned).is_empty());
    assert_eq!((again.phase, again.revision), (status.phase, status.revision));
    assert!(conditions::is_true(&again.conditions, ConditionType::Ready));
}

#[test]
fn damage_stays_whatever_happens_and_an_earlier_berths_proof_has_its_time() {
    let mut world = BackupFixture::new();
    messages::found_damaged(&mut world);
    let found = world.backup.status.clone().unwrap();
    assert_eq!(found.phase.as_deref(), Some("Failed"), "an earlier Berth counts it for nothing, and takes none anew");
    let (planned, again) = world.reconcile();
    assert!(planned.plan.is_empty());
    assert_eq!(again, found, "at rest nothing changes");
    let failure =
        berth_plan::Failure { reason: Reason::Error, message: "the API server is away".into(), in_tenant: false };
    let planned = world.plan();
    let failed = status(world.input(), &planned, Some(&failure));
    assert!(conditions::is_true(&failed.conditions, ConditionType::Damaged) && failed.damaged == found.damaged);
    // An earlier Berth has written what it knows.
    world.backup.status.as_mut().unwrap().conditions.clear();
    world.backup.status.as_mut().unwrap().phase = Some("Verified".into());
    assert_eq!(world.reconcile().1, found);

    let mut world = BackupFixture::new();
    world.ends("backup-one", Some("Complete"), &[verified()]);
    let (_, proven) = world.reconcile();
    let at = |status: &EtcdBackupStatus| {
        conditions::find(&status.conditions, ConditionType::Verified).map(|c| c.last_transition_time.0)
    };
    let then = world.now;
    assert_eq!(at(&proven), Some(then));
    world.now += jiff::SignedDuration::from_hours(24);
    world.backup.status.as_mut().unwrap().conditions.retain(|c| c.type_ != "Verified");
    assert_eq!(at(&world.reconcile().1), Some(then), "since it is Ready");
}

#[test]
fn what_a_pod_of_an_earlier_job_said_does_not_count() {
    let mut world = BackupFixture::new();
    world.ends("backup-one", None, &[verified()]);
    let pod = world.observed.objects.iter_mut().find(|(key, _)| key.kind == Kind::Pod).unwrap().1;
    pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "earlier".into();
    assert!(world.says().contains("its Job to take and prove"));
    let pod = world.observed.objects.iter_mut().find(|(key, _)| key.kind == Kind::Pod).unwrap().1;
    pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "job".into();
    assert_eq!(world.reconcile().1.phase.as_deref(), Some("Verified"));
}

#[test]
fn a_failure_is_the_end_and_says_what_is_at_fault() {
    for (outcome, wanted) in [
        (failed(At::Store, "it answers 403"), "Failed StoreUnavailable: it answers 403"),
        (failed(At::Proof, "another hash"), "Failed BackupNotProven: another hash"),
        (failed(At::Etcd, "no member"), "Failed BackupFailed: no member"),
    ] {
        let mut world = BackupFixture::new();
        world.ends("backup-one", Some("Failed"), &[outcome]);
        assert_eq!(world.says(), wanted);
        world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
        assert_eq!(world.says(), wanted, "and stays");
        assert!(described(&world.plan()).is_empty(), "it is not tried again");
    }
    let mut world = BackupFixture::new();
    world.ends("backup-one", Some("Failed"), &[]);
    assert_eq!(world.says(), "Failed BackupFailed: its Job failed: too often");
    let mut world = BackupFixture::new();
    world.ends("backup-one", Some("Complete"), &[]);
    assert_eq!(world.says(), "Failed BackupFailed: its Job's pod is gone, and with it the result");
}
