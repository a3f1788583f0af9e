//! What a reconcile reports where it cannot go on, against an API server that answers as a test wants.

use super::driver::reconcile;
use super::report;
use crate::context::Context;
use berth_api::{Cluster, EtcdCluster, labels};
use berth_kubeio::{Fence, IoError, Kindred};
use berth_plan::Settings;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::api::PartialObjectMeta;
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

/// An operator of an API server that gives these answers to what it is asked: the request line with its query, and the body.
pub(super) fn context(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Context {
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
    Context::new(Client::new(service, "default"), Fence::open(), Settings::default(), "test")
}

/// A refusal, or any other answer that is none.
fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
}

const REFUSAL: &str = "admission webhook \"guard\" denied the request: not now";

/// An object of either kind, held by the operator and being deleted, or neither.
fn object(kind: &str, leaving: bool) -> Value {
    let spec = match kind {
        "Cluster" => json!({"version": "1.34.1", "deletion": {"protected": false}}),
        _ => json!({"version": "3.6.16"}),
    };
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": kind,
        "metadata": {"name": "acme", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 1},
        "spec": spec,
    });
    if leaving {
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        object["metadata"]["finalizers"] = json!([labels::FINALIZER]);
    }
    object
}

/// A pass over it. Nothing else is there, and `answer` has the first word; the error, and the status that was written.
async fn pass_over(
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
    let about = ObjectReference::default();
    let result = if object["kind"] == "Cluster" {
        let meta: PartialObjectMeta<Cluster> = serde_json::from_value(object.clone()).unwrap();
        reconcile::<Cluster>(ctx, Arc::new(meta), about, Arc::default()).await
    } else {
        let meta: PartialObjectMeta<EtcdCluster> = serde_json::from_value(object.clone()).unwrap();
        reconcile::<EtcdCluster>(ctx, Arc::new(meta), about, Arc::default()).await
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
async fn who_refuses_the_finalizer_or_its_end_is_told() {
    for kind in ["Cluster", "EtcdCluster"] {
        for leaving in [false, true] {
            let refuses = |line: &str| {
                (line.starts_with("PATCH") && line.contains("/acme?fieldManager=berth")).then(|| status(403, REFUSAL))
            };
            let (error, told) = pass_over(&object(kind, leaving), refuses).await;
            assert_eq!(error.kind, Kindred::Rejected, "{kind} {leaving}: {error}");
            let (reason, message) = ready(&told);
            assert!(reason == "Rejected" && message.contains(REFUSAL), "{kind} {leaving}: {reason}: {message}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_told_as_what_it_is() {
    for kind in ["Cluster", "EtcdCluster"] {
        let panics = |line: &str| {
            assert!(line.starts_with("PATCH") || line.ends_with("clusters/acme"), "a bug");
            None
        };
        let mut held = object(kind, false);
        held["metadata"]["finalizers"] = json!([labels::FINALIZER]);
        let (error, told) = pass_over(&held, panics).await;
        assert!(error.message.contains("panicked, which is a bug of this operator"), "{kind}: {error}");
        assert_eq!(ready(&told), ("Error", &*error.to_string()));
    }
}

#[tokio::test]
async fn a_pass_that_panics_is_made_again_and_later_each_time() {
    let ctx = context(|line, _| unreachable!("{line}"));
    let about = ObjectReference { name: Some("acme".into()), ..ObjectReference::default() };
    let mut waits = vec![];
    for _ in 0..2 {
        waits.push(report::run(&ctx, "cluster", &about, async { panic!("a bug") }).await.unwrap());
    }
    assert_eq!(waits[0] * 2, waits[1]);
    assert!(ctx.metrics.text().contains("berth_reconcile_total{controller=\"cluster\",result=\"error\"} 2"));
}
