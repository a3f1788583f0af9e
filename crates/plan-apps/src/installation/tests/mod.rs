//! What an `AppInstallation` does in each situation, from observation to status.

mod clock;
mod deletion;
mod drift;
mod keep;
pub(crate) mod messages;
mod secrets;

use super::input::ON_ITS_WAY;
use super::*;
use berth_api::app::{
    APP_SECRET, AppChart, AppConfigMap, AppRelease, AppSecret, AppValues, InstalledApp, InstalledIn, OnFailure,
    ReadSecret, ReadValues,
};
use berth_api::apps::{At, Deployed, Failure, Outcome, TASK, Task};
use berth_api::conditions::{self, ConditionType};
use berth_api::{labels, names};
use berth_plan::jobs::env_of;
use berth_plan::secrets::SecretFacts;
use berth_plan::{Observed, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TEAM: &str = "team-a";
const NAME: &str = "acme-web-12345678";

/// A tenant that answers, and an installation in it.
struct Fixture {
    object: AppInstallation,
    observed: Observed,
    settings: Settings,
    now: Timestamp,
    /// Jobs that were made.
    jobs: usize,
}

impl Fixture {
    fn new() -> Self {
        let spec = berth_api::AppInstallationSpec {
            app: InstalledApp { namespace: "berth-system".into(), name: "web".into(), uid: "app-uid".into() },
            cluster: InstalledIn { name: "acme".into(), uid: "cluster-uid".into() },
            release: AppRelease {
                chart: AppChart {
                    oci: Some("oci://reg/web".into()),
                    version: Some("1.0.0".into()),
                    ..AppChart::default()
                },
                namespace: Some("shop".into()),
                release_name: Some("web".into()),
                timeout_seconds: 300,
                ..AppRelease::default()
            },
            config_maps: vec![],
            secrets: vec![],
            digest: String::new(),
        };
        let mut object = AppInstallation::new(NAME, spec);
        object.metadata.namespace = Some(TEAM.into());
        object.metadata.uid = Some("installation-uid".into());
        object.metadata.generation = Some(1);
        let mut settings = Settings::default();
        settings.apps.image = "reg/apps:1".into();
        settings.apps.namespace = "berth-system".into();
        let now = "2026-01-31T12:00:00Z".parse().unwrap();
        let mut it = Self { object, observed: Observed::default(), settings, now, jobs: 0 };
        let target = it.target();
        it.selects("prod");
        it.available("True");
        let labels = json!({
            labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::CLUSTER_NAME: "acme", labels::CLUSTER_NAMESPACE: TEAM,
        });
        it.put(&target.namespace(), json!({"metadata": {"labels": labels}}));
        it.put(&target.policy(), json!({"metadata": {}}));
        it.epoch(1);
        it
    }

    fn target(&self) -> Target {
        Target::from(&self.object)
    }

    fn put(&mut self, key: &ObjectKey, mut object: Value) {
        object["metadata"]["name"] = key.name.clone().into();
        object["metadata"]["namespace"] = key.namespace.clone().into();
        self.observed.objects.insert(key.clone(), object);
    }

    fn available(&mut self, status: &str) {
        let condition = json!({
            "type": "Available", "status": status, "reason": "Asleep", "message": "it sleeps",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let cluster = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"uid": "cluster-uid", "labels": {"env": "prod"}},
            "spec": {"version": "1.36.3"}, "status": {"conditions": [condition]},
        });
        self.put(&self.target().cluster.clone(), cluster);
    }

    /// Its App is for `Cluster`s with that label; its own has `prod`.
    fn selects(&mut self, env: &str) {
        let app = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"uid": "app-uid"},
            "spec": {
                "clusterSelector": {"matchLabels": {"env": env}}, "chart": {"oci": "oci://reg/web", "version": "1.0.0"},
            },
        });
        self.put(&self.target().app.clone(), app);
    }

    fn epoch(&mut self, epoch: i64) {
        let etcd = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {}, "spec": {"version": "3.6.16"},
            "status": {"epoch": epoch},
        });
        self.put(&self.target().etcd(), etcd);
    }

    fn input(&self) -> Input<'_, AppInstallation> {
        Input { object: &self.object, observed: &self.observed, settings: &self.settings, now: self.now }
    }

    /// One reconcile: what is planned is done, and the status written.
    fn reconcile(&mut self) -> InstallationPlan {
        let planned = InstallationPlanner::plan(self.input());
        for action in planned.plan.actions().cloned().collect::<Vec<_>>() {
            match action {
                Action::Create(object) => {
                    let mut live = object.value().clone();
                    self.jobs += 1;
                    live["metadata"]["uid"] = format!("job-{}", self.jobs).into();
                    live["metadata"]["creationTimestamp"] = self.now.to_string().into();
                    self.observed.objects.insert(object.key().clone(), live);
                }
                Action::Secret(plan) => {
                    let live = json!({"metadata": {"uid": "secret", "labels": plan.labels}});
                    self.put(&plan.key.clone(), live);
                }
                Action::Delete { key, uid: of, .. } => {
                    let live = self.observed.objects.remove(&key).expect("what is deleted is there");
                    assert_eq!(uid(&live), of, "{key}");
                    self.observed.objects.retain(|other, _| key.kind != Kind::Job || other.kind != Kind::Pod);
                }
                other => panic!("{other:?}"),
            }
        }
        if !planned.plan.finished {
            self.object.status = Some(InstallationPlanner::status(self.input(), &planned, None));
        }
        planned
    }

    /// Reconciles until nothing is done any more.
    fn settle(&mut self) -> InstallationPlan {
        for _ in 0..10 {
            let before = (self.object.status.clone(), self.observed.objects.clone());
            let planned = self.reconcile();
            if planned.plan.finished || before == (self.object.status.clone(), self.observed.objects.clone()) {
                return planned;
            }
        }
        panic!("it does not settle: {:?}", self.object.status);
    }

    fn job(&self) -> Option<&Value> {
        self.observed.get(&self.target().job)
    }

    fn task(&self) -> Option<Task> {
        serde_json::from_str(env_of(self.job()?, TASK)?).ok()
    }

    /// The Job's pod ends with this.
    fn ends(&mut self, outcome: &Outcome) {
        let job = self.job().expect("a Job").clone();
        let failed = matches!(outcome, Outcome::Failed(_));
        let mut labels = job["spec"]["template"]["metadata"]["labels"].clone();
        labels[labels::JOB_NAME] = job["metadata"]["name"].clone();
        let said = serde_json::to_string(outcome).unwrap();
        let end = json!({"terminated": {"message": said, "finishedAt": self.now.to_string()}});
        let key = ObjectKey::namespaced(Kind::Pod, &*self.target().home, "pod");
        let phase = if failed { "Failed" } else { "Succeeded" };
        let statuses = json!([{"name": "apps", "state": end}]);
        self.put(
            &key,
            json!({"metadata": {"labels": labels}, "status": {"phase": phase, "containerStatuses": statuses}}),
        );
        let type_ = if failed { "Failed" } else { "Complete" };
        let job = self.observed.objects.get_mut(&self.target().job).unwrap();
        job["status"]["conditions"] = json!([{"type": type_, "status": "True", "message": "m"}]);
    }

    fn deployed(&mut self, revision: i64) {
        let Some(Task::Deploy(task)) = self.task() else { panic!("{:?}", self.job()) };
        self.ends(&Outcome::Deployed(Deployed {
            revision,
            chart: "web".into(),
            version: "1.0.0".into(),
            manifest_digest: format!("digest-{revision}"),
            epoch: task.epoch,
            ..Deployed::default()
        }));
    }

    /// The digest of what was deployed last, as its Job is told.
    fn told(&self) -> Option<String> {
        self.task().expect("a Job").release().recorded.clone().map(|recorded| recorded.manifest_digest)
    }

    fn fails(&mut self) {
        self.ends(&Outcome::Failed(Failure { at: At::Release, message: "UPGRADE FAILED: no".into() }));
    }

    fn change(&mut self, change: impl FnOnce(&mut AppRelease)) {
        change(&mut self.object.spec.release);
        *self.object.metadata.generation.get_or_insert(1) += 1;
    }

    fn says(&self) -> String {
        let status = self.object.status.clone().unwrap_or_default();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
        format!("{} {} {}: {}", status.phase.unwrap_or_default(), ready.status, ready.reason, ready.message)
    }
}

