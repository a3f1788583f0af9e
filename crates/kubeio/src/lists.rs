//! Lists of objects.

use crate::calls::{Io, collection, encode, other};
use crate::error::{ErrorKind, IoError};
use crate::queue::Queue;
use crate::slim;
use berth_render::{Kind, Listing, ObjectKey};
use http::Method;
use serde::Deserialize;
use serde_json::Value;

/// Objects of Berth's kinds in one answer: teams write them, each as large as an API server lets them, and an answer is held as a whole.
const PAGE: usize = 50;

impl Io {
    /// All objects of a kind, in one namespace or in all, or those that fit a selector of labels.
    pub async fn list<'a>(
        &self,
        kind: Kind,
        namespace: impl Into<Option<&'a str>>,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, IoError> {
        let namespace = namespace.into();
        let what = match namespace {
            Some(namespace) => format!("list {} in {namespace}", kind.plural()),
            None => format!("list {} of all namespaces", kind.plural()),
        };
        let labels = selector.map(|selector| format!("labelSelector={}", encode(selector)));
        // Of other kinds Berth lists what it made, or little: in one answer, which API servers have in a cache.
        let limit = (kind.group() == berth_api::GROUP).then(|| format!("limit={PAGE}"));
        let query: Vec<String> = labels.into_iter().chain(limit).collect();
        let url = format!("{}?{}", collection(kind, namespace), query.join("&"));
        let mut all = vec![];
        self.pages(kind, &what, url.trim_end_matches('?'), |mut items| all.append(&mut items)).await?;
        Ok(all)
    }

    /// All objects of one of Berth's kinds in all namespaces, one after the other: of all of them together only what `each` keeps is held.
    pub async fn list_each(&self, kind: Kind, mut each: impl FnMut(Value) + Send) -> Result<(), IoError> {
        let what = format!("list {} of all namespaces", kind.plural());
        let url = format!("{}?limit={PAGE}", collection(kind, None));
        self.pages(kind, &what, &url, |items| items.into_iter().for_each(&mut each)).await
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

    /// Pages of a listing whose address has a query.
    pub(crate) async fn pages(
        &self,
        kind: Kind,
        what: &str,
        url: &str,
        mut page: impl FnMut(Vec<Value>) + Send,
    ) -> Result<(), IoError> {
        let mut next = url.to_owned();
        loop {
            let (items, token) = self.page(kind, what, &next).await?;
            page(items);
            match token {
                Some(token) => next = format!("{url}&continue={}", encode(&token)),
                None => return Ok(()),
            }
        }
    }

    /// One answer to a listing, without what nobody reads, and where it goes on.
    async fn page(&self, kind: Kind, what: &str, url: &str) -> Result<(Vec<Value>, Option<String>), IoError> {
        let text = self.text(Method::GET, what, url, None, None).await.map_err(|e| unserved(e, kind))?;
        let mut answer = slim::parse(kind, &text).map_err(|e| other(what, &e))?;
        let items = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        let token = answer.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty());
        Ok((items, token.map(str::to_owned)))
    }

    /// Objects of a listing that carry a label, and whether these are all: of more than five hundred only some are read.
    pub(crate) async fn list_labelled(
        &self,
        Listing { kind, namespace }: Listing,
        label: &str,
    ) -> Result<(Vec<(ObjectKey, Value)>, bool), IoError> {
        let url = format!("{}?labelSelector={}&limit=500", collection(kind, namespace), encode(label));
        let what = format!("list {} with the label {label}", kind.plural());
        let (items, token) = self.page(kind, &what, &url).await?;
        let named = |mut item| {
            name_kind(&mut item, kind);
            (ObjectKey::of(kind, &item), item)
        };
        Ok((items.into_iter().map(named).collect(), token.is_none()))
    }

    /// Name, UID and resourceVersion of all objects of a kind in a namespace.
    pub(crate) async fn versions(&self, kind: Kind, namespace: &str) -> Result<Vec<[String; 3]>, IoError> {
        const ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let what = format!("list metadata of {} in {namespace}", kind.plural());
        let text = self.text(Method::GET, &what, &collection(kind, Some(namespace)), None, Some(ACCEPT)).await?;
        let answer: Versions = serde_json::from_str(&text).map_err(|e| other(&what, &e))?;
        Ok(answer.items.into_iter().map(|Item { metadata: m }| [m.name, m.uid, m.resource_version]).collect())
    }

    /// A list as the table that `kubectl get` shows.
    pub(crate) async fn table(&self, url: &str) -> Result<Value, IoError> {
        const ACCEPT: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        self.call(Method::GET, &format!("get {url}"), url, None, Some(ACCEPT)).await
    }
}

/// A list of metadata, without what nobody reads: idle checks ask for one of each tenant all the time.
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

/// Name, UID and resourceVersion.
pub(crate) fn version(object: &Value) -> [String; 3] {
    let metadata = &object["metadata"];
    ["name", "uid", "resourceVersion"].map(|field| metadata[field].as_str().unwrap_or_default().to_owned())
}

/// Items of a list come without them.
pub(crate) fn name_kind(item: &mut Value, kind: Kind) {
    item["apiVersion"] = kind.api_version().into();
    item["kind"] = kind.name().into();
}

/// A list that is not found: the API server does not know the kind.
fn unserved(error: IoError, kind: Kind) -> IoError {
    if error.kind != ErrorKind::NotFound || kind.group() != berth_api::GROUP {
        return error;
    }
    let name = format!("{}.{}", kind.plural(), kind.group());
    IoError { message: format!("CustomResourceDefinition {name} is not there; install the chart berth-crds"), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_fence::{Fence, FencedClient};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const DEADLINE: Duration = Duration::from_secs(10);

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
            io.list(Kind::Cluster, None, None).await.unwrap(),
            io.list(Kind::Cluster, "team", None).await.unwrap(),
            io.list(Kind::Cluster, None, Some("a=b")).await.unwrap(),
        ] {
            let names: Vec<&str> = all.iter().filter_map(|live| live["metadata"]["name"].as_str()).collect();
            assert_eq!((names.len(), names[0], names[119]), (120, "c0", "c119"));
        }
        assert_eq!(largest.load(Ordering::Relaxed), PAGE as u64);
        assert_eq!(io.list(Kind::Pod, None, None).await.unwrap().len(), 120, "in one answer");
    }
}
