//! What a reconcile reports where it cannot go on, against an API server that answers as a test wants.

use super::driver::reconcile;
use super::idle::IdleObjects;
use super::{report, watches};
use crate::context::Context;
use berth_api::{Cluster, EtcdCluster, labels};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{ErrorKind, Io, IoError};
use berth_plan::Settings;
use berth_render::{Kind, ObjectKey};
use futures::stream;
use http::{Request, Response};
use kube::Client;
use kube::api::PartialObjectMeta;
use kube::client::Body;
use kube::runtime::controller;
use kube::runtime::reflector::ObjectRef;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// An operator of an API server that gives these answers to what it is asked: the request line with its query, and the body.
fn context(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Context {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
            let (code, value) = answer(&format!("{} {}", head.method, head.uri), &body);
            let answer = Body::from(value.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    let client = FencedClient::new(Client::new(service, "default"), Fence::open());
    Context::new(&client, Settings::default(), "test")
}

/// A refusal, or any other answer that is none.
fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
}

const REFUSAL: &str = "admission webhook \"guard\" denied the request: not now";

/// An object of either kind, held by the operator and being deleted, or neither.
fn object(kind: &str, terminating: bool) -> Value {
    let spec = match kind {
        "Cluster" => json!({"version": "1.34.1", "deletion": {"protected": false}}),
        _ => json!({"version": "3.6.16"}),
    };
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": kind,
        "metadata": {"name": "acme", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 1},
        "spec": spec,
    });
    if terminating {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        object["metadata"]["finalizers"] = json!([labels::FINALIZER]);
    }
    object
}

/// A reconcile of it. Nothing else is there, and `answer` has the first word; the error, and the status that was written.
async fn reconcile_once(
    object: &Value,
    answer: impl Fn(&str) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> (IoError, Value) {
    let (told, live) = (Arc::new(Mutex::new(Value::Null)), object.clone());
    let heard = told.clone();
    let ctx = context(move |line, body| {
        if let Some(answer) = answer(line) {
            return answer;
        }
        match line.split_once(' ').unwrap() {
            ("PATCH", path) if path.contains("/acme/status?") => {
                *heard.lock().unwrap() = body["status"].clone();
                (200, live.clone())
            }
            ("GET", path) if path.ends_with("clusters/acme") => (200, live.clone()),
            ("GET", path) if path.ends_with('s') => (200, json!({"items": []})),
            _ => status(404, "not found"),
        }
    });
    let result = if object["kind"] == "Cluster" {
        let meta: PartialObjectMeta<Cluster> = serde_json::from_value(object.clone()).unwrap();
        reconcile::<Cluster>(&ctx, &meta, &IdleObjects::default()).await
    } else {
        let meta: PartialObjectMeta<EtcdCluster> = serde_json::from_value(object.clone()).unwrap();
        reconcile::<EtcdCluster>(&ctx, &meta, &IdleObjects::default()).await
    };
    let told = told.lock().unwrap().clone();
    (result.unwrap_err(), told)
}

fn ready(status: &Value) -> (&str, &str) {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().find(|c| c["type"] == "Ready").unwrap_or(&Value::Null);
    (ready["reason"].as_str().unwrap_or_default(), ready["message"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn who_refuses_the_finalizer_or_its_end_is_reported() {
    for kind in ["Cluster", "EtcdCluster"] {
        for terminating in [false, true] {
            let refuses = |line: &str| {
                (line.starts_with("PATCH") && line.contains("/acme?fieldManager=berth")).then(|| status(403, REFUSAL))
            };
            let (error, told) = reconcile_once(&object(kind, terminating), refuses).await;
            assert_eq!(error.kind, ErrorKind::Rejected, "{kind} {terminating}: {error}");
            let (reason, message) = ready(&told);
            assert!(reason == "Rejected" && message.contains(REFUSAL), "{kind} {terminating}: {reason}: {message}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_reported_as_what_it_is() {
    for kind in ["Cluster", "EtcdCluster"] {
        let panics = |line: &str| {
            assert!(line.starts_with("PATCH") || line.ends_with("clusters/acme"), "a bug");
            None
        };
        let mut held = object(kind, false);
        held["metadata"]["finalizers"] = json!([labels::FINALIZER]);
        let (error, told) = reconcile_once(&held, panics).await;
        assert!(error.message.contains("panicked: this is a bug in the operator"), "{kind}: {error}");
        assert_eq!(ready(&told), ("Error", &*error.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_takes_too_long_is_cut_off_and_reported_once_it_lasts() {
    let mut ctx = context(|_, _| unreachable!("nothing is answered"));
    let client = FencedClient::new(Client::new(tower::service_fn(hangs), "default"), Fence::open());
    ctx.io = Io::new(client, Arc::default(), Duration::MAX);
    let meta: PartialObjectMeta<Cluster> = serde_json::from_value(object("Cluster", false)).unwrap();
    let began = Instant::now();
    let error = reconcile::<Cluster>(&ctx, &meta, &IdleObjects::default()).await.unwrap_err();
    assert_eq!((error.kind, began.elapsed().as_secs()), (ErrorKind::Transient, 45));
    assert_eq!(error.to_string(), "reconcile: not done within 45s; Berth cancelled it and retries");
}

async fn hangs(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    std::future::pending().await
}

#[tokio::test]
async fn what_is_gone_without_a_reconcile_is_forgotten() {
    let ctx = context(|line, _| unreachable!("{line}"));
    for name in ["acme", "other"] {
        let key = ObjectKey::namespaced(Kind::Cluster, "team", name);
        let fails = async {
            Err(IoError { kind: ErrorKind::Other, what: String::new(), message: String::new(), in_tenant: false })
        };
        report::run(&ctx, "cluster", &key, fails).await;
        ctx.metrics.tenants.say(&key, &json!({"certificates": {"nextExpiry": "2026-01-01T00:00:00Z"}}));
    }
    let not_found = ObjectRef::<Cluster>::new("acme").within("team").erase();
    let item = Err(controller::Error::<Infallible, _>::ObjectNotFound(Box::new(not_found)));
    watches::drain::<Cluster, (), _>(&ctx, &IdleObjects::default(), stream::iter([item])).await;
    let remembered = |name: &str| {
        let failures = ctx.backoff.failures(&ObjectKey::namespaced(Kind::Cluster, "team", name));
        (failures, ctx.metrics.text().contains(&format!("name=\"{name}\"")))
    };
    assert_eq!((remembered("acme"), remembered("other")), ((0, false), (1, true)));
}

#[tokio::test]
async fn a_reconcile_that_panics_is_retried_and_later_each_time() {
    let ctx = context(|line, _| unreachable!("{line}"));
    let key = ObjectKey::namespaced(Kind::Cluster, "team", "acme");
    for failures in 1..=2 {
        report::run(&ctx, "cluster", &key, async { panic!("a bug") }).await;
        assert_eq!(ctx.backoff.failures(&key), failures);
    }
    assert!(ctx.metrics.text().contains("berth_reconcile_total{controller=\"cluster\",result=\"error\"} 2"));
}
