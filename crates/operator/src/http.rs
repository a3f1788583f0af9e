//! Health, readiness and metrics.

use crate::metrics::Metrics;
use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
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

/// Serves until the process ends: `/healthz`, `/readyz`, `/metrics`.
pub async fn serve(address: &str, health: Health, metrics: Metrics) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}; set --listen"))?;
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept");
                continue;
            }
        };
        let (health, metrics) = (health.clone(), metrics.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &health, &metrics);
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

fn answer(request: &Request<Incoming>, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, body) = match request.uri().path() {
        "/healthz" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" if health.ready.load(Ordering::Relaxed) => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "waiting for the meta cluster and Berth's resources".to_owned()),
        "/metrics" => (StatusCode::OK, metrics.text()),
        _ => (StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}
