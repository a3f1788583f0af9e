//! The alerts of the chart, judged by a real Prometheus that scrapes the operator's own endpoint: each fires and clears.

use berth_api::conditions::Reason;
use berth_operator::http::{Health, serve};
use berth_operator::metrics::{Controller, Metrics, Orphan, ReconcileLabels};
use berth_plan::sizes::{self, Size, SizedPod};
use berth_render::{Kind, ObjectKey};
use berth_testkit::fixtures::{from_yaml, until};
use berth_testkit::prometheus::{Prometheus, impatient};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

const SOON: Duration = Duration::from_mins(1);

fn file(name: &str) -> PathBuf {
    berth_testkit::fixtures::package().join("../../charts/berth/files").join(name)
}

fn condition(type_: &str, status: &str, reason: &str) -> Condition {
    let since = "2026-01-01T00:00:00Z";
    let value = json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": since});
    serde_json::from_value(value).unwrap()
}

fn key(kind: Kind, name: &str) -> ObjectKey {
    ObjectKey::namespaced(kind, "team-a", name)
}

/// A status with the three conditions that alerts look at.
fn say(metrics: &Metrics, ready: (&str, &str), available: &str, degraded: (&str, &str), days: i64) {
    let conditions = [
        condition("Ready", ready.0, ready.1),
        condition("Available", available, "AsExpected"),
        condition("Degraded", degraded.0, degraded.1),
    ];
    let end = Time(Timestamp::now() + SignedDuration::from_hours(24 * days));
    let status = json!({"conditions": conditions, "certificates": {"nextExpiry": end}});
    metrics.tenants.say(&key(Kind::Cluster, "acme"), &status);
}

/// Another tenant's status, which is not ready.
fn not_ready(metrics: &Metrics, name: &str, progressing: &str) {
    let conditions = [condition("Ready", "False", "Waiting"), condition("Progressing", "False", progressing)];
    metrics.tenants.say(&key(Kind::Cluster, name), &json!({"conditions": conditions}));
}

fn well(metrics: &Metrics) {
    say(metrics, ("True", "AsExpected"), "True", ("False", "AsExpected"), 60);
    metrics.tenants.orphans_from(Vec::new);
    metrics.rollouts.stopped(BTreeMap::new());
    metrics.wakes.waiting_from(|| 0);
    metrics.leader.set(1);
    backed_up(metrics, 1);
    scheduled(metrics, "True", "AsExpected");
    recovery(metrics, ("False", "AsExpected"), 2);
    restore(metrics, ("False", "AsExpected"));
    backup(metrics, "False");
    app(metrics, 0);
    registered(metrics, "True", "AsExpected", "AsExpected");
    metrics.users.set([("NotRevoked", 0), ("NotRevokedAsleep", 2)].into());
    reconciles(metrics, "ok", 1000);
    metrics.duration.get_or_create(&Controller { controller: "cluster" }).observe(0.1);
}

/// A schedule whose newest proven backup is so many hours old.
fn backed_up(metrics: &Metrics, hours: i64) {
    backup_of(metrics, "nightly", "AsExpected", hours);
}

fn backup_of(metrics: &Metrics, schedule: &str, reason: &str, hours: i64) {
    let taken = Time(Timestamp::now() - SignedDuration::from_hours(hours));
    let conditions = [condition("Ready", "True", reason), condition("Degraded", "False", "AsExpected")];
    let status = json!({"conditions": conditions, "lastVerifiedTime": taken});
    metrics.tenants.say(&key(Kind::EtcdBackupSchedule, schedule), &status);
}

/// An etcd of which backups are scheduled.
fn scheduled(metrics: &Metrics, status: &str, reason: &str) {
    let status = json!({"conditions": [condition("BackupReady", status, reason)]});
    metrics.tenants.say(&key(Kind::EtcdCluster, "alone"), &status);
}

