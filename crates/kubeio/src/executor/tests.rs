//! How far a plan is carried out by an API server that refuses, hangs, or changes what it is told.

use super::*;
use crate::calls::WRITE_DEADLINE;
use berth_fence::{Fence, FencedClient};
use berth_plan::observed::{ApiProbe, InsideTenant};
use berth_plan::{Stage, State};
use berth_render::{Binary, Listing};
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tower::BoxError;

fn slice(family: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default"}, "addressType": family,
    })
}

/// A tenant with that slice in it, which as in any API server keeps its type of addresses and is deleted by its UID alone. Notes
/// what it is asked for.
fn tenant(slice: Value, asked: Arc<Mutex<Vec<String>>>) -> Client {
    let slice = Arc::new(Mutex::new(Some(slice)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (slice, asked) = (slice.clone(), asked.clone());
        async move {
            let method = request.method().to_string();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
            let mut slice = slice.lock().unwrap();
            let refused = |code: u16| (code, json!({"status": "Failure", "message": "no", "code": code}));
            let (code, answer) = match (&*method, slice.clone()) {
                ("PATCH", Some(live)) if live["addressType"] != sent["addressType"] => refused(422),
                ("PATCH", _) => (200, slice.insert(sent).clone()),
                ("GET", Some(live)) => (200, live),
                ("DELETE", Some(live)) if live["metadata"]["uid"] != sent["preconditions"]["uid"] => refused(409),
                ("DELETE", Some(_)) => (200, slice.take().unwrap()),
                _ => refused(404),
            };
            asked.lock().unwrap().push(format!("{method} {code}"));
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn what_is_in_the_way_inside_a_tenant_is_seen_and_makes_room() {
    let asked = Arc::default();
    let mut there = slice("IPv4");
    there["metadata"]["uid"] = "u".into();
    let new = |client, fence| Io::new(FencedClient::new(client, fence), Arc::default(), WRITE_DEADLINE);
    let inside = new(tenant(there.clone(), Arc::clone(&asked)), Fence::open());
    let wanted = Object::new(slice("IPv6")).unwrap();
    let key = wanted.key().clone();
    let mut snapshot = Snapshot::default();
    // Its label is gone, so a list does not have it.
    let listing = Listing { kind: Kind::EndpointSlice, namespace: Some("default") };
    snapshot.observed.api = ApiProbe::Answered { version: None, read: InsideTenant::listed(listing, []) };
    let mut carry = async |io: &Io, actions: &[Action]| {
        let stage = Stage { actions: actions.to_vec(), ..Stage::new(StageId::Tenant, State::Ready) };
        let plan = Plan { stages: vec![stage], ..Plan::default() };
        let mut executor = Executor::new(&inside, Some(io), "test", Timestamp::now().into());
        let applied = executor.apply(&mut snapshot, &plan).await;
        let ApiProbe::Answered { read, .. } = &snapshot.observed.api else { unreachable!() };
        assert!(applied.failure.as_ref().is_none_or(|e| e.in_tenant && e.failure().in_tenant), "{applied:?}");
        (applied.failure.as_ref().map(|e| e.kind), read.get(&key).flatten().cloned(), applied.can_continue())
    };
    let apply = Action::TenantApply(wanted.clone());
    let delete = |uid: &str| Action::TenantDelete { key: wanted.key().clone(), uid: uid.into() };
    let first = carry(&inside, std::slice::from_ref(&apply)).await;
    assert_eq!(first, (Some(ErrorKind::Rejected), Some(there.clone()), true), "another round sees what is there");
    // Another one of that name by now: it stays, and is seen.
    let other = carry(&inside, &[delete("v"), apply.clone()]).await;
    assert_eq!((other.0, other.1), (Some(ErrorKind::Rejected), Some(there)));
    let too_late = new((**inside.client()).clone(), Fence::closed());
    assert_eq!(carry(&too_late, &[delete("u")]).await.0, Some(ErrorKind::Fenced));
    assert_eq!(carry(&inside, &[delete("u"), apply]).await, (None, Some(wanted.value().clone()), true));
    let said = ["PATCH 422", "GET 200", "DELETE 409", "PATCH 422", "GET 200", "DELETE 200", "PATCH 200"];
    assert_eq!(*asked.lock().unwrap(), said);
}

fn error(kind: ErrorKind, what: &str) -> IoError {
    IoError::new(kind, what, "no")
}

/// A round in which something was done and these stages failed, one after the other, until it ended. Each took a write's deadline.
const API_SERVER: StageId = StageId::ControlPlane(Binary::ApiServer);
const CONTROLLER_MANAGER: StageId = StageId::ControlPlane(Binary::ControllerManager);
const SCHEDULER: StageId = StageId::ControlPlane(Binary::Scheduler);

fn round(failures: &[(StageId, ErrorKind)], executor: &mut Executor<'_>) -> Applied {
    let mut applied = Applied { done: 1, ..Applied::default() };
    for (stage, kind) in failures {
        assert!(!applied.ended, "nothing is tried after {:?}", applied.failure);
        executor.failed(Some((*stage, None)), error(*kind, stage.name()), WRITE_DEADLINE, &mut applied);
    }
    applied
}

/// Access to an API server that answers so, and counts.
fn answers(code: u16, answer: Value) -> (Io, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        let answer = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap()) }
    });
    let client = FencedClient::new(Client::new(service, "default"), Fence::open());
    (Io::new(client, Arc::default(), Duration::from_secs(9)), asked)
}

