//! Calls to one API server, with a deadline each and a count; the client has the fence.

use crate::error::{ErrorKind, IoError};
use crate::pull_secrets::kept::PullSecrets;
use crate::queue::Queue;
use crate::slim::Slim;
use berth_fence::FencedClient;
use berth_render::{Kind, Object, ObjectKey};
use http::{Method, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a write may take: what the fence leaves before another operator may hold the lease.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// Calls under way at once. Each has a connection with its buffers, so without a bound ten new tenants would take more than a
/// hundred.
const AT_ONCE: usize = 32;

/// A call without an answer for so long gives its slot to others: those of objects that hang shall not take them all. How many there
/// can be is bounded by the number of reconciles.
const SLOW: Duration = Duration::from_secs(1);

/// Services with an address applied at once. An API server gives out addresses one after the other (`MetaAllocator` in its `ipallocator`
/// holds a lock meanwhile): more of them would only wait there until their deadline, give their addresses back, and come again.
const SERVICES: usize = 6;

/// How often a patch is tried while somebody else keeps changing the object. An operator at work writes a status each second.
const TRIES: usize = 8;

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
    client: FencedClient,
    calls: Arc<Calls>,
    deadline: Duration,
    slots: Arc<Semaphore>,
    services: Arc<Semaphore>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) pull_secrets: Arc<PullSecrets>,
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Io").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Io {
    /// Access through `client`. `deadline` bounds each call.
    pub fn new(client: FencedClient, calls: Arc<Calls>, deadline: Duration) -> Self {
        let [slots, services] = [AT_ONCE, SERVICES].map(|n| Arc::new(Semaphore::new(n)));
        Self { client, calls, deadline, slots, services, queue: Arc::default(), pull_secrets: Arc::default() }
    }

    /// The client itself, for watches.
    pub fn client(&self) -> &FencedClient {
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
            Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
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
        let _one_of_few = if addressed { self.services.acquire().await.ok() } else { None };
        self.call(Method::PATCH, &what, &url, Some(object.value()), Some("application/apply-patch+yaml")).await
    }

    /// Create; a 409 says that something of that name is there.
    pub async fn create(&self, key: &ObjectKey, value: &Value, manager: &str) -> Result<Value, IoError> {
        let url = format!("{}?fieldManager={manager}", collection(key.kind, key.namespace.as_deref()));
        self.call(Method::POST, &format!("create {key}"), &url, Some(value), None).await
    }

    /// What creating it would come to; nothing is written.
    pub(crate) async fn create_dry(&self, key: &ObjectKey, value: &Value) -> Result<Value, IoError> {
        let url = format!("{}?dryRun=All", collection(key.kind, key.namespace.as_deref()));
        self.call(Method::POST, &format!("create {key} in a dry run"), &url, Some(value), None).await
    }

    /// A path as text.
    pub(crate) async fn plain(&self, url: &str) -> Result<String, IoError> {
        self.text(Method::GET, &format!("get {url}"), url, None, None).await
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

    /// Merge patch of an object that was read, with its resourceVersion. Where that is another one by now, again if what is there `is_same`:
    /// what else is written to it meanwhile does not matter.
    pub async fn merge_unless_changed(
        &self,
        key: &ObjectKey,
        suffix: &str,
        query: &str,
        mut patch: Value,
        is_same: impl Fn(&Value) -> bool,
    ) -> Result<Value, IoError> {
        let mut tries = 1;
        loop {
            let conflict = match self.merge(key, suffix, query, &patch).await {
                Err(e) if e.kind == ErrorKind::Conflict && tries < TRIES => e,
                written => return written,
            };
            let live = self.get(key).await?;
            let Some(live) = live.filter(|live| is_same(live)) else { return Err(conflict) };
            patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            tries += 1;
        }
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
            Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Conflict) => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        what: &str,
        url: &str,
        body: Option<&Value>,
        content: Option<&str>,
    ) -> Result<Value, IoError> {
        let text = self.text(method, what, url, body, content).await?;
        let Slim(value) = serde_json::from_str(&text).map_err(|e| other(what, &e))?;
        Ok(value)
    }

    pub(crate) async fn text(
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
            Some(b) => serde_json::to_vec(b).map_err(|e| other(what, &e))?,
        };
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(if body.is_some() { "content-type" } else { "accept" }, content.unwrap_or("application/json"))
            .body(bytes)
            .map_err(|e| other(what, &e))?;
        let deadline = if writes { self.deadline.min(WRITE_DEADLINE) } else { self.deadline };
        let slot = self.slots.acquire().await;
        let counter = if writes { &self.calls.writes } else { &self.calls.reads };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut answer = pin!(timeout(deadline, self.client.request_text(request)));
        let answer = if let Ok(answer) = timeout(SLOW, &mut answer).await {
            answer
        } else {
            drop(slot);
            answer.await
        };
        let result = match answer {
            Ok(answer) => answer.map_err(|e| IoError::from_kube(what, &e)),
            Err(_) => Err(IoError::new(ErrorKind::Transient, what, format!("no answer within {deadline:?}"))),
        };
        if result.is_err() {
            self.calls.failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

pub(crate) fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let root = match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    };
    match namespace {
        Some(ns) if kind.namespaced() => format!("{root}/namespaces/{ns}/{}", kind.plural()),
        _ => format!("{root}/{}", kind.plural()),
    }
}

