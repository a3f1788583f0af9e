//! Events inside a tenant: whoever edits what is Berth's there is told that it was set back.
//!
//! One Event for each object and note within an hour, which counts: its name says which hour, so nothing is kept here, and another operator goes
//! on with it. An API server keeps Events for an hour by default.

use crate::calls::{Io, encode};
use crate::error::{ErrorKind, IoError};
use berth_api::conditions::shortened;
use berth_plan::digest::sha256;
use berth_render::ObjectKey;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

/// How long an Event counts up, in seconds.
const SPAN: i64 = 60 * 60;

/// What a note has at most, in bytes: an API server takes 1024.
const LONGEST: usize = 1000;

/// Where Events about what has no namespace are.
const SYSTEM: &str = "kube-system";

/// Says it, or counts it. `uid`: of the object.
pub(crate) async fn tell(tenant: &Io, about: &ObjectKey, uid: &str, note: &str, now: Timestamp) -> Result<(), IoError> {
    let event = event(about, uid, note, now);
    let what = format!("create Event about {about}");
    let namespace = about.namespace.as_deref().unwrap_or(SYSTEM);
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", encode(namespace));
    match tenant.call(Method::POST, &what, &events, Some(&event), None).await {
        Err(error) if error.kind == ErrorKind::Conflict => {}
        other => return other.map(drop),
    }
    let one = format!("{events}/{}", encode(event["metadata"]["name"].as_str().unwrap_or_default()));
    let there = tenant.raw(&one).await?;
    let patch = json!({"series": {"count": counted(&there), "lastObservedTime": event["eventTime"]}});
    tenant.call(Method::PATCH, &what, &one, Some(&patch), Some("application/merge-patch+json")).await.map(drop)
}

/// What it counts with this time.
fn counted(there: &Value) -> i64 {
    let count = there["series"]["count"].as_i64().unwrap_or(1);
    count.clamp(1, i64::from(i32::MAX) - 1) + 1
}

fn event(about: &ObjectKey, uid: &str, note: &str, now: Timestamp) -> Value {
    let span = now.as_second().div_euclid(SPAN);
    let digest = sha256(format!("{about} {uid} {span} {note}").as_bytes());
    let kind = about.kind;
    let api_version = match kind.group() {
        "" => kind.version().to_owned(),
        group => format!("{group}/{}", kind.version()),
    };
    let mut regarding = json!({"apiVersion": api_version, "kind": kind.name(), "name": about.name, "uid": uid});
    if let Some(namespace) = &about.namespace {
        regarding["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {
            "name": format!("{}.{}", plain(&about.name), digest.chars().take(16).collect::<String>()),
            "namespace": about.namespace.as_deref().unwrap_or(SYSTEM),
        },
        "eventTime": format!("{now:.6}"),
        "reportingController": "berth.dev", "reportingInstance": "berth-operator",
        "type": "Warning", "reason": "SetBack", "action": "SetBack",
        "regarding": regarding, "note": shortened(note, LONGEST),
    })
}

/// The name of an object, as an Event may have it: those of RBAC have colons.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' };
    name.chars().take(200).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use berth_render::Kind;
    use http::{Request, Response};
    use kube::client::Body;
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    type Events = Arc<Mutex<BTreeMap<String, Value>>>;

    /// An API server that keeps Events, and what it was asked.
    fn tenant() -> (Io, Events, Arc<Mutex<Vec<String>>>) {
        let (all, asked) = (Events::default(), Arc::new(Mutex::new(vec![])));
        let (kept, log) = (all.clone(), asked.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (kept, log) = (kept.clone(), log.clone());
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await.unwrap();
                let path = head.uri.path().to_owned();
                log.lock().unwrap().push(format!("{} {path}", head.method));
                let mut kept = kept.lock().unwrap();
                let (code, answer) = match head.method {
                    Method::POST => {
                        let event: Value = serde_json::from_slice(&bytes).unwrap();
                        let at = format!("{path}/{}", event["metadata"]["name"].as_str().unwrap());
                        match kept.entry(at) {
                            Entry::Occupied(_) => (
                                409,
                                json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "AlreadyExists", "message": "is there"}),
                            ),
                            Entry::Vacant(free) => (201, free.insert(event).clone()),
                        }
                    }
                    Method::PATCH => {
                        let patch: Value = serde_json::from_slice(&bytes).unwrap();
                        let event = kept.get_mut(&path).unwrap();
                        event["series"] = patch["series"].clone();
                        (200, event.clone())
                    }
                    _ => (200, kept[&path].clone()),
                };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let client = FencedClient::new(kube::Client::new(service, "default"), Fence::open());
        (Io::new(client, Arc::default(), super::super::DEADLINE), all, asked)
    }

    #[tokio::test]
    async fn one_event_counts_within_its_hour_and_the_next_hour_has_its_own() {
        let (io, all, asked) = tenant();
        let map = ObjectKey::namespaced(Kind::ConfigMap, "kube-public", "cluster-info");
        let role = ObjectKey::cluster(Kind::ClusterRole, "kubeadm:get-nodes");
        let at = |minute: i64| Timestamp::from_second(1_795_881_600 + minute * 60).unwrap();
        for minute in [0, 20, 59, 60] {
            tell(&io, &map, "u", "Berth set back /data/kubeconfig", at(minute)).await.unwrap();
        }
        tell(&io, &map, "u", "Berth set back /data/other", at(60)).await.unwrap();
        tell(&io, &role, "v", "Berth set back /rules", at(60)).await.unwrap();
        let said: Vec<_> =
            all.lock().unwrap().values().map(|e| (e["note"].clone(), e["series"]["count"].clone())).collect();
        let counts = |note: &str| {
            let mut all: Vec<_> = said.iter().filter(|(n, _)| *n == note).map(|(_, count)| count.as_i64()).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(counts("Berth set back /data/kubeconfig"), [None, Some(3)]);
        assert_eq!((counts("Berth set back /data/other"), counts("Berth set back /rules")), (vec![None], vec![None]));
        let of_role =
            all.lock().unwrap().iter().find(|(_, e)| e["regarding"]["kind"] == "ClusterRole").unwrap().0.clone();
        assert!(
            of_role.starts_with("/apis/events.k8s.io/v1/namespaces/kube-system/events/kubeadm-get-nodes."),
            "{of_role}"
        );
        // Create; create, look and count, twice; create, thrice.
        assert_eq!(asked.lock().unwrap().len(), 1 + 2 * 3 + 3, "{:#?}", asked.lock().unwrap());
    }

    #[test]
    fn what_a_tenant_writes_into_a_count_ends_nothing() {
        for (count, next) in
            [(json!(null), 2), (json!("x"), 2), (json!(-7), 2), (json!(2), 3), (json!(i64::MAX), i64::from(i32::MAX))]
        {
            assert_eq!(counted(&json!({"series": {"count": count}})), next);
        }
    }
}
