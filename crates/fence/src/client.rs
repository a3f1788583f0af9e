//! Clients whose every write asks the fence.

use crate::Fence;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::MapErr;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use kube::{Client, Config};
use std::ops::Deref;
use tower::retry::RetryLayer;
use tower::util::service_fn;
use tower::{BoxError, Layer, Service};

/// A client that sends no write once its fence is closed, but those of Leases, by which it is opened. Reads and dry runs pass.
#[derive(Clone)]
pub struct FencedClient {
    client: Client,
    fence: Fence,
}

impl FencedClient {
    /// A client of the API server that the environment names: by a kubeconfig, or as a pod.
    pub async fn infer(fence: Fence) -> kube::Result<Self> {
        Self::connect(Config::infer().await.map_err(kube::Error::InferConfig)?, fence)
    }

    /// A client of that API server.
    pub fn connect(mut config: Config, fence: Fence) -> kube::Result<Self> {
        // kube's own retries would be below the fence, and come when it is closed.
        config.default_retry = false;
        Ok(Self::retrying(Client::try_from(config)?, fence))
    }

    /// Above a client that retries nothing by itself: what an API server has no time for is sent again, if the fence is still open.
    pub fn retrying(client: Client, fence: Fence) -> Self {
        let namespace = client.default_namespace().to_owned();
        let retries = RetryLayer::new(RetryPolicy::server_retry());
        Self { client: Client::new(retries.layer(asks(client, fence.clone())), namespace), fence }
    }

    /// Above any client. What that retries by itself was asked about once.
    pub fn new(client: Client, fence: Fence) -> Self {
        let namespace = client.default_namespace().to_owned();
        Self { client: Client::new(asks(client, fence.clone()), namespace), fence }
    }

    /// What it asks.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

impl Deref for FencedClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl std::fmt::Debug for FencedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FencedClient")
    }
}

type Answer = Response<MapErr<Body, fn(kube::Error) -> BoxError>>;

/// Asks as late as can be: whoever waited before, or was stopped, may have lost the lease meanwhile.
fn asks(
    client: Client,
    fence: Fence,
) -> impl Service<Request<Body>, Response = Answer, Error = BoxError, Future: Send> + Clone + Send + 'static {
    service_fn(move |request: Request<Body>| {
        let (client, fence) = (client.clone(), fence.clone());
        async move {
            if writes(&request) {
                fence.check()?;
            }
            let answer = client.send(request).await?;
            Ok(answer.map(|body| body.map_err(inner as fn(_) -> _)))
        }
    })
}

/// A client wraps errors of bodies, and the one above does so again: without that it says the same.
fn inner(error: kube::Error) -> BoxError {
    match error {
        kube::Error::Service(error) => error,
        other => other.into(),
    }
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/";

fn writes<B>(request: &Request<B>) -> bool {
    let (method, uri) = (request.method(), request.uri());
    let dry = uri.query().is_some_and(|query| query.split('&').any(|field| field == "dryRun=All"));
    let lease = uri.path().strip_prefix(LEASES).is_some_and(|rest| rest.split('/').nth(1) == Some("leases"));
    !(method == Method::GET || method == Method::HEAD || dry || lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Closed;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    /// An API server that has no time for the first request, and closes the fence then.
    fn server(fence: &Fence) -> (Client, Arc<Mutex<Vec<String>>>) {
        let sent: Arc<Mutex<Vec<String>>> = Arc::default();
        let (heard, fence) = (sent.clone(), fence.clone());
        let service = service_fn(move |request: Request<Body>| {
            heard.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            let first = heard.lock().unwrap().len() == 1;
            fence.close();
            let code = if first { 429 } else { 200 };
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(Body::empty()).unwrap()) }
        });
        (Client::new(service, "default"), sent)
    }

    async fn ask(client: &Client, method: Method, url: &str) -> kube::Result<u16> {
        let request = Request::builder().method(method).uri(url).body(Body::empty()).unwrap();
        client.send(request).await.map(|answer| answer.status().as_u16())
    }

    const PODS: &str = "/api/v1/namespaces/a/pods";
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/berth-operator";

    #[tokio::test]
    async fn no_write_but_a_leases_leaves_once_it_is_closed() {
        let fence = Fence::closed();
        let (client, sent) = server(&fence);
        let client = FencedClient::new(client, fence);
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            for url in [
                PODS,
                "/api/v1/namespaces/leases/pods",
                "/apis/coordination.k8s.io/v1/namespaces/a/leasesx",
                "/x?dryRun=",
            ] {
                let error = ask(&client, method.clone(), url).await.unwrap_err();
                assert!(Closed::is(&error), "{method} {url}: {error}");
            }
        }
        assert!(sent.lock().unwrap().is_empty());
        for (method, url) in [(Method::GET, PODS), (Method::PUT, LEASE), (Method::PATCH, "/x?a=b&dryRun=All")] {
            ask(&client, method, url).await.unwrap();
        }
        assert_eq!(sent.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn a_retry_asks_again() {
        for (method, sends) in [(Method::GET, 2), (Method::PATCH, 1)] {
            let fence = Fence::open();
            let (client, sent) = server(&fence);
            let answer = ask(&FencedClient::retrying(client, fence), method, PODS).await;
            assert_eq!((answer.as_ref().is_err_and(Closed::is), sent.lock().unwrap().len()), (sends == 1, sends));
        }
    }
}
