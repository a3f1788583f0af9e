//! Calls to one API server, with a deadline each, a fence before each write, and a count.

use crate::error::{IoError, Kindred};
use crate::fence::Fence;
use crate::services::Services;
use crate::slim::{self, Slim};
use crate::turn::{MOST, PATIENCE, Pace, Turn};
use berth_render::{Kind, Object, ObjectKey};
use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a write may take: what the fence leaves before another operator may hold the lease.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// Calls under way at once. Each has a connection with its buffers, so without a bound ten new tenants would take more than a
/// hundred.
const AT_ONCE: usize = 32;

/// Numbers of calls, by sort.
#[derive(Debug, Default)]
pub struct Calls {
    /// GET, LIST.
    pub reads: AtomicU64,
    /// POST, PUT, PATCH, DELETE, but for dry runs.
    pub writes: AtomicU64,
    /// Calls that failed.
    pub failures: AtomicU64,
}

/// Access to an API server.
#[derive(Clone)]
pub struct Io {
    client: Client,
    fence: Fence,
    calls: Arc<Calls>,
    deadline: Duration,
    slots: Arc<Semaphore>,
    services: Arc<Services>,
    pace: Arc<Pace>,
    turn: Option<Turn>,
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Io").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Io {
    /// Access through `client`. `deadline` bounds each call.
    pub fn new(client: Client, fence: Fence, calls: Arc<Calls>, deadline: Duration) -> Self {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        Self { client, fence, calls, deadline, slots, services: Arc::default(), pace: Arc::default(), turn: None }
    }

    /// The same fence and deadline for another API server; its calls are counted in `calls`.
    #[must_use]
    pub fn to(&self, client: Client, calls: Arc<Calls>, deadline: Duration) -> Self {
        Self { turn: self.turn.clone(), ..Self::new(client, self.fence.clone(), calls, deadline) }
    }

    /// The same access in a turn: calls that hang make it step aside, and hold up nobody else.
    #[must_use]
    pub fn in_turn(&self, turn: &Turn) -> Self {
        Self { turn: Some(turn.clone()), ..self.clone() }
    }

    /// Waits for something else than a call in the same way.
    pub async fn patiently<F: Future>(&self, answer: F) -> F::Output {
        match &self.turn {
            Some(turn) => turn.wait(answer, (), PATIENCE).await,
            None => answer.await,
        }
    }

    /// The client itself, for watches.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What was counted.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The object, or None.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, IoError> {
        match self.call(Method::GET, &format!("get {key}"), &path(key), None, None).await {
            Ok(v) => Ok(Some(v)),
            Err(e) if e.kind == Kindred::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// All objects of a kind in a namespace.
    pub async fn list(&self, kind: Kind, namespace: &str, selector: Option<&str>) -> Result<Vec<Value>, IoError> {
        let mut url = collection(kind, Some(namespace));
        if let Some(s) = selector {
            url = format!("{url}?labelSelector={}", encode(s));
        }
        let what = format!("list {} in {namespace}", kind.plural());
        let text = self.text(Method::GET, &what, &url, None, None).await.map_err(|e| unserved(e, kind))?;
        let mut answer = slim::parse(kind, &text).map_err(|e| IoError::new(Kindred::Other, what, e.to_string()))?;
        match answer.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => Ok(vec![]),
        }
    }

    /// Name, UID and resourceVersion of all objects of a kind in a namespace.
    pub(crate) async fn versions(&self, kind: Kind, namespace: &str) -> Result<Vec<[String; 3]>, IoError> {
        const ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let what = format!("list metadata of {} in {namespace}", kind.plural());
        let text = self.text(Method::GET, &what, &collection(kind, Some(namespace)), None, Some(ACCEPT)).await?;
        let answer: Versions =
            serde_json::from_str(&text).map_err(|e| IoError::new(Kindred::Other, what, e.to_string()))?;
        Ok(answer.items.into_iter().map(|Item { metadata: m }| [m.name, m.uid, m.resource_version]).collect())
    }

    /// A path as it is, such as `/version`.
    pub async fn raw(&self, url: &str) -> Result<Value, IoError> {
        self.call(Method::GET, &format!("get {url}"), url, None, None).await
    }

