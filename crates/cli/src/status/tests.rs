//! Reports as people see them: healthy, waiting, blocked, deleting.

#![allow(clippy::needless_pass_by_value, reason = "json! is written in place")]

mod schema;

use super::read::{self, Seen};
use super::{all, list, report, rows, tree};
use crate::access::Access;
use crate::args::{Format, Status};
use crate::outcome::Outcome;
use crate::output::same_in_both_forms;
use crate::paint::plain;
use berth_api::conditions::Reason;
use berth_fence::{Fence, FencedClient};
use berth_kubeio::Io;
use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn now() -> Timestamp {
    "2026-02-01T00:00:00Z".parse().unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-31T23:55:00Z", "observedGeneration": 1})
}

/// All conditions as they should be, but for those given.
pub(super) fn conditions(but: &[Value]) -> Value {
    let all = ["Ready", "Available", "Progressing", "Degraded", "PKIReady", "EtcdAvailable", "ControlPlaneAvailable"];
    let one = |t: &&str| {
        let calm = if ["Progressing", "Degraded"].contains(t) { "False" } else { "True" };
        but.iter().find(|c| c["type"] == **t).cloned().unwrap_or_else(|| condition(t, calm, "AsExpected", "fine"))
    };
    all.iter().map(one).collect()
}

pub(super) fn status(phase: &str, conditions: &Value) -> Value {
    json!({
        "observedGeneration": 1, "phase": phase, "version": "1.36.3",
        "endpoints": [{"name": "admin", "host": "10.96.114.7", "port": 6443}],
        "controlPlaneNamespace": {"name": "acme-9201d5e7", "uid": "u"},
        "components": [{"name": "kube-apiserver", "version": "1.36.3", "ready": 2, "desired": 2},
            {"name": "kube-controller-manager", "version": "1.36.3", "ready": 1, "desired": 1},
            {"name": "kube-scheduler", "version": "1.36.3", "ready": 1, "desired": 1}],
        "certificates": {"nextExpiry": "2026-04-01T12:00:00Z"},
        "conditions": conditions,
    })
}

pub(super) fn cluster(status: Value) -> Value {
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "acme", "namespace": "team-a", "uid": "c", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"version": "1.36.3"}, "status": status,
    })
}

fn pod(name: &str, component: &str, status: Value) -> Value {
    let status = if status.is_null() {
        json!({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c", "restartCount": 0, "state": {"running": {}}}]})
    } else {
        status
    };
    json!({"metadata": {"name": name, "labels": {"app.kubernetes.io/component": component}, "creationTimestamp": "2026-01-29T00:00:00Z"}, "status": status})
}

fn etcd(ready: bool) -> Value {
    let (members, message) =
        if ready { ("1/1", None) } else { ("0/1", Some("pod etcd-0: DataLost: the volume is empty")) };
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd", "namespace": "acme-9201d5e7"},
        "spec": {"version": "3.6.16"},
        "status": {"version": "3.6.16", "readyMembers": members, "members": [{"name": "etcd-0", "ready": ready, "message": message}]},
    })
}

fn seen(cluster: Value) -> Seen {
    Seen::of(serde_json::from_value(cluster).unwrap())
}