#[test]
fn what_is_asked_for_is_recorded_before_a_job_is_made_and_the_job_goes_when_its_result_is() {
    let mut it = Fixture::new();
    it.reconcile();
    assert!(it.job().is_none(), "nothing is begun that is not on record");
    assert!(it.object.status.as_ref().is_some_and(|s| s.asked.is_some()));
    it.settle();
    let Some(Task::Deploy(task)) = it.task() else { panic!("{:?}", it.job()) };
    assert_eq!((&*task.release.namespace, &*task.release.name), ("shop", "web"));
    assert_eq!(task.release.installation, NAME);
    assert_eq!(it.says(), "Running False Waiting: waiting for its Job to install or upgrade it");
    it.deployed(1);
    it.reconcile();
    let deployed = "Deployed True AsExpected: revision 1 of release shop/web has chart web 1.0.0";
    assert_eq!((it.says(), it.job().is_some()), (deployed.to_owned(), true));
    it.reconcile();
    assert_eq!(it.says(), deployed, "others go by that, and it is no less so while its Job goes");
    it.settle();
    assert_eq!(it.says(), deployed);
    let left = it.observed.objects.keys().filter(|key| matches!(key.kind, Kind::Job | Kind::Secret));
    assert_eq!(left.count(), 0);
    let planned = it.reconcile();
    assert!(planned.plan.is_empty() && planned.requeue_after == Some(AT_REST));
}