fn executor(io: &Io) -> Executor<'_> {
    Executor::new(io, None, "test", Timestamp::UNIX_EPOCH.into())
}

#[tokio::test]
async fn what_is_about_one_object_ends_its_stage_alone() {
    let (io, _) = answers(200, json!({}));
    for kind in [ErrorKind::Forbidden, ErrorKind::Rejected, ErrorKind::Transient] {
        let alone = round(&[(API_SERVER, kind)], &mut executor(&io));
        assert!(!alone.ended && alone.can_continue(), "{kind:?}");
        let on_the_namespace = round(&[(StageId::Namespace, kind)], &mut executor(&io));
        assert!(on_the_namespace.ended && !on_the_namespace.can_continue(), "{kind:?}");
    }
    for kind in [ErrorKind::Fenced, ErrorKind::Conflict, ErrorKind::NotFound, ErrorKind::Other] {
        let last = round(&[(API_SERVER, kind)], &mut executor(&io));
        assert!(last.ended && !last.can_continue(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_reconcile_ends_where_four_calls_hang_and_not_where_three_do() {
    use StageId::Endpoint;
    let (io, _) = answers(200, json!({}));
    let mut executor = executor(&io);
    let of = |stage| (stage, ErrorKind::Transient);
    let first = round(&[of(API_SERVER), (Endpoint, ErrorKind::Rejected), of(CONTROLLER_MANAGER)], &mut executor);
    assert!(first.can_continue(), "{first:?}");
    assert_eq!(first.failure.map(|e| e.what).as_deref(), Some(API_SERVER.name()));
    assert_eq!(executor.postponed.len(), 2, "what was refused is cheap to try again");
    assert!(round(&[of(SCHEDULER)], &mut executor).can_continue());
    let fourth = round(&[of(Endpoint)], &mut executor);
    assert!(fourth.ended && !fourth.can_continue(), "{fourth:?}");
}

#[tokio::test]
async fn where_calls_fail_at_once_all_stages_are_tried() {
    use StageId::{Endpoint, Etcd, Kubeconfig, Pki, Tenant};
    let (io, _) = answers(200, json!({}));
    let (mut executor, mut applied) = (executor(&io), Applied { done: 1, ..Applied::default() });
    for stage in [Endpoint, Pki, Etcd, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, Kubeconfig, Tenant] {
        let error = error(ErrorKind::Transient, stage.name());
        executor.failed(Some((stage, None)), error, Duration::from_millis(5), &mut applied);
        assert!(!applied.ended, "{stage:?}");
    }
}

/// As those of an App, for each `Cluster`.
#[tokio::test]
async fn of_several_stages_of_an_id_one_that_fails_holds_up_no_other() {
    for code in [403, 503] {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let is_refused = request.uri().path().contains("/team-a/");
            let code = if is_refused { code } else { 200 };
            let answer = json!({"kind": "Status", "status": "Failure", "code": code, "message": "exceeded quota: q"});
            Ok::<_, Infallible>(
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
            )
        });
        let client = FencedClient::new(Client::new(service, "default"), Fence::open());
        let io = Io::new(client, Arc::default(), WRITE_DEADLINE);
        let stage = |namespace: &str| {
            let key = ObjectKey::namespaced(Kind::AppInstallation, namespace, "acme-web");
            let delete = Action::Delete { key: key.clone(), uid: "u".into(), grace: None };
            Stage { of: Some(key), actions: vec![delete], ..Stage::new(StageId::App, State::Ready) }
        };
        let plan = Plan { stages: ["team-a", "team-b", "team-c"].map(stage).into(), ..Plan::default() };
        let (mut executor, mut snapshot) = (executor(&io), Snapshot::default());
        for round in 0..2 {
            let applied = executor.apply(&mut snapshot, &plan).await;
            assert_eq!((applied.done, applied.ended), (2, false), "{code}, round {round}");
            let what = applied.failure.map(|e| e.what).unwrap_or_default();
            assert_eq!(what, "delete AppInstallation team-a/acme-web", "{code}");
        }
    }
}

#[tokio::test]
async fn a_round_in_which_nothing_was_done_is_the_last() {
    let (io, _) = answers(200, json!({}));
    let mut applied = round(&[(API_SERVER, ErrorKind::Transient)], &mut executor(&io));
    applied.done = 0;
    assert!(!applied.can_continue());
    assert!(Applied::default().can_continue(), "the first round");
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b", "uid": "1"},
        "spec": {"image": image},
    })
}