/// An etcd that began to be restored by itself so many hours ago.
fn recovery(metrics: &Metrics, degraded: (&str, &str), hours: i64) {
    let begun = Time(Timestamp::now() - SignedDuration::from_hours(hours));
    let degraded = condition("Degraded", degraded.0, degraded.1);
    let status = json!({"conditions": [degraded], "recovery": {"begun": begun}});
    metrics.tenants.say(&key(Kind::EtcdCluster, "lost"), &status);
}

/// A backup that was proven.
fn backup(metrics: &Metrics, damaged: &str) {
    let all = [condition("Degraded", damaged, "BackupDamaged"), condition("Damaged", damaged, "BackupDamaged")];
    metrics.tenants.say(&key(Kind::EtcdBackup, "nightly-1"), &json!({"conditions": all}));
}

/// An app that failed so many times in a row. While it is tried again it is not degraded.
fn app(metrics: &Metrics, failures: i64) {
    metrics.tenants.say(&key(Kind::AppInstallation, "acme-web"), &json!({"phase": "Running", "failures": failures}));
}

/// A tenant that Argo CD is to know.
fn registered(metrics: &Metrics, status: &str, reason: &str, available: &str) {
    let all = [condition("Registered", status, reason), condition("Available", "True", available)];
    metrics.tenants.say(&key(Kind::Cluster, "registered"), &json!({"conditions": all}));
}

fn restore(metrics: &Metrics, degraded: (&str, &str)) {
    let degraded = condition("Degraded", degraded.0, degraded.1);
    let status = json!({"conditions": [degraded], "restoredAt": Time(Timestamp::now())});
    metrics.tenants.say(&key(Kind::EtcdRestore, "back"), &status);
}

/// A tenant with autoscaling.
fn sized(metrics: &Metrics) {
    let pod = json!({
        "metadata": {"namespace": "acme-1", "name": "etcd-0", "labels": {"berth.dev/etcd-cluster": "etcd"}},
        "spec": {"containers": [{"name": "etcd", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}]},
        "status": {"phase": "Running"},
    });
    let used = [("etcd".to_owned(), Size { cpu: 20, memory: 1 << 20 })].into();
    let usage = sizes::Metrics::Answered([(("acme-1".to_owned(), "etcd-0".to_owned()), used)].into());
    metrics.fleet_sizes.see(&[SizedPod::of(&pod).unwrap()], &usage);
}

/// Waits until Prometheus has read that metric.
async fn judged_by(prometheus: &Prometheus, name: &str) {
    let read = async || {
        let answer = prometheus.get(&format!("/api/v1/query?query={name}"));
        answer.is_ok_and(|answer| answer["result"][0]["value"].is_array())
    };
    until(SOON, name, read).await;
}

fn reconciles(metrics: &Metrics, result: &'static str, count: u64) {
    metrics.reconciles.get_or_create(&ReconcileLabels { controller: "cluster", result }).inc_by(count);
}

/// Breaks what one alert is about.
type Break = fn(&Metrics);