pub(crate) fn path(key: &ObjectKey) -> String {
    format!("{}/{}", collection(key.kind, key.namespace.as_deref()), encode(&key.name))
}

/// What has a meaning in no URL.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes what has a meaning in URLs. Names of RBAC objects hold colons, and teams choose what some fields name.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, &PLAIN).to_string()
}

/// What is no matter of the API server's.
pub(crate) fn other(what: &str, error: &dyn std::error::Error) -> IoError {
    IoError::new(ErrorKind::Other, what, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::Fence;
    use http::Response;
    use kube::Client;
    use kube::client::Body;
    use std::convert::Infallible;

    const DEADLINE: Duration = Duration::from_secs(10);

    /// An API server that never answers what is asked of `hangs`, and anything else at once.
    fn io(hangs: &'static str) -> Io {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            if request.uri().path().contains(hangs) {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        Io::new(FencedClient::new(Client::new(service, "default"), Fence::open()), Arc::default(), DEADLINE)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_hang_give_their_slots_to_others() {
        let io = io("hung");
        let get = |name: &str| {
            let (io, key) = (io.clone(), ObjectKey::namespaced(Kind::Pod, "a", name));
            async move { io.get(&key).await }
        };
        let hung: Vec<_> = (0..AT_ONCE).map(|_| tokio::spawn(get("hung"))).collect();
        tokio::task::yield_now().await;
        let began = tokio::time::Instant::now();
        get("well").await.unwrap();
        assert_eq!(began.elapsed().as_secs(), SLOW.as_secs());
        for call in hung {
            assert!(call.await.unwrap().unwrap_err().message.contains("no answer within 10s"));
        }
        assert_eq!((began.elapsed().as_secs(), io.slots.available_permits()), (DEADLINE.as_secs(), AT_ONCE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_services_with_an_address_are_applied_at_once() {
        let io = io("services");
        let apply = |spec: Value| {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"}, "spec": spec,
            });
            let (io, service) = (io.clone(), Object::new(service).unwrap());
            tokio::spawn(async move { io.apply(&service, "test").await })
        };
        let all: Vec<_> = (0..2 * SERVICES).map(|_| apply(json!({}))).collect();
        let headless: Vec<_> = (0..SERVICES).map(|_| apply(json!({"clusterIP": "None"}))).collect();
        tokio::time::sleep(WRITE_DEADLINE / 2).await;
        assert_eq!(io.calls().writes.load(Ordering::Relaxed), 2 * SERVICES as u64, "the rest waits");
        for write in all.into_iter().chain(headless) {
            assert_eq!(write.await.unwrap().unwrap_err().kind, ErrorKind::Transient);
        }
        assert_eq!(io.services.available_permits(), SERVICES);
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