#[test]
fn the_pod_has_no_token_and_is_restricted_and_its_certificate_lives_for_an_hour() {
    let mut it = Fixture::new();
    it.reconcile();
    let planned = InstallationPlanner::plan(it.input());
    let secret = planned.plan.actions().find_map(|a| if let Action::Secret(s) = a { Some(s.clone()) } else { None });
    let secret = secret.expect("a Secret beside the Job");
    let [berth_plan::SecretEntry::Kubeconfig { server, spec, .. }] = &secret.entries[..] else { panic!("{secret:?}") };
    let home = &it.target().home;
    assert_eq!(*server, format!("https://kube-apiserver.{home}.svc:6443"));
    assert_eq!((&*spec.common_name, spec.organizations.len()), (names::APPS_USER, 0));
    it.reconcile();
    let pod = &it.job().unwrap()["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"][labels::COMPONENT], names::APPS);
    let spec = &pod["spec"];
    assert_eq!(
        (&spec["automountServiceAccountToken"], &spec["securityContext"]["runAsNonRoot"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(it.job().unwrap()["spec"]["activeDeadlineSeconds"].as_i64().unwrap() < 3600);
}

#[test]
fn what_helm_may_take_its_job_may_and_its_certificate_outlives_that() {
    for (timeout, on_failure, seconds) in
        [(300, OnFailure::Keep, 3000), (1200, OnFailure::Keep, 5460), (1200, OnFailure::Rollback, 9120)]
    {
        let mut it = Fixture::new();
        it.change(|release| (release.timeout_seconds, release.on_failure) = (timeout, on_failure));
        it.reconcile();
        let planned = InstallationPlanner::plan(it.input());
        let secret =
            planned.plan.actions().find_map(|a| if let Action::Secret(s) = a { Some(s.clone()) } else { None });
        let secret = secret.expect("a Secret beside the Job");
        let [berth_plan::SecretEntry::Kubeconfig { spec, .. }] = &secret.entries[..] else { panic!("{secret:?}") };
        assert!(spec.lifetime.as_secs() >= seconds + 600, "{:?}", spec.lifetime);
        it.settle();
        assert_eq!(it.job().unwrap()["spec"]["activeDeadlineSeconds"], seconds);
        // One that began is not given up sooner since the field was changed.
        it.change(|release| (release.timeout_seconds, release.on_failure) = (10, OnFailure::Keep));
        it.now += SignedDuration::from_secs(seconds);
        it.settle();
        assert!(it.says().starts_with("Running"), "{}", it.says());
    }
}

/// Helm's own record is in the tenant, where others write.
#[test]
fn each_job_is_told_what_was_deployed_last_until_the_tenant_is_restored() {
    let mut it = Fixture::new();
    it.settle();
    assert_eq!(it.told(), None, "nobody knows what is there");
    it.deployed(1);
    it.settle();
    it.change(|release| release.wait = true);
    it.settle();
    assert_eq!(it.told().as_deref(), Some("digest-1"));
    it.fails();
    it.settle();
    it.now += SignedDuration::from_mins(1);
    it.settle();
    assert_eq!(it.told().as_deref(), Some("digest-1"), "what failed is no base of anything");
    // A restore while the Job runs: what it says is of before.
    it.deployed(2);
    it.epoch(2);
    it.settle();
    assert_eq!(it.told(), None, "Helm's record is that of the backup");
    it.deployed(1);
    it.settle();
    delete(&mut it);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Uninstall(_))), "{:?}", it.task());
    assert_eq!(it.told().as_deref(), Some("digest-1"));
}