    /// Server-side apply, forced.
    pub async fn apply(&self, object: &Object, manager: &str) -> Result<Value, IoError> {
        let url = format!("{}?fieldManager={manager}&force=true", path(object.key()));
        let what = format!("apply {}", object.key());
        let addressed = object.key().kind == Kind::Service && object.value()["spec"]["clusterIP"] != "None";
        // Until it is answered, also where it hangs: one more would only wait for the same lock, and make all of them slower.
        let _one_of_few = if addressed { Some(self.one_of_few(&what).await?) } else { None };
        let sent = Instant::now();
        let answer =
            self.call(Method::PATCH, &what, &url, Some(object.value()), Some("application/apply-patch+yaml")).await;
        // Be it by an error: those that wait get on.
        if addressed && (answer.is_ok() || sent.elapsed() < self.deadline.min(WRITE_DEADLINE)) {
            self.services.answered();
        }
        answer
    }

    /// A place among the writes of Services.
    async fn one_of_few(&self, what: &str) -> Result<SemaphorePermit<'_>, IoError> {
        if let Some(place) = self.services.one_of_few(self.turn.as_ref(), self.deadline, MOST).await {
            return Ok(place);
        }
        self.calls.failures.fetch_add(1, Ordering::Relaxed);
        let why = format!("not sent: other writes of Services had no answer within {:?}", self.deadline);
        Err(IoError::new(Kindred::Transient, what, why))
    }

    /// Create; a 409 says that something of that name is there.
    pub async fn create(&self, key: &ObjectKey, value: &Value, manager: &str) -> Result<Value, IoError> {
        let url = format!("{}?fieldManager={manager}", collection(key.kind, key.namespace.as_deref()));
        self.call(Method::POST, &format!("create {key}"), &url, Some(value), None).await
    }

    /// Merge patch. `suffix`: empty or `/status`. `query`: such as `dryRun=All`.
    pub async fn merge(&self, key: &ObjectKey, suffix: &str, query: &str, patch: &Value) -> Result<Value, IoError> {
        let url = format!("{}{suffix}?{query}", path(key));
        self.call(
            Method::PATCH,
            &format!("patch {key}{suffix}"),
            &url,
            Some(patch),
            Some("application/merge-patch+json"),
        )
        .await
    }

    /// Delete, if it still has that UID. Gone already is as good.
    pub async fn delete(&self, key: &ObjectKey, uid: &str, grace: Option<i64>) -> Result<(), IoError> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, "propagationPolicy": "Background",
        });
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        match self.call(Method::DELETE, &format!("delete {key}"), &path(key), Some(&options), None).await {
            Ok(_) => Ok(()),
            // Not there, or another one of that name by now: the one we meant is gone.
            Err(e) if matches!(e.kind, Kindred::NotFound | Kindred::Conflict) => Ok(()),
            Err(e) => Err(e),
        }
    }

    async fn call(
        &self,
        method: Method,
        what: &str,
        url: &str,
        body: Option<&Value>,
        content: Option<&str>,
    ) -> Result<Value, IoError> {
        let text = self.text(method, what, url, body, content).await?;
        let Slim(value) = serde_json::from_str(&text).map_err(|e| IoError::new(Kindred::Other, what, e.to_string()))?;
        Ok(value)
    }

    async fn text(
        &self,
        method: Method,
        what: &str,
        url: &str,
        body: Option<&Value>,
        content: Option<&str>,
    ) -> Result<String, IoError> {
        let writes = method != Method::GET && !url.contains("dryRun=All");
        let bytes = match body {
            None => vec![],
            Some(b) => serde_json::to_vec(b).map_err(|e| IoError::new(Kindred::Other, what, e.to_string()))?,
        };
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(if body.is_some() { "content-type" } else { "accept" }, content.unwrap_or("application/json"))
            .body(bytes)
            .map_err(|e| IoError::new(Kindred::Other, what, e.to_string()))?;
        let deadline = if writes { self.deadline.min(WRITE_DEADLINE) } else { self.deadline };
        let slot = match &self.turn {
            Some(turn) => turn.slot(&self.slots).await,
            None => [self.slots.acquire().await.ok(), None],
        };
        // As late as can be: whoever waited here, or was stopped, may have lost the lease meanwhile.
        if writes && !self.fence.is_open() {
            self.calls.failures.fetch_add(1, Ordering::Relaxed);
            return Err(IoError::new(Kindred::Fenced, what, "this operator no longer holds the lease"));
        }
        let counter = if writes { &self.calls.writes } else { &self.calls.reads };
        counter.fetch_add(1, Ordering::Relaxed);
        // From here on: how long others are waited for says nothing about the API server.
        let (sent, patience) = (Instant::now(), self.pace.patience());
        let answer = tokio::time::timeout(deadline, self.client.request_text(request));
        let answer = match &self.turn {
            Some(turn) => turn.wait(answer, slot, patience).await,
            None => answer.await,
        };
        self.pace.took(sent.elapsed().min(patience));
        let result = match answer {
            Ok(answer) => answer.map_err(|e| IoError::from_kube(what, &e)),
            Err(_) => Err(IoError::new(Kindred::Transient, what, format!("no answer within {deadline:?}"))),
        };
        if result.is_err() {
            self.calls.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

/// A list of metadata, without what nobody reads.
#[derive(Deserialize)]
struct Versions {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Names,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    name: String,
    uid: String,
    resource_version: String,
}

/// A list that is not found: the API server does not know the kind.
fn unserved(error: IoError, kind: Kind) -> IoError {
    if error.kind != Kindred::NotFound {
        return error;
    }
    let message = match kind.group() {
        berth_api::GROUP => {
            format!(
                "CustomResourceDefinition {}.{} is not there; install the chart berth-crds",
                kind.plural(),
                kind.group()
            )
        }
        _ => error.message,
    };
    IoError { message, ..error }
}

fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let root = match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    };
    match namespace {
        Some(ns) if kind.namespaced() => format!("{root}/namespaces/{ns}/{}", kind.plural()),
        _ => format!("{root}/{}", kind.plural()),
    }
}