fn plan(actions: Vec<Action>) -> Plan {
    let stage = Stage { actions, ..Stage::new(API_SERVER, State::Ready) };
    Plan { stages: vec![stage], ..Plan::default() }
}

/// Carries out a plan of that action alone, three times in one reconcile unless it ends before, by an API server that answers so.
/// Returns how often it was asked.
async fn three_rounds(action: Action, answer: Value) -> (usize, Option<IoError>) {
    three_rounds_where(action, answer, "").await
}

/// Likewise, with that configuration of the operator.
async fn three_rounds_where(action: Action, answer: Value, config: &str) -> (usize, Option<IoError>) {
    let (io, asked) = answers(200, answer);
    let (plan, mut snapshot) = (plan(vec![action]), Snapshot::default());
    let may_change = berth_plan::settings::Config::parse(config).unwrap().may_change;
    Arc::make_mut(&mut snapshot.observed.meta).may_change = Arc::new(may_change);
    let (mut executor, mut applied) = (executor(&io), Applied::default());
    for _ in 0..3 {
        applied = executor.apply(&mut snapshot, &plan).await;
    }
    (asked.load(Ordering::Relaxed), applied.failure)
}

#[tokio::test]
async fn what_is_changed_on_its_way_is_sent_once_a_reconcile_and_reported() {
    let apply = Action::Apply(Object::new(deployment("ours")).unwrap());
    let (asked, failure) = three_rounds(apply, deployment("theirs")).await;
    let failure = failure.unwrap();
    assert_eq!((asked, failure.kind, failure.what.as_str()), (1, ErrorKind::Rejected, "apply Deployment b/a"));
    assert!(!failure.in_tenant);
    assert!(
        failure.message.contains("a mutating webhook") && failure.message.contains(": /spec/image differs. "),
        "{failure}"
    );
}

#[tokio::test]
async fn what_the_platform_may_change_is_sent_once_and_no_failure_but_inside_a_tenant_nobody_else_may() {
    let of = |key: &str| {
        let pods = json!({"spec": {"nodeSelector": {"disk": key}}});
        let mut all = deployment("ours");
        all["spec"]["template"] = pods;
        all
    };
    let may = "admission: {mayChange: [{kinds: [Deployment], paths: [/spec/template/spec/nodeSelector]}]}";
    let object = || Object::new(of("ssd")).unwrap();
    for (config, failed) in [("", true), (may, false)] {
        let (asked, failure) = three_rounds_where(Action::Apply(object()), of("nvme"), config).await;
        assert_eq!((asked, failure.is_some()), (1, failed), "{failure:?}");
    }
    let inside = Action::TenantApply(object());
    let (io, _) = answers(200, of("nvme"));
    let mut snapshot = Snapshot::default();
    snapshot.observed.api = ApiProbe::Answered { version: None, read: InsideTenant::default() };
    let may_change = berth_plan::settings::Config::parse(may).unwrap().may_change;
    Arc::make_mut(&mut snapshot.observed.meta).may_change = Arc::new(may_change);
    let mut executor = Executor { tenant: Some(&io), ..executor(&io) };
    let mut failures = vec![];
    for _ in 0..2 {
        failures.push(executor.apply(&mut snapshot, &plan(vec![inside.clone()])).await.failure);
    }
    let [None, Some(failure)] = &failures[..] else { panic!("{failures:?}") };
    let way_out = "/disk as asked for: exempt Deployment b/a from that webhook in the tenant";
    assert!(failure.message.ends_with(way_out) && !failure.message.contains("mayChange"), "{failure}");
}

