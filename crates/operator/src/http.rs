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
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the endpoints tell.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The meta cluster answers, and Berth's resources were there. A process that waits for the lease is ready, too.
    pub ready: Arc<AtomicBool>,
}

/// How long nobody is let in after a failure, such as too many open files, which is there again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Connections that are open at once. Whoever comes then takes the place of the oldest: kubelet's probes are let in, whoever holds the rest.
const MOST: usize = 64;
/// A connection is for one request.
const LONGEST: Duration = Duration::from_secs(30);
/// For so long the text of `/metrics` is given out again. It is made in the threads that renew the lease, and anybody may ask.
const FRESH: Duration = Duration::from_secs(1);

/// The text of `/metrics`, made at most once a second.
#[derive(Clone, Debug)]
struct Text {
    metrics: Metrics,
    last: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl Text {
    fn get(&self) -> Bytes {
        let mut last = self.last.lock();
        match &*last {
            Some((at, text)) if at.elapsed() < FRESH => text.clone(),
            _ => {
                let text = Bytes::from(self.metrics.text());
                *last = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

/// Connections, from the oldest.
#[derive(Debug, Default)]
struct Connections(VecDeque<JoinHandle<()>>);

impl Connections {
    fn add(&mut self, connection: JoinHandle<()>) {
        self.0.retain(|one| !one.is_finished());
        if self.0.len() >= MOST
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(connection);
    }
}

/// Serves until the process ends: `/healthz`, `/readyz`, `/metrics`.
pub async fn serve(address: &str, health: Health, metrics: Metrics) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}; set --listen"))?;
    serve_at(listener, health, Text { metrics, last: Arc::default() }).await
}

async fn serve_at(listener: TcpListener, health: Health, metrics: Text) -> anyhow::Result<()> {
    let mut connections = Connections::default();
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
        connections.add(tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &health, &metrics);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(5))
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(LONGEST, connection).await;
        }));
    }
}

/// What [`Metrics::text`] is. Prometheus 3 takes nothing that does not say so.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

fn answer(path: &str, health: &Health, metrics: &Text) -> Response<Full<Bytes>> {
    const WAITS: &str =
        "waiting for the meta cluster, Berth's resources, or an answer about the Lease: the log says which";
    let (status, body) = match path {
        "/healthz" => (StatusCode::OK, Bytes::from_static(b"ok")),
        "/readyz" if health.ready.load(Ordering::Relaxed) => (StatusCode::OK, Bytes::from_static(b"ok")),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, WAITS.into()),
        "/metrics" => (StatusCode::OK, metrics.get()),
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    #[test]
    fn each_answer_says_what_it_is() {
        let health = Health::default();
        let ask = |path: &str| {
            let answer = answer(path, &health, &Text { metrics: Metrics::default(), last: Arc::default() });
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

    /// Kubelet's probes, of which a few that fail restart the operator.
    #[tokio::test]
    async fn whoever_holds_all_connections_keeps_no_probe_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve_at(
            listener,
            Health::default(),
            Text { metrics: Metrics::default(), last: Arc::default() },
        ));
        let mut held = vec![];
        for _ in 0..MOST * 3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
            held.push(stream);
            let mut probe = TcpStream::connect(address).await.unwrap();
            probe.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut text = String::new();
            probe.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("ok"), "{text}");
        }
        let mut rest = vec![];
        held[0].read_to_end(&mut rest).await.ok();
        assert_eq!(rest, b"", "the oldest is closed, without an answer");
        server.abort();
    }

    #[test]
    fn the_text_is_made_once_a_second() {
        let text = Text { metrics: Metrics::default(), last: Arc::default() };
        assert_eq!(text.get().as_ptr(), text.get().as_ptr(), "the same one");
        let old = Instant::now().checked_sub(FRESH).unwrap();
        *text.last.lock() = Some((old, Bytes::from_static(b"old")));
        assert!(text.get().ends_with(b"# EOF\n"));
    }
}
