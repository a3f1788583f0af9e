//! Calls to one API server, with a deadline each and a count; the client has the fence.

use crate::error::{ErrorKind, IoError};
use crate::queue::Queue;
use crate::slim::{self, Slim};
use berth_fence::FencedClient;
use berth_render::{Kind, Listing, Object, ObjectKey};
use http::{Method, Request};
use serde::Deserialize;
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

/// Objects of Berth's kinds in one answer: teams write them, each as large as an API server lets them, and an answer is held as a whole.
const PAGE: usize = 50;

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
    queue: Arc<Queue>,
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
        Self { client, calls, deadline, slots, services, queue: Arc::default() }
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

    /// All objects of a kind in all namespaces.
    pub async fn list_all(&self, kind: Kind) -> Result<Vec<Value>, IoError> {
        let what = format!("list {} of all namespaces", kind.plural());
        self.listed(kind, what, &collection(kind, None)).await
    }

    /// All objects of one of Berth's kinds in all namespaces, one after the other: of all of them together only what `each` keeps is held.
    pub async fn list_each(&self, kind: Kind, mut each: impl FnMut(Value) + Send) -> Result<(), IoError> {
        let what = format!("list {} of all namespaces", kind.plural());
        let url = format!("{}?limit={PAGE}", collection(kind, None));
        self.pages(kind, &what, &url, |items| items.into_iter().for_each(&mut each)).await
    }

    /// All objects of a kind that fit a selector of labels, in one namespace or in all.
    pub async fn list_selected(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, IoError> {
        let place = namespace.map_or_else(|| "all namespaces".to_owned(), str::to_owned);
        let what = format!("list {} of {place} with the labels {selector}", kind.plural());
        let url = format!("{}?labelSelector={}", collection(kind, namespace), encode(selector));
        self.listed(kind, what, &url).await
    }

    /// All objects of a kind in a namespace.
    pub async fn list(&self, kind: Kind, namespace: &str, selector: Option<&str>) -> Result<Vec<Value>, IoError> {
        let mut url = collection(kind, Some(namespace));
        if let Some(s) = selector {
            url = format!("{url}?labelSelector={}", encode(s));
        }
        let what = format!("list {} in {namespace}", kind.plural());
        self.listed(kind, what, &url).await
    }

    /// The list of `EtcdBackup`s that wait or run.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Objects of a listing whose address has a `limit`, page by page.
    pub(crate) async fn list_in_pages(
        &self,
        kind: Kind,
        url: &str,
        mut page: impl FnMut(&[Value]) + Send,
    ) -> Result<(), IoError> {
        let what = format!("list {} of all namespaces", kind.plural());
        self.pages(kind, &what, url, |items| page(&items)).await
    }

    async fn pages(
        &self,
        kind: Kind,
        what: &str,
        url: &str,
        mut page: impl FnMut(Vec<Value>) + Send,
    ) -> Result<(), IoError> {
        let mut next = url.to_owned();
        loop {
            let mut answer = self.answer(kind, what, &next).await?;
            let items = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
            page(items.unwrap_or_default());
            match answer.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
                Some(token) => next = format!("{url}&continue={}", encode(token)),
                None => return Ok(()),
            }
        }
    }

    /// One answer to a listing, without what nobody reads.
    async fn answer(&self, kind: Kind, what: &str, url: &str) -> Result<Value, IoError> {
        let text = self.text(Method::GET, what, url, None, None).await.map_err(|e| unserved(e, kind))?;
        slim::parse(kind, &text).map_err(|e| IoError::new(ErrorKind::Other, what, e.to_string()))
    }

    async fn listed(&self, kind: Kind, what: String, url: &str) -> Result<Vec<Value>, IoError> {
        let mut all = vec![];
        // Of other kinds Berth lists what it made, or little: in one answer, which API servers have in a cache.
        let url = match kind.group() {
            berth_api::GROUP => format!("{url}{}limit={PAGE}", if url.contains('?') { '&' } else { '?' }),
            _ => url.to_owned(),
        };
        self.pages(kind, &what, &url, |mut items| all.append(&mut items)).await?;
        Ok(all)
    }

    /// Objects of a listing that carry a label, and whether these are all: of more than five hundred only some are read.
    pub(crate) async fn list_labelled(
        &self,
        Listing { kind, namespace }: Listing,
        label: &str,
    ) -> Result<(Vec<(ObjectKey, Value)>, bool), IoError> {
        let url = format!("{}?labelSelector={}&limit=500", collection(kind, namespace), encode(label));
        let what = format!("list {} with the label {label}", kind.plural());
        let mut answer = self.answer(kind, &what, &url).await?;
        let whole = answer.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().is_empty();
        let items = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        let named = |mut item| {
            name_kind(&mut item, kind);
            (ObjectKey::of(kind, &item), item)
        };
        Ok((items.into_iter().map(named).collect(), whole))
    }

    /// Name, UID and resourceVersion of all objects of a kind in a namespace.
    pub(crate) async fn versions(&self, kind: Kind, namespace: &str) -> Result<Vec<[String; 3]>, IoError> {
        const ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let what = format!("list metadata of {} in {namespace}", kind.plural());
        let text = self.text(Method::GET, &what, &collection(kind, Some(namespace)), None, Some(ACCEPT)).await?;
        let answer: Versions =
            serde_json::from_str(&text).map_err(|e| IoError::new(ErrorKind::Other, what, e.to_string()))?;
        Ok(answer.items.into_iter().map(|Item { metadata: m }| [m.name, m.uid, m.resource_version]).collect())
    }

    /// A list as the table that `kubectl get` shows.
    pub(crate) async fn table(&self, url: &str) -> Result<Value, IoError> {
        const ACCEPT: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let what = format!("get {url}");
        let text = self.text(Method::GET, &what, url, None, Some(ACCEPT)).await?;
        serde_json::from_str(&text).map_err(|e| IoError::new(ErrorKind::Other, what, e.to_string()))
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

    async fn call(
        &self,
        method: Method,
        what: &str,
        url: &str,
        body: Option<&Value>,
        content: Option<&str>,
    ) -> Result<Value, IoError> {
        let text = self.text(method, what, url, body, content).await?;
        let Slim(value) =
            serde_json::from_str(&text).map_err(|e| IoError::new(ErrorKind::Other, what, e.to_string()))?;
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
            Some(b) => serde_json::to_vec(b).map_err(|e| IoError::new(ErrorKind::Other, what, e.to_string()))?,
        };
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(if body.is_some() { "content-type" } else { "accept" }, content.unwrap_or("application/json"))
            .body(bytes)
            .map_err(|e| IoError::new(ErrorKind::Other, what, e.to_string()))?;
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

/// Items of a list come without them.
pub(crate) fn name_kind(item: &mut Value, kind: Kind) {
    item["apiVersion"] = kind.api_version().into();
    item["kind"] = kind.name().into();
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
    if error.kind != ErrorKind::NotFound {
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

    /// An API server with so many `Cluster`s, and the most that it had in an answer.
    fn with_clusters(count: usize) -> (Io, Arc<AtomicU64>) {
        let largest = Arc::new(AtomicU64::new(0));
        let seen = largest.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query: Vec<(String, String)> = request
                .uri()
                .query()
                .unwrap_or_default()
                .split('&')
                .filter_map(|pair| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
                .collect();
            let number = |key: &str| query.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.parse::<usize>().ok());
            let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(count));
            let to = count.min(from + limit);
            seen.fetch_max((to - from) as u64, Ordering::Relaxed);
            let items: Vec<Value> = (from..to).map(|n| json!({"metadata": {"name": format!("c{n}")}})).collect();
            let next = if to < count { to.to_string() } else { String::new() };
            let answer = json!({"metadata": {"continue": next}, "items": items}).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(answer.into_bytes()))) }
        });
        let io = Io::new(FencedClient::new(Client::new(service, "default"), Fence::open()), Arc::default(), DEADLINE);
        (io, largest)
    }

    #[tokio::test]
    async fn of_berths_kinds_no_answer_holds_more_than_a_page() {
        let (io, largest) = with_clusters(120);
        let mut each = vec![];
        io.list_each(Kind::Cluster, |live| each.push(live)).await.unwrap();
        for all in [
            each,
            io.list_all(Kind::Cluster).await.unwrap(),
            io.list(Kind::Cluster, "team", None).await.unwrap(),
            io.list_selected(Kind::Cluster, None, "a=b").await.unwrap(),
        ] {
            let names: Vec<&str> = all.iter().filter_map(|live| live["metadata"]["name"].as_str()).collect();
            assert_eq!((names.len(), names[0], names[119]), (120, "c0", "c119"));
        }
        assert_eq!(largest.load(Ordering::Relaxed), PAGE as u64);
        assert_eq!(io.list_all(Kind::Pod).await.unwrap().len(), 120, "in one answer");
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
