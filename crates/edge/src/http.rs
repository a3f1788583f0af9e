//! Health, readiness and metrics.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Connections that are open at once. Whoever comes then takes the place of the oldest: probes are let in, whoever holds the rest.
const MOST: usize = 64;
/// A connection is for one request.
const LONGEST: Duration = Duration::from_secs(30);
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What metrics are. Prometheus 3 takes nothing that does not say so.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What a program says of itself.
pub trait Told: Send + Sync + 'static {
    /// Why nobody should come here now, if so.
    fn unready(&self) -> Option<&'static str>;

    /// All metrics, as OpenMetrics text.
    fn metrics(&self) -> String;
}

/// Serves until the process ends: `/healthz`, `/readyz`, `/metrics`.
pub async fn serve(listener: TcpListener, told: Arc<impl Told>) {
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        open.retain(|one| !one.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let told = told.clone();
        open.push_back(tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &*told);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_WITHIN)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(LONGEST, connection).await;
        }));
    }
}

fn answer(path: &str, told: &impl Told) -> Response<Full<Bytes>> {
    let (status, body) = match (path, told.unready()) {
        ("/readyz", Some(why)) => (StatusCode::SERVICE_UNAVAILABLE, why.into()),
        ("/healthz" | "/readyz", _) => (StatusCode::OK, Bytes::from_static(b"ok")),
        ("/metrics", _) => (StatusCode::OK, told.metrics().into()),
        _ => (StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics".into()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let type_ = if path == "/metrics" { OPEN_METRICS } else { PLAIN };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(type_));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(Option<&'static str>);

    impl Told for One {
        fn unready(&self) -> Option<&'static str> {
            self.0
        }

        fn metrics(&self) -> String {
            "# EOF".to_owned()
        }
    }

    #[test]
    fn one_that_is_not_ready_lives() {
        let ask = |path: &str, why| answer(path, &One(why)).status().as_u16();
        assert_eq!((ask("/readyz", Some("it ends")), ask("/healthz", Some("it ends"))), (503, 200));
        assert_eq!((ask("/readyz", None), ask("/", None)), (200, 404));
        assert_eq!(answer("/metrics", &One(None)).headers()[CONTENT_TYPE], OPEN_METRICS);
    }
}