fn healthy() -> Seen {
    let restarted = json!({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c", "restartCount": 3}]});
    Seen {
        etcd: serde_json::from_value(etcd(true)).unwrap(),
        pods: vec![
            pod("etcd-0", "etcd", Value::Null),
            pod("kube-apiserver-5d9-abcde", "kube-apiserver", Value::Null),
            pod("kube-apiserver-5d9-fghij", "kube-apiserver", restarted),
            pod("kube-controller-manager-7f-klmno", "kube-controller-manager", Value::Null),
            pod("kube-scheduler-66-pqrst", "kube-scheduler", Value::Null),
        ],
        ..seen(cluster(status("Ready", &conditions(&[]))))
    }
}

fn tree(seen: &Seen) -> String {
    plain(&tree::draw(&report::report(seen, now()), now()))
}

#[test]
fn healthy_tree() {
    assert!(report::report(&healthy(), now()).ready);
    insta::assert_snapshot!(tree(&healthy()));
}

#[test]
fn programs_read_the_same_as_json_and_as_yaml() {
    let healthy = same_in_both_forms(&report::report(&healthy(), now()));
    assert_eq!((&healthy["ready"], &healthy["etcd"]["readyMembers"]), (&json!(true), &json!("1/1")));
    let refused = condition("Ready", "False", "Rejected", "quota \"x\": no\n- more: 1 # and so on");
    let refused = seen(cluster(status("Provisioning", &conditions(&[refused]))));
    let refused = same_in_both_forms(&report::report(&refused, now()));
    let ready = refused["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
    assert_eq!(ready["reason"], "Rejected");
}

#[test]
fn waiting_tree() {
    let why = "kube-apiserver: waiting for the rollout to finish: 0 of 1 pods are updated and ready";
    let waiting = [
        condition("Ready", "False", "PodsNotReady", why),
        condition("Available", "False", "Waiting", "no pod of kube-apiserver is ready"),
        condition("Progressing", "True", "RollingOut", why),
        condition("ControlPlaneAvailable", "False", "PodsNotReady", why),
    ];
    let mut status = status("Provisioning", &conditions(&waiting));
    status["version"].take();
    status["components"] = json!([]);
    let image = json!({"containerStatuses": [{"name": "c", "image": "registry.k8s.io/kube-apiserver:v1.36.3", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]});
    let deployment = json!({"metadata": {"name": "kube-apiserver", "generation": 1}, "spec": {"replicas": 1}, "status": {"observedGeneration": 1}});
    let seen = Seen {
        deployments: vec![deployment],
        pods: vec![pod("kube-apiserver-5d9-abcde", "kube-apiserver", image)],
        ..seen(cluster(status))
    };
    assert!(!report::report(&seen, now()).ready);
    insta::assert_snapshot!(tree(&seen));
}

#[test]
fn blocked_tree() {
    let why = "pod etcd-0: DataLost: the volume is empty. Restore it from a backup, or delete the Cluster";
    let blocked = [
        condition("Ready", "False", "DataLost", &format!("etcd: {why}")),
        condition("Available", "False", "QuorumLost", "etcd has no quorum"),
        condition("Degraded", "True", "DataLost", &format!("etcd: {why}")),
        condition("EtcdAvailable", "False", "DataLost", why),
    ];
    let seen = Seen { etcd: serde_json::from_value(etcd(false)).unwrap(), ..healthy() };
    let seen =
        Seen { cluster: serde_json::from_value(cluster(status("Blocked", &conditions(&blocked)))).unwrap(), ..seen };
    insta::assert_snapshot!(tree(&seen));
}

#[test]
fn deleting_tree() {
    let why = "being deleted; deletion: waiting for Namespace acme-9201d5e7 to be deleted";
    let leaving =
        [condition("Ready", "False", "Deleting", why), condition("Progressing", "True", "Deleting", "being deleted")];
    let mut cluster = cluster(status("Deleting", &conditions(&leaving)));
    cluster["metadata"]["deletionTimestamp"] = "2026-01-31T23:59:00Z".into();
    cluster["spec"]["deletion"] = json!({"protected": false});
    insta::assert_snapshot!(tree(&seen(cluster)));
}

/// Since an hour, until the morning.
fn asleep() -> Value {
    let next = json!({"state": "Awake", "at": "2026-02-02T07:00:17Z", "cause": "schedules[0].wake (0 7 * * 1-5 UTC)"});
    json!({"state": "Asleep", "since": "2026-01-31T23:00:00Z", "cause": "schedules[0].sleep (0 23 * * * UTC)", "next": next})
}

#[test]
fn whether_it_sleeps_is_said_with_what_changes_it_next() {
    let line = |hibernation: Value| {
        let mut status = status("Asleep", &conditions(&[]));
        status["hibernation"] = hibernation;
        let text = tree(&seen(cluster(status)));
        text.lines().find(|line| line.contains("sleep  ")).map(str::to_owned)
    };
    assert_eq!(
        line(asleep()).as_deref(),
        Some(
            "├─ sleep      Asleep for 60m, by schedules[0].sleep (0 23 * * * UTC); at 2026-02-02T07:00:17Z it wakes by schedule: schedules[0].wake (0 7 * * 1-5 UTC)"
        )
    );
    let by_hand =
        json!({"state": "Awake", "since": "2026-01-31T23:00:00Z", "cause": "annotation berth.dev/hibernate: wake@x"});
    assert_eq!(
        line(by_hand).as_deref(),
        Some("├─ sleep      Awake for 60m, by annotation berth.dev/hibernate: wake@x")
    );
    assert_eq!(line(Value::Null), None);
}

#[test]
fn what_may_not_be_read_is_said_and_the_status_is_enough() {
    let mut seen = seen(cluster(status("Ready", &conditions(&[]))));
    seen.notes.push("not shown: list pods in acme-9201d5e7: forbidden".to_owned());
    insta::assert_snapshot!(tree(&seen));
}

/// The line `next:`.
fn next(cluster: Value) -> String {
    report::report(&seen(cluster), now()).next
}

#[test]
fn the_next_thing_is_named() {
    let degraded = |reason: &str, message: &str| {
        let all = [condition("Ready", "False", reason, message), condition("Degraded", "True", reason, message)];
        cluster(status("Blocked", &conditions(&all)))
    };
    let adopt = next(degraded("AdoptionRequired", "namespace: …"));
    assert!(adopt.contains("kubectl berth adopt acme -n team-a"), "{adopt}");
    let told = "run: kubectl annotate namespace acme-1 berth.dev/allow-adoption=x. Otherwise …";
    let adopt = next(degraded("AdoptionRequired", told));
    assert_eq!(adopt, told);
    assert!(
        next(degraded("ControlPlaneLost", "gone. Restore it"))
            .starts_with("gone. Restore it. To set the annotation: kubectl berth adopt")
    );
    let image = next(degraded("ImageUnavailable", "etcd: pod etcd-0 cannot pull x"));
    assert_eq!(image, format!("etcd: pod etcd-0 cannot pull x. {}", Reason::ImageUnavailable.what_to_do()));
    for (reason, why) in [("InvalidSpec", "spec.network: …"), ("APINotReachable", "tenant: … Create a DNS record")]
    {
        assert_eq!(next(degraded(reason, why)), why);
    }
    assert_eq!(next(cluster(status("Ready", &conditions(&[])))), "nothing to do");

    let mut unseen = cluster(json!({}));
    assert!(next(unseen.clone()).contains("check that the operator runs"));
    unseen["metadata"]["creationTimestamp"] = "2026-01-31T23:59:50Z".into();
    assert_eq!(next(unseen), "wait: the operator has not reconciled it yet");

    let mut newer = cluster(status("Ready", &conditions(&[])));
    newer["metadata"]["generation"] = 2.into();
    assert!(!report::report(&seen(newer.clone()), now()).ready);
    let text = tree(&seen(newer.clone()));
    assert!(text.starts_with("Cluster team-a/acme Ready, newest spec not reconciled yet\n"), "{text}");
    assert!(next(newer).starts_with("wait: the operator has not reconciled the newest spec"));

    let why = "etcd: waiting for its members: 0 of 1 are ready";
    let moving = [condition("Ready", "False", "Waiting", why), condition("Progressing", "True", "RollingOut", why)];
    assert_eq!(next(cluster(status("Provisioning", &conditions(&moving)))), format!("wait: {why}"));

    let mut paused = cluster(status("Paused", &conditions(&[])));
    paused["spec"]["paused"] = true.into();
    assert!(next(paused).contains("patch clusters.berth.dev acme"));

    let protected = [condition("Ready", "False", "Deleting", "being deleted; set it to false")];
    let mut held = cluster(status("Deleting", &conditions(&protected)));
    held["metadata"]["deletionTimestamp"] = "2026-01-31T23:59:00Z".into();
    assert!(next(held).contains("\"protected\":false"));
}

#[test]
fn a_certificate_is_told_of_once_its_renewal_is_overdue() {
    let told = |hours: i64, days: Option<i64>| {
        let mut old = cluster(status("Ready", &conditions(&[])));
        old["status"]["certificates"]["nextExpiry"] = (now() + SignedDuration::from_hours(hours)).to_string().into();
        let leaf_lifetime = days.map(|d| SignedDuration::from_hours(24 * d));
        report::report(&Seen { leaf_lifetime, ..seen(old) }, now()).next.contains("was not renewed")
    };
    for days in [1, 2, 7, 21, 22, 30, 90, 365] {
        // Renewal is due at two thirds, at most a twentieth of that later.
        let left = 24 * days * 3 / 10;
        assert!(!told(left, Some(days)), "{days} days");
        assert!(told((24 * days / 5).min(24 * 6), Some(days)), "{days} days");
        assert!(told(-1, Some(days)), "{days} days");
    }
    assert!(!told(24 * 8, Some(365)));
    // Whoever may not read the operator's configuration gets no advice that may be wrong.
    assert!(!told(8, None) && told(5, None));
}

/// Every text in it but times, with a bell behind it.
fn with_bells(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_err() => text.push('\u{7}'),
        Value::Array(all) => all.iter_mut().for_each(with_bells),
        Value::Object(all) => all.values_mut().for_each(with_bells),
        _ => {}
    }
}

#[test]
fn nothing_from_the_cluster_commands_the_terminal() {
    let sick = [condition("Ready", "False", "QuorumLost", "m"), condition("EtcdAvailable", "False", "QuorumLost", "n")];
    let mut all = cluster(status("Degraded", &conditions(&sick)));
    let mut etcd_there = etcd(false);
    etcd_there["status"]["conditions"] = json!(sick);
    let mut pods = vec![pod("etcd-0", "etcd", Value::Null)];
    for part in ["metadata", "status"] {
        with_bells(&mut all[part]);
        with_bells(&mut etcd_there[part]);
    }
    all["spec"]["version"] = "1.36.4\u{7}".into();
    with_bells(&mut pods[0]);
    // What a component and an endpoint are called are Berth's own words.
    let mut component = pod("kube-apiserver-0", "kube-apiserver", json!({}));
    with_bells(&mut component["metadata"]["name"]);
    all["status"]["components"][0]["name"] = "kube-apiserver".into();
    all["status"]["endpoints"][0]["name"] = "admin".into();
    pods.push(component);
    let seen = Seen {
        etcd: serde_json::from_value(etcd_there).unwrap(),
        pods,
        notes: vec!["not shown: \u{7}".to_owned()],
        ..seen(all)
    };
    let text = tree::draw(&report::report(&seen, now()), now());
    assert!(!text.contains('\u{7}'), "{text:?}");
    for told in ["acme", "Degraded", "asked for", "10.96.114.7", "acme-9201d5e7", "QuorumLost", "3.6.16", "etcd-0"] {
        assert!(text.contains(told), "{told} is not in {text}");
    }
    assert!(text.contains("kube-apiserver-0") && text.contains("kube-apiserver 1.36.3"), "{text}");
    let table = list::table(&[report::report(&seen, now())], now(), true);
    assert!(!table.contains('\u{7}') && table.contains("10.96.114.7"), "{table:?}");
}

#[test]
fn one_line_for_each() {
    let why = format!("etcd: {}", "a long story ".repeat(20));
    let sick = status("Degraded", &conditions(&[condition("Ready", "False", "QuorumLost", &why)]));
    let rows: Vec<_> = [cluster(status("Ready", &conditions(&[]))), cluster(sick), cluster(json!({}))]
        .into_iter()
        .map(|c| report::report(&seen(c), now()))
        .collect();
    assert_eq!(rows.iter().map(|r| r.ready).collect::<Vec<_>>(), [true, false, false]);
    insta::assert_snapshot!(plain(&list::table(&rows, now(), true)));
}

/// To a meta cluster that answers so at each path.
pub(super) fn access(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> Access {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, value) = answer(request.uri().path());
        let response = Response::builder().status(code).body(Body::from(value.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(response.unwrap()) }
    });
    let client = Client::new(service, "default");
    let io = Io::new(FencedClient::new(client, Fence::closed()), Arc::default(), Duration::from_secs(1));
    Access { io, namespace: "team-a".into(), origin: "https://192.0.2.1:6443 (context meta in config)".into() }
}

pub(super) fn asked(name: Option<&str>, all_namespaces: bool) -> Status {
    let operator_namespace = "berth-system".to_owned();
    Status { name: name.map(Into::into), all_namespaces, operator_namespace, output: Format::Json }
}

/// Of a meta cluster that holds these.
async fn listed(items: &[Value], all_namespaces: bool) -> Outcome {
    let list = json!({"items": items});
    let access = access(move |_| (200, list.clone()));
    all(&access, &asked(None, all_namespaces), now()).await.unwrap()
}

#[tokio::test]
async fn the_lifetime_of_certificates_is_looked_up_when_one_ends_soon() {
    let lifetime = async |expiry: &str, code: u16| {
        let mut old = cluster(status("Ready", &conditions(&[])));
        old["status"]["certificates"]["nextExpiry"] = expiry.into();
        let container = json!({"args": ["--leaf-lifetime-minutes=2880"]});
        let operator = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let access = access(move |path| match path {
            "/apis/berth.dev/v1alpha1/namespaces/team-a/clusters/acme" => (200, old.clone()),
            "/apis/apps/v1/namespaces/berth-system/deployments/berth-operator" if code == 200 => {
                (code, operator.clone())
            }
            "/apis/apps/v1/namespaces/berth-system/deployments/berth-operator" => (code, json!({"code": code})),
            path if path.ends_with("/etcd") => (404, json!({"code": 404})),
            _ => (200, json!({"items": []})),
        });
        read::one(&access, "acme", &asked(Some("acme"), false), now()).await.unwrap().leaf_lifetime
    };
    assert_eq!(lifetime("2026-02-02T00:00:00Z", 200).await, Some(SignedDuration::from_hours(48)));
    assert_eq!(lifetime("2026-03-02T00:00:00Z", 200).await, None);
    for code in [403, 404] {
        assert_eq!(lifetime("2026-02-02T00:00:00Z", code).await, None);
    }
}

#[tokio::test]
async fn one_that_cannot_be_read_is_an_error_however_the_others_are() {
    let ready = cluster(status("Ready", &conditions(&[])));
    let waits = cluster(status("Provisioning", &conditions(&[condition("Ready", "False", "Waiting", "etcd")])));
    let mut strange = ready.clone();
    strange["spec"]["later"] = json!(true);
    for all_namespaces in [false, true] {
        for (items, wanted) in [
            (&[][..], Outcome::Done),
            (std::slice::from_ref(&ready), Outcome::Done),
            (&[ready.clone(), waits.clone()], Outcome::NotYet),
            (std::slice::from_ref(&strange), Outcome::Failed),
            (&[ready.clone(), strange.clone()], Outcome::Failed),
            (&[strange.clone(), waits.clone()], Outcome::Failed),
        ] {
            assert_eq!(listed(items, all_namespaces).await, wanted, "{items:?}");
        }
    }
}