#[tokio::test]
async fn each_alert_fires_and_clears() {
    let dir = tempfile::tempdir().unwrap();
    let port = berth_testkit::ports::port();
    let (metrics, address) = (Metrics::default(), format!("127.0.0.1:{port}"));
    well(&metrics);
    let (served, at) = (metrics.clone(), address.clone());
    // Of its own, so that it ends with all its connections.
    let endpoint = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    endpoint.spawn(async move { serve(&at, Health::default(), served).await });
    let prometheus = Prometheus::start(&address, &impatient(&file("alerts.yaml"), dir.path()).unwrap()).unwrap();
    let fires = async |names: &[&str]| {
        until(SOON, &format!("{names:?} to fire"), async || prometheus.firing().is_ok_and(|f| f == names)).await;
    };
    until(SOON, "the first scrape", async || {
        prometheus.get("/api/v1/query?query=berth_leader").is_ok_and(|r| r["result"][0]["value"][1] == "1")
    })
    .await;
    fires(&[]).await;

    let cases: [(&[&str], Break); 23] = [
        (&["BerthOperatorAbsent"], |m| {
            m.leader.set(0);
        }),
        (&["BerthClusterUnavailable"], |m| say(m, ("True", "AsExpected"), "False", ("False", "AsExpected"), 60)),
        (&["BerthNeedsAPerson"], |m| say(m, ("True", "AsExpected"), "True", ("True", "DataLost"), 60)),
        (&["BerthFleetStopped"], |m| m.rollouts.stopped([("1.36.3".to_owned(), 3)].into())),
        (&["BerthRolledBack"], |m| say(m, ("True", "AsExpected"), "True", ("True", "RolledBack"), 60)),
        (&["BerthHeld"], |m| say(m, ("True", "AsExpected"), "True", ("True", "Held"), 60)),
        (&["BerthDegraded"], |m| say(m, ("True", "AsExpected"), "True", ("True", "ImageUnavailable"), 60)),
        (&["BerthNotReady"], |m| say(m, ("False", "Waiting"), "True", ("False", "AsExpected"), 60)),
        (&["BerthRightsNotRevoked"], |m| m.users.set([("NotRevoked", 3)].into())),
        (&["BerthNotRegistered"], |m| registered(m, "False", "Rejected", "AsExpected")),
        (&["BerthAppFailed"], |m| app(m, 2)),
        (&["BerthControlPlaneWithoutCluster"], |m| {
            m.tenants.orphans_from(|| {
                vec![Orphan { namespace: "acme-0".into(), cluster_namespace: "a".into(), cluster: "acme".into() }]
            });
        }),
        (&["BerthCertificateExpires"], |m| say(m, ("True", "AsExpected"), "True", ("False", "AsExpected"), 3)),
        (&["BerthBackupOld"], |m| backed_up(m, 37)),
        (&["BerthBackupOverdue"], |m| scheduled(m, "False", "BackupOverdue")),
        (&["BerthBackupDamaged"], |m| backup(m, "True")),
        (&["BerthRestoreFailed"], |m| restore(m, ("True", "BackupDamaged"))),
        (&["BerthRecoveryHeld"], |m| recovery(m, ("True", "RecoveryHeld"), 2)),
        (&["BerthRestoreFailed"], |m| restore(m, ("True", "RestoreFailed"))),
        (&["BerthRecovered"], |m| recovery(m, ("False", "AsExpected"), 0)),
        (&["BerthWakesWait"], |m| m.wakes.waiting_from(|| 3)),
        (&["BerthWakesInVain"], |m| {
            m.wakes.begun.inc_by(10);
            m.wakes.unused.inc_by(6);
        }),
        (&["BerthReconcilesFail"], |m| reconciles(m, "error", 100_000)),
    ];
    for (names, broken) in cases {
        broken(&metrics);
        fires(names).await;
        well(&metrics);
        if names == ["BerthReconcilesFail"] {
            reconciles(&metrics, "ok", 10_000_000);
        }
        fires(&[]).await;
    }
    // Somebody who deletes or pauses a tenant wakes nobody.
    say(&metrics, ("False", "Deleting"), "True", ("False", "AsExpected"), 60);
    not_ready(&metrics, "paused", "Paused");
    judged(&prometheus, "paused").await;
    fires(&[]).await;
    // Rights in one that sleeps come and go once it is awake, and who may not have it asks its platform.
    registered(&metrics, "False", "NotAllowed", "AsExpected");
    judged(&prometheus, "registered").await;
    fires(&[]).await;
    registered(&metrics, "False", "Waiting", "Asleep");
    judged(&prometheus, "registered").await;
    fires(&[]).await;
    registered(&metrics, "True", "AsExpected", "AsExpected");
    // Nothing is written to an etcd that sleeps. Once it is awake its backup is old.
    backup_of(&metrics, "of-one-that-sleeps", "Asleep", 48);
    judged(&prometheus, "of-one-that-sleeps").await;
    fires(&[]).await;
    backup_of(&metrics, "of-one-that-sleeps", "AsExpected", 48);
    fires(&["BerthBackupOld"]).await;
    backup_of(&metrics, "of-one-that-sleeps", "Asleep", 48);
    fires(&[]).await;
    // One that is paused hides no other.
    not_ready(&metrics, "stuck", "Settled");
    fires(&["BerthNotReady"]).await;

    sized(&metrics);
    judged_by(&prometheus, "berth_fleet_used_cpu_cores").await;
    prometheus.answers(&file("dashboard.json")).unwrap();

    // An operator that is not there says nothing.
    not_ready(&metrics, "stuck", "Paused");
    fires(&[]).await;
    endpoint.shutdown_background();
    fires(&["BerthOperatorAbsent"]).await;
}