#[test]
fn a_change_of_the_spec_or_of_the_epoch_has_another_job() {
    let mut it = Fixture::new();
    it.settle();
    it.deployed(1);
    it.settle();
    let changes: [fn(&mut Fixture); 2] =
        [|it| it.change(|release| release.chart.version = Some("2.0.0".into())), |it| it.epoch(2)];
    for (change, revision) in changes.into_iter().zip(2..) {
        change(&mut it);
        it.settle();
        assert!(it.job().is_some(), "{}", it.says());
        it.deployed(revision);
        it.settle();
        assert!(it.says().starts_with(&format!("Deployed True AsExpected: revision {revision}")), "{}", it.says());
    }
}

fn from_config_map(release: &mut AppRelease) {
    let named = |name: &str, optional| Some(AppConfigMap { name: name.into(), optional });
    let from = |config_map_ref, key: &str| AppValues { config_map_ref, key: key.into(), ..AppValues::default() };
    release.values_from = vec![from(named("sizes", false), "k"), from(named("more", true), "values.yaml")];
}

#[test]
fn values_of_config_maps_are_those_that_the_app_read_and_count_by_their_place() {
    let mut it = Fixture::new();
    it.change(|release| {
        from_config_map(release);
        release.values_from.insert(1, secrets::from());
    });
    secrets::hold(&mut it, &secrets::named(), "values.yaml", "a: 1");
    secrets::say(&mut it);
    it.settle();
    let waits = "Waiting False Waiting: waiting for App berth-system/web to say what is in key k of ConfigMap sizes";
    assert_eq!(it.says(), waits);
    let read = |values: &str| vec![ReadValues { name: "sizes".into(), key: "k".into(), values: values.into() }];
    let mut revision = 0;
    for (values, size) in [(r#"{"size":1,"none":null}"#, 1), (r#"{"size":2,"none":null}"#, 2)] {
        it.object.spec.config_maps = read(values);
        it.change(|_| {});
        it.settle();
        let Some(Task::Deploy(task)) = it.task() else { panic!("{}", it.says()) };
        let plain: Vec<_> = task.plain.iter().map(|one| (one.at, Value::from(one.values.clone()))).collect();
        assert_eq!(plain, [(0, json!({"size": size, "none": null})), (2, json!({}))]);
        assert_eq!(task.value_files, 3);
        revision += 1;
        it.deployed(revision);
        it.settle();
    }
    // The same values, read anew.
    it.object.spec.digest = "another".into();
    it.change(|_| {});
    it.settle();
    assert!(it.job().is_none() && it.says().starts_with("Deployed True AsExpected: revision 2"), "{}", it.says());
    it.object.spec.config_maps = vec![];
    it.change(|_| {});
    it.settle();
    assert!(it.job().is_none(), "it is never upgraded to no values");
    it.object.spec.config_maps = read("no JSON");
    it.change(|_| {});
    it.settle();
    assert_eq!(it.says(), waits);
}

#[test]
fn one_that_fails_is_tried_again_later_and_at_once_after_a_change() {
    let mut it = Fixture::new();
    for (failures, minutes) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30)] {
        it.settle();
        it.fails();
        for _ in 0..2 {
            it.reconcile();
            assert!(it.says().starts_with("Failed False AppFailed: UPGRADE FAILED: no"), "{}", it.says());
        }
        it.settle();
        assert!(it.says().starts_with("Failed False AppFailed: UPGRADE FAILED: no"), "{}", it.says());
        assert_eq!(it.object.status.as_ref().unwrap().failures, Some(failures));
        assert!(it.job().is_none());
        it.now += SignedDuration::from_mins(minutes) - SignedDuration::from_secs(1);
        it.settle();
        assert!(it.job().is_none(), "{failures}");
        it.now += SignedDuration::from_secs(1);
    }
    it.settle();
    it.fails();
    it.settle();
    it.change(|release| release.wait = true);
    it.settle();
    assert!(it.job().is_some() && it.object.status.as_ref().unwrap().failures.is_none());
    it.deployed(3);
    it.settle();
    assert!(it.says().starts_with("Deployed True"), "{}", it.says());
}