#[tokio::test]
async fn what_was_deleted_is_observed_before_anything_else_is_planned() {
    let key = ObjectKey::namespaced(Kind::Deployment, "b", "a");
    let delete = Action::Delete { key, uid: "1".into(), grace: None };
    let (io, _) = answers(200, json!({}));
    let applied = executor(&io).apply(&mut Snapshot::default(), &plan(vec![delete])).await;
    assert!(applied.failure.is_none() && applied.observe_again && !applied.can_continue(), "{applied:?}");
}

/// What a call that cannot be repeated relies on is recorded by an action before it.
#[tokio::test]
async fn after_an_action_that_failed_none_of_its_stage_is_tried() {
    let refusal = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
    let (io, asked) = answers(403, refusal);
    let key = ObjectKey::namespaced(Kind::Deployment, "b", "a");
    let record = Action::Apply(Object::new(deployment("ours")).unwrap());
    let call = Action::Delete { key, uid: "1".into(), grace: None };
    let applied = executor(&io).apply(&mut Snapshot::default(), &plan(vec![record, call])).await;
    assert_eq!((asked.load(Ordering::Relaxed), applied.done), (1, 0));
    assert_eq!(applied.failure.map(|e| e.what).as_deref(), Some("apply Deployment b/a"));
}

#[tokio::test]
async fn a_policy_to_which_something_is_added_is_reported() {
    let policy = |egress: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "default-deny", "namespace": "b", "uid": "1"},
            "spec": {"podSelector": {}, "egress": egress},
        })
    };
    let apply = Action::Apply(Object::new(policy(json!([]))).unwrap());
    let (asked, failure) = three_rounds(apply.clone(), policy(json!([{}]))).await;
    assert_eq!((asked, failure.map(|e| e.kind)), (1, Some(ErrorKind::Rejected)));
    let mut left_out = policy(json!([]));
    left_out["spec"].as_object_mut().unwrap().remove("egress");
    assert!(three_rounds(apply, left_out).await.1.is_none());
}

#[tokio::test]
async fn a_deletion_that_is_refused_is_reported() {
    let key = ObjectKey::namespaced(Kind::Deployment, "b", "a");
    let refusal = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "no"});
    let (io, _) = answers(422, refusal);
    let delete = Action::Delete { key, uid: "1".into(), grace: None };
    let applied = executor(&io).apply(&mut Snapshot::default(), &plan(vec![delete])).await;
    assert_eq!(applied.failure.map(|e| e.kind), Some(ErrorKind::Rejected));
    assert!(!applied.observe_again);
}

