//! How far a plan is carried out by an API server that refuses, hangs, or changes what it is told.

use super::*;
use crate::calls::WRITE_DEADLINE;
use berth_fence::{Fence, FencedClient};
use berth_plan::{Stage, State};
use berth_render::Component;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use std::collections::BTreeMap;
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
    snapshot.observed.api = ApiProbe::Answered { version: None, read: BTreeMap::new() };
    let mut carry = async |io: &Io, actions: &[Action]| {
        let stage = Stage { actions: actions.to_vec(), ..Stage::new(StageId::Tenant, State::Ready) };
        let plan = Plan { stages: vec![stage], ..Plan::default() };
        let carried = carry_out(&inside, Some(io), &mut snapshot, &plan, "test", Timestamp::now().into()).await;
        let ApiProbe::Answered { read, .. } = &snapshot.observed.api else { unreachable!() };
        (carried.failure.as_ref().map(|e| e.kind), read.get(&key).cloned().flatten(), carried.goes_on())
    };
    let apply = Action::TenantApply(wanted.clone());
    let delete = |uid: &str| Action::TenantDelete { key: wanted.key().clone(), uid: uid.into() };
    let first = carry(&inside, std::slice::from_ref(&apply)).await;
    assert_eq!(first, (Some(Kindred::Rejected), Some(there.clone()), true), "another round sees what is there");
    // Another one of that name by now: it stays, and is seen.
    let other = carry(&inside, &[delete("v"), apply.clone()]).await;
    assert_eq!((other.0, other.1), (Some(Kindred::Rejected), Some(there)));
    let too_late = new((**inside.client()).clone(), Fence::closed());
    assert_eq!(carry(&too_late, &[delete("u")]).await.0, Some(Kindred::Fenced));
    assert_eq!(carry(&inside, &[delete("u"), apply]).await, (None, Some(wanted.value().clone()), true));
    let said = ["PATCH 422", "GET 200", "DELETE 409", "PATCH 422", "GET 200", "DELETE 200", "PATCH 200"];
    assert_eq!(*asked.lock().unwrap(), said);
}

fn error(kind: Kindred, what: &str) -> IoError {
    IoError::new(kind, what, "no")
}

/// A round in which something was done and these stages failed, one after the other, until it ended. Each took a write's deadline.
const API_SERVER: StageId = StageId::ControlPlane(Component::ApiServer);
const CONTROLLER_MANAGER: StageId = StageId::ControlPlane(Component::ControllerManager);
const SCHEDULER: StageId = StageId::ControlPlane(Component::Scheduler);

fn round(failures: &[(StageId, Kindred)], postponed: &mut Postponed) -> Carried {
    let mut carried = Carried { done: 1, ..Carried::default() };
    for (stage, kind) in failures {
        assert!(!carried.ended, "nothing is tried after {:?}", carried.failure);
        carried.failed(Some(*stage), error(*kind, stage.name()), WRITE_DEADLINE, postponed);
    }
    carried
}

#[test]
fn what_is_about_one_object_ends_its_stage_alone() {
    for kind in [Kindred::Forbidden, Kindred::Rejected, Kindred::Transient] {
        let carried = round(&[(API_SERVER, kind)], &mut vec![]);
        assert!(!carried.ended && carried.goes_on(), "{kind:?}");
        let on_the_namespace = round(&[(StageId::Namespace, kind)], &mut vec![]);
        assert!(on_the_namespace.ended && !on_the_namespace.goes_on(), "{kind:?}");
    }
    for kind in [Kindred::Fenced, Kindred::Conflict, Kindred::NotFound, Kindred::Other] {
        let carried = round(&[(API_SERVER, kind)], &mut vec![]);
        assert!(carried.ended && !carried.goes_on(), "{kind:?}");
    }
}

#[test]
fn a_pass_ends_where_four_calls_hang_and_not_where_three_do() {
    use StageId::Endpoint;
    let mut postponed = vec![];
    let of = |stage| (stage, Kindred::Transient);
    let first = round(&[of(API_SERVER), (Endpoint, Kindred::Rejected), of(CONTROLLER_MANAGER)], &mut postponed);
    assert!(first.goes_on(), "{first:?}");
    assert_eq!(first.failure.map(|e| e.what).as_deref(), Some(API_SERVER.name()));
    assert_eq!(postponed.len(), 2, "what was refused is cheap to try again");
    assert!(round(&[of(SCHEDULER)], &mut postponed).goes_on());
    let fourth = round(&[of(Endpoint)], &mut postponed);
    assert!(fourth.ended && !fourth.goes_on(), "{fourth:?}");
}