#[test]
fn a_tenant_that_does_not_answer_is_waited_for() {
    let mut it = Fixture::new();
    it.available("False");
    it.settle();
    assert_eq!(it.says(), "Waiting False Asleep: waiting for Cluster team-a/acme to be available: it sleeps");
    assert!(it.job().is_none());
    it.available("True");
    let policy = it.target().policy();
    it.observed.objects.remove(&policy);
    it.settle();
    assert!(it.says().contains("which lets its Job out") && it.job().is_none(), "{}", it.says());
    it.put(&policy, json!({"metadata": {}}));
    it.settle();
    it.deployed(1);
    it.settle();
    it.available("False");
    it.settle();
    assert!(it.says().starts_with("Deployed True"), "what is there stays so while it sleeps: {}", it.says());
}

/// Else the App would take it for one that sleeps, and give its place and the next wave to others.
#[test]
fn one_that_is_about_to_begin_counts_as_running() {
    let mut it = Fixture::new();
    let policy = it.target().policy();
    it.observed.objects.remove(&policy);
    it.reconcile();
    assert!(it.says().starts_with("Running False Waiting: waiting for NetworkPolicy"), "{}", it.says());
    it.now += ON_ITS_WAY;
    it.reconcile();
    assert!(it.says().starts_with("Waiting False"), "{}", it.says());
    it.put(&policy, json!({"metadata": {}}));
    it.reconcile();
    assert!(it.job().is_none() && it.says().starts_with("Running False"), "to be recorded: {}", it.says());
    it.settle();
    assert!(it.job().is_some());
}

/// A network plugin has to be there before a node is ready, and the `Cluster` is not `Ready` before the plugin is there.
#[test]
fn the_api_is_all_that_an_installation_waits_for() {
    let mut it = Fixture::new();
    let of = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = json!([
        of("Ready", "False", "AppsNotReady"),
        of("Available", "True", "AsExpected"),
        of("Degraded", "True", "AppsNotReady"),
        of("AddonsReady", "False", "AddonsNotReady"),
        of("AppsReady", "False", "AppsNotReady"),
    ]);
    let key = it.target().cluster;
    let live = it.observed.objects.get_mut(&key).unwrap();
    live["status"] = json!({"conditions": conditions, "nodes": {"total": 0, "ready": 0}});
    it.settle();
    assert!(it.job().is_some(), "{}", it.says());
    it.deployed(1);
    it.settle();
    assert!(it.says().starts_with("Deployed True"), "{}", it.says());
}