fn path(key: &ObjectKey) -> String {
    format!("{}/{}", collection(key.kind, key.namespace.as_deref()), encode(&key.name))
}

/// Percent-encodes what has a meaning in URLs. Names of RBAC objects hold colons.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::SERVICES;
    use futures::future::join_all;
    use http::Response;
    use kube::client::Body;
    use std::convert::Infallible;

    /// An API server that answers whatever it is asked with an empty object.
    fn io(deadline: Duration) -> Io {
        let service =
            tower::service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec()))));
        Io::new(Client::new(service, "default"), Fence::open(), Arc::default(), deadline)
    }

    fn service() -> Object {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"}, "spec": {},
        });
        Object::new(service).unwrap()
    }

    async fn all_places(io: &Io) -> Vec<SemaphorePermit<'_>> {
        join_all((0..SERVICES).map(|_| io.services.one_of_few(None, Duration::MAX, Duration::MAX)))
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    #[tokio::test]
    async fn a_service_waits_for_those_that_hang_and_not_for_ever() {
        let io = io(Duration::from_millis(20));
        let hanging = all_places(&io).await;
        let error =
            tokio::time::timeout(Duration::from_mins(1), io.apply(&service(), "test")).await.unwrap().unwrap_err();
        assert_eq!((error.kind, io.calls().writes.load(Ordering::Relaxed)), (Kindred::Transient, 0));
        assert!(error.message.contains("other writes of Services had no answer within 20ms"), "{error}");
        drop(hanging);
        io.apply(&service(), "test").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_get_on_by_an_error_too() {
        let failing = tower::service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::builder().status(500).body(Body::from(b"{}".to_vec())).unwrap())
        });
        let io = Io::new(Client::new(failing, "default"), Fence::open(), Arc::default(), Duration::from_hours(1));
        let (began, service) = (tokio::time::Instant::now(), service());
        let fails = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            io.apply(&service, "test").await.unwrap_err()
        };
        let (error, ()) = tokio::join!(fails, io.services.hang(Duration::from_secs(10)));
        assert_eq!((error.what.as_str(), began.elapsed().as_secs()), ("apply Service b/a", 19), "{error}");
    }

    #[test]
    fn paths_follow_the_table_of_kinds() {
        assert_eq!(
            path(&ObjectKey::namespaced(Kind::Deployment, "a", "b")),
            "/apis/apps/v1/namespaces/a/deployments/b"
        );
        assert_eq!(path(&ObjectKey::cluster(Kind::Namespace, "a")), "/api/v1/namespaces/a");
        assert_eq!(
            path(&ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:x")),
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/berth%3Ax"
        );
    }
}