/// Waits until Prometheus has heard of that tenant, and has judged the rules often enough since for any to fire.
async fn judged(prometheus: &Prometheus, tenant: &str) {
    let query = format!("/api/v1/query?query=count(%7Bname%3D%22{tenant}%22%7D)");
    let heard = || prometheus.get(&query).is_ok_and(|answer| !answer["result"][0].is_null());
    until(SOON, "it is heard of", async || heard()).await;
    let mut times = BTreeSet::new();
    until(SOON, "the rules to be judged", async || {
        times
            .extend(prometheus.get("/api/v1/rules").ok().map(|rules| rules["groups"][0]["lastEvaluation"].to_string()));
        // Pending, its second, and one more; the first may have been before.
        times.len() > 4
    })
    .await;
}

/// What one alert says within a minute, the other leaves to it.
#[test]
fn reasons_of_alerts_are_those_of_the_code() {
    let rules: Value = from_yaml(&std::fs::read_to_string(file("alerts.yaml")).unwrap());
    let reasons = |alert: &str, operator: &str| {
        let rule = rules["groups"][0]["rules"].as_array().unwrap().iter().find(|rule| rule["alert"] == alert);
        let query = rule.and_then(|rule| rule["expr"].as_str()).unwrap();
        let (_, list) = query.split_once(&format!("reason{operator}\"")).unwrap();
        let mut all: Vec<_> = list.split('"').next().unwrap().split('|').map(str::to_owned).collect();
        let known = |reason: &String| Reason::ALL.iter().any(|r| r.to_string() == *reason);
        assert!(all.iter().all(known), "{alert}: {all:?}");
        all.sort();
        all
    };
    let (at_once, mut left) = (reasons("BerthNeedsAPerson", "=~"), reasons("BerthDegraded", "!~"));
    // Others have alerts of their own.
    left.retain(|reason| {
        !["Paused", "RolledBack", "Held", "RecoveryHeld", "RestoreFailed", "BackupDamaged", "AppFailed", "AppsNotReady"]
            .contains(&reason.as_str())
    });
    assert_eq!(at_once, left);
}

/// The table of docs/metrics.md and the rules name the same alerts, with the same severity and `for`, which the other test cuts.
#[test]
fn each_alert_is_documented_as_it_is() {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    let files: [Value; 3] = ["alerts.yaml", "alerts-gateway.yaml", "alerts-access.yaml"]
        .map(|name| from_yaml(&std::fs::read_to_string(file(name)).unwrap()));
    let rules: Vec<_> = files
        .iter()
        .flat_map(|rules| rules["groups"].as_array().unwrap())
        .flat_map(|group| group["rules"].as_array().unwrap())
        .map(|rule| [&rule["alert"], &rule["labels"]["severity"], &rule["for"]].map(text))
        .collect();
    let page = std::fs::read_to_string(file("../../../docs/metrics.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `Berth"));
    let documented: Vec<_> = rows
        .map(|row| {
            let mut columns = row.trim_matches('|').split('|').map(|c| c.trim().trim_matches('`').to_owned());
            std::array::from_fn(|_| columns.next().unwrap_or_default())
        })
        .collect();
    assert_eq!(rules, documented);
}