/// Whoever says that a release which is pending is nobody's has to be the only one.
#[test]
fn no_job_begins_while_a_pod_of_an_earlier_one_may_work() {
    let mut it = Fixture::new();
    let key = ObjectKey::namespaced(Kind::Pod, &*it.target().home, "old");
    let labels = json!({labels::APP_INSTALLATION: NAME, labels::APP_INSTALLATION_NAMESPACE: TEAM});
    it.put(&key, json!({"metadata": {"labels": labels}, "status": {"phase": "Running"}}));
    it.settle();
    assert!(it.job().is_none() && it.says().contains("of an earlier Job to end"), "{}", it.says());
    // Its node is down: the pod is Running for ever, as far as is known.
    let live = it.observed.objects.get_mut(&key).unwrap();
    live["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:30Z".into();
    live["spec"] = json!({"nodeName": "worker-7"});
    it.now = "2026-01-31T12:01:00Z".parse().unwrap();
    assert!(
        it.settle().plan.for_platform.is_empty() && it.says().ends_with("of an earlier Job to end"),
        "{}",
        it.says()
    );
    it.now = "2026-01-31T12:01:30Z".parse().unwrap();
    let told = it.settle().plan.for_platform;
    let home = it.target().home;
    assert_eq!(
        told,
        [format!(
            "Pod {home}/old was to be gone by 2026-01-31T12:00:30Z, and node worker-7 does not say that it is. Confirm that this machine is off, and then: kubectl delete node worker-7"
        )]
    );
    assert!(it.says().contains(&format!("kubectl -n {home} get pod old -o wide")), "{}", it.says());
    assert!(!it.says().contains("worker-7"), "which nodes there are is not the team's");
    it.observed.objects.get_mut(&key).unwrap()["status"]["phase"] = "Failed".into();
    it.settle();
    assert!(it.job().is_some());
}

/// Its App is for others by now.
fn delete(it: &mut Fixture) {
    it.selects("test");
    is_deleted(it);
}

fn is_deleted(it: &mut Fixture) {
    let at = serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap();
    it.object.metadata.deletion_timestamp = Some(at);
}

#[test]
fn the_job_goes_to_the_port_that_the_tenant_has() {
    let mut it = Fixture::new();
    let key = it.target().cluster;
    it.observed.objects.get_mut(&key).unwrap()["spec"]["endpoint"] = json!({"port": 443});
    it.reconcile();
    let planned = InstallationPlanner::plan(it.input());
    let secret = planned.plan.actions().find_map(|a| if let Action::Secret(s) = a { Some(s.clone()) } else { None });
    let secret = secret.expect("a Secret beside the Job");
    let [berth_plan::SecretEntry::Kubeconfig { server, .. }] = &secret.entries[..] else { panic!("{secret:?}") };
    assert!(server.ends_with(".svc:443"), "{server}");
}

/// Whoever goes by a status that is of the newest spec, as waves do, would take that one for deployed.
#[test]
fn what_a_job_of_a_former_spec_comes_to_is_not_the_newest() {
    let mut it = Fixture::new();
    it.settle();
    assert!(it.task().is_some(), "{}", it.says());
    it.change(|release| release.wait = true);
    it.deployed(1);
    it.reconcile();
    let status = it.object.status.clone().unwrap();
    assert_eq!(status.observed_generation, it.object.metadata.generation);
    assert_eq!((&it.says()[..7], status.release.unwrap().revision), ("Running", 1));
    it.settle();
    it.deployed(2);
    it.settle();
    assert!(it.says().starts_with("Deployed True AsExpected: revision 2"), "{}", it.says());
}

#[test]
fn values_that_are_too_long_are_refused_with_the_way_out() {
    let mut it = Fixture::new();
    it.change(|release| drop(release.values.insert("a".into(), "x".repeat(70_000).into())));
    it.settle();
    assert!(it.says().starts_with("Waiting False InvalidSpec: spec.values: 70008 bytes"), "{}", it.says());
}

#[test]
fn values_of_a_template_follow_the_tenant_and_what_does_not_render_is_said() {
    let mut it = Fixture::new();
    let tenant = |it: &mut Fixture, labels: Value, host: &str| {
        let key = it.target().cluster;
        let live = it.observed.objects.get_mut(&key).unwrap();
        live["metadata"]["labels"] = labels;
        live["status"]["endpoints"] = json!([{"name": "admin", "host": host, "port": 6443}]);
    };
    tenant(&mut it, json!({"tier": "gold"}), "192.0.2.1");
    let template = "host: {{ cluster.endpoint.host }}\ntier: {{ cluster.labels.tier }}\n";
    it.change(|release| {
        release.values_template = Some(template.into());
        drop(release.values.insert("rule".into(), "{{ $labels.pod }}".into()));
    });
    it.settle();
    let Some(Task::Deploy(task)) = it.task() else { panic!("{}", it.says()) };
    let expected = json!({"host": "192.0.2.1", "tier": "gold", "rule": "{{ $labels.pod }}"});
    assert_eq!(Value::from(task.values), expected);
    it.deployed(1);
    it.settle();
    assert!(it.reconcile().plan.is_empty());

    tenant(&mut it, json!({"tier": "gold", "other": "x"}), "192.0.2.1");
    assert!(it.reconcile().plan.is_empty(), "what it does not say changes nothing");
    tenant(&mut it, json!({"tier": "gold"}), "192.0.2.2");
    it.settle();
    let Some(Task::Deploy(task)) = it.task() else { panic!("{}", it.says()) };
    assert_eq!(task.values["host"], "192.0.2.2");
    it.deployed(2);
    it.settle();

    tenant(&mut it, json!({}), "192.0.2.2");
    it.settle();
    let says = "Waiting False InvalidSpec: spec.valuesTemplate for Cluster team-a/acme, line 2: undefined value: `cluster.labels.tier` is undefined";
    assert!(it.says().starts_with(says), "{}", it.says());
    assert!(it.job().is_none() && it.object.status.as_ref().unwrap().failures.is_none());
}