#[test]
fn where_calls_fail_at_once_all_stages_are_tried() {
    use StageId::{Endpoint, Etcd, Kubeconfig, Pki, Tenant};
    let (mut carried, mut postponed) = (Carried { done: 1, ..Carried::default() }, vec![]);
    for stage in [Endpoint, Pki, Etcd, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, Kubeconfig, Tenant] {
        let error = error(Kindred::Transient, stage.name());
        carried.failed(Some(stage), error, Duration::from_millis(5), &mut postponed);
        assert!(!carried.ended, "{stage:?}");
    }
}

#[test]
fn a_round_in_which_nothing_was_done_is_the_last() {
    let mut carried = round(&[(API_SERVER, Kindred::Transient)], &mut vec![]);
    carried.done = 0;
    assert!(!carried.goes_on());
    assert!(Carried::default().goes_on(), "the first round");
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b", "uid": "1"},
        "spec": {"image": image},
    })
}

/// Carries out a plan of that action alone in one pass, three times, by an API server that answers so. Returns how often it was asked.
async fn three_rounds(action: Action, answer: Value) -> (usize, Option<IoError>) {
    rounds(action, 200, answer).await
}

async fn rounds(action: Action, code: u16, answer: Value) -> (usize, Option<IoError>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        let answer = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap()) }
    });
    let io = Io::new(
        FencedClient::new(Client::new(service, "default"), Fence::open()),
        Arc::default(),
        Duration::from_secs(9),
    );
    let mut stage = Stage::new(API_SERVER, State::Ready);
    stage.actions.push(action);
    let plan = Plan { stages: vec![stage], ..Plan::default() };
    let (mut snapshot, mut carried) = (Snapshot::default(), Carried::default());
    for _ in 0..3 {
        carried = carry_out(&io, None, &mut snapshot, &plan, "test", Timestamp::UNIX_EPOCH.into()).await;
    }
    (asked.load(Ordering::Relaxed), carried.failure)
}

#[tokio::test]
async fn what_is_changed_on_its_way_is_sent_once_a_pass_and_told() {
    let apply = Action::Apply(Object::new(deployment("ours")).unwrap());
    let (asked, failure) = three_rounds(apply, deployment("theirs")).await;
    let failure = failure.unwrap();
    assert_eq!((asked, failure.kind, failure.what.as_str()), (1, Kindred::Rejected, "apply Deployment b/a"));
    assert!(
        failure.message.contains("a mutating webhook") && failure.message.ends_with(".spec.image differs"),
        "{failure}"
    );
}

#[tokio::test]
async fn what_was_deleted_is_not_deleted_again_in_the_same_pass() {
    let key = ObjectKey::namespaced(Kind::Deployment, "b", "a");
    let (asked, failure) = three_rounds(Action::Delete { key, uid: "1".into(), grace: None }, json!({})).await;
    assert_eq!((asked, failure.map(|e| e.message)), (1, None));
}

#[tokio::test]
async fn a_policy_to_which_something_is_added_is_told() {
    let policy = |egress: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "default-deny", "namespace": "b", "uid": "1"},
            "spec": {"podSelector": {}, "egress": egress},
        })
    };
    let apply = Action::Apply(Object::new(policy(json!([]))).unwrap());
    let (asked, failure) = three_rounds(apply.clone(), policy(json!([{}]))).await;
    assert_eq!((asked, failure.map(|e| e.kind)), (1, Some(Kindred::Rejected)));
    let mut left_out = policy(json!([]));
    left_out["spec"].as_object_mut().unwrap().remove("egress");
    assert!(three_rounds(apply, left_out).await.1.is_none());
}

#[tokio::test]
async fn a_deletion_that_is_refused_is_tried_again_and_told() {
    let key = ObjectKey::namespaced(Kind::Deployment, "b", "a");
    let refusal = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "no"});
    let (asked, failure) = rounds(Action::Delete { key, uid: "1".into(), grace: None }, 422, refusal).await;
    assert_eq!((asked, failure.map(|e| e.kind)), (3, Some(Kindred::Rejected)));
}