#[tokio::test]
async fn additions_are_taken_over_and_then_applied_away_and_after_a_stop_in_between_applied_away_alone() {
    let owned = json!([{"manager": "berth-cluster", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}}]);
    let field = || Addition { field: "spec.paused".into(), manager: "kubectl-rollout".into() };
    let remove = Action::RemoveAdditions {
        object: Object::new(deployment("ours")).unwrap(),
        uid: "1".into(),
        resource_version: "7".into(),
        managed_fields: owned.clone(),
        additions: vec![field()],
    };
    for (managed, calls) in [(json!([]), 2), (owned, 1)] {
        let (io, asked) = answers(200, deployment("ours"));
        let mut snapshot = Snapshot::default();
        let mut live = deployment("ours");
        live["metadata"]["managedFields"] = managed;
        snapshot.put(Kind::Deployment, live);
        let mut executor = executor(&io);
        let applied = executor.apply(&mut snapshot, &plan(vec![remove.clone()])).await;
        assert_eq!((asked.load(Ordering::Relaxed), applied.done), (calls, 1));
        let said = "Berth removed from Deployment b/a what it does not set: spec.paused (by kubectl-rollout)";
        assert_eq!(executor.removed(), [said]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_refused_is_not_asked_for_again() {
    let service = |ip: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"},
            "spec": {"clusterIP": ip, "ports": [{"port": 1}]},
        })
    };
    let refusal = |message: &str| json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": message});
    let taken = r#"Service "a" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.9"]: failed to allocate IP 10.96.0.9: provided IP is already allocated"#;
    let port =
        r#"Service "a" is invalid: spec.ports[0].nodePort: Invalid value: 30443: provided port is already allocated"#;
    for (message, is_refused) in
        [(taken, true), (port, false), (r#"Service "a" is invalid: spec.ports: Required value"#, false)]
    {
        let (io, asked) = answers(422, refusal(message));
        let mut snapshot = Snapshot::default();
        let asking = Action::Apply(Object::new(service("10.96.0.9")).unwrap());
        let applied = executor(&io).apply(&mut snapshot, &plan(vec![asking])).await;
        assert_eq!((applied.failure.is_none(), applied.can_continue()), (is_refused, is_refused));
        assert_eq!(snapshot.observed.refused_addresses.len(), usize::from(is_refused));
        assert_eq!(
            asked.load(Ordering::Relaxed),
            if is_refused { 1 + RELEASED.len() } else { 1 },
            "it may be given back late"
        );
    }
}

/// Who holds no lease tells etcd nothing; and whatever etcd says, its members are asked anew.
#[tokio::test]
async fn etcd_is_told_behind_the_fence() {
    let told = Arc::new(std::sync::Mutex::new(vec![]));
    let change = berth_plan::MemberChange::Remove { id: "a1".into() };
    let etcd = ObjectKey::namespaced(Kind::EtcdCluster, "ns", "etcd");
    let action = Action::ChangeMembers { etcd, via: "etcd-0".into(), change };
    let stage = Stage { actions: vec![action], ..Stage::new(StageId::Etcd, State::Ready) };
    let plan = Plan { stages: vec![stage], ..Plan::default() };
    let (open, _) = answers(200, json!({}));
    let closed = Io::new(FencedClient::new((**open.client()).clone(), Fence::closed()), Arc::default(), WRITE_DEADLINE);
    for (io, answer, expected) in [
        (&closed, Ok(EtcdAnswer::Done), Some(ErrorKind::Fenced)),
        (&open, Ok(EtcdAnswer::Done), None),
        (&open, Err("etcdserver: request timed out".to_owned()), Some(ErrorKind::Transient)),
    ] {
        let log = told.clone();
        let etcd = CallEtcd(Box::new(move |via, change| {
            log.lock().unwrap().push(format!("{via}: {}", change.describe()));
            Box::pin(std::future::ready(answer.clone()))
        }));
        let mut executor = executor(io).with_etcd(Some(&etcd));
        let applied = executor.apply(&mut Snapshot::default(), &plan).await;
        assert_eq!(applied.failure.as_ref().map(|e| e.kind), expected);
        assert!(!applied.can_continue(), "no other plan from what was seen before");
    }
    assert_eq!(*told.lock().unwrap(), ["etcd-0: remove member a1"; 2]);
}

/// What was applied and is otherwise all the same is admission's, and nobody's edit.
#[tokio::test]
async fn an_edit_that_was_set_back_is_told_and_a_tenant_that_takes_no_events_ends_nothing() {
    let object = || Object::new(deployment("ours")).unwrap();
    let tell = || Action::TenantTell { object: object(), note: "Berth set back /spec".into() };
    for (code, live, asked) in [(201, "ours", 2), (500, "ours", 1), (201, "theirs", 0)] {
        let (io, count) = answers(code, json!({}));
        let mut snapshot = Snapshot::default();
        snapshot.observed.api = ApiProbe::Answered { version: None, read: InsideTenant::default() };
        in_tenant::put(&mut snapshot, object().key(), Some(deployment(live)));
        let mut executor = Executor { tenant: Some(&io), ..executor(&io) };
        let applied = executor.apply(&mut snapshot, &plan(vec![tell(), tell()])).await;
        assert!(applied.failure.is_none() && applied.done == 2, "{code} {live}: {applied:?}");
        assert_eq!(count.load(Ordering::Relaxed), asked, "{code} {live}");
    }
}
