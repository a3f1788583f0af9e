//! Health, readiness and metrics.

use crate::metrics::Metrics;
use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// What the endpoints tell.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The meta cluster answers, and Berth's resources were there. A process that waits for the lease is ready, too.
    pub ready: Arc<AtomicBool>,
}

/// How long nobody is let in after a failure, such as too many open files, which is there again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Serves until the process ends: `/healthz`, `/readyz`, `/metrics`.
pub async fn serve(address: &str, health: Health, metrics: Metrics) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}; set --listen"))?;
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let (health, metrics) = (health.clone(), metrics.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &health, &metrics);
                async move { Ok::<_, Infallible>(answer) }
            });
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(5))
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// What [`Metrics::text`] is. Prometheus 3 takes nothing that does not say so.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

fn answer(path: &str, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, body) = match path {
        "/healthz" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" if health.ready.load(Ordering::Relaxed) => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "waiting for the meta cluster, Berth's resources, or an answer about the Lease: the log says which"
                .to_owned(),
        ),
        "/metrics" => (StatusCode::OK, metrics.text()),
        _ => (StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let type_ = if path == "/metrics" { OPEN_METRICS } else { PLAIN };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(type_));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_says_what_it_is() {
        let health = Health::default();
        let ask = |path: &str| {
            let answer = answer(path, &health, &Metrics::default());
            (answer.status().as_u16(), answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned())
        };
        assert_eq!(ask("/metrics"), (200, OPEN_METRICS.to_owned()));
        assert_eq!(ask("/healthz"), (200, PLAIN.to_owned()));
        assert_eq!(ask("/readyz").0, 503);
        health.ready.store(true, Ordering::Relaxed);
        assert_eq!(ask("/readyz").0, 200);
        assert_eq!(ask("/").0, 404);
        assert!(Metrics::default().text().ends_with("# EOF\n"), "OpenMetrics ends so");
    }
}
