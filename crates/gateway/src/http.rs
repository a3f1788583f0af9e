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
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::metrics;
use crate::serve::Gateway;

/// Connections that are open at once. Whoever comes then takes the place of the oldest: probes are let in, whoever holds the rest.
const MOST: usize = 64;
/// A connection is for one request.
const LONGEST: Duration = Duration::from_secs(30);
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What metrics are. Prometheus 3 takes nothing that does not say so.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves until the process ends: `/healthz`, `/readyz`, `/metrics`. `is_known`: all tenants are.
pub(crate) async fn serve(listener: TcpListener, gateway: Arc<Gateway>, is_known: Arc<AtomicBool>) {
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
        let (gateway, is_known) = (gateway.clone(), is_known.clone());
        open.push_back(tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &gateway, is_known.load(Relaxed));
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

fn answer(path: &str, gateway: &Gateway, is_known: bool) -> Response<Full<Bytes>> {
    const UNKNOWN: &str = "waiting for the lists of Services and EndpointSlices: the log says what is in the way";
    let (status, body) = match path {
        "/readyz" if gateway.stop.is_cancelled() => (StatusCode::SERVICE_UNAVAILABLE, "this gateway ends".into()),
        "/readyz" if !is_known => (StatusCode::SERVICE_UNAVAILABLE, UNKNOWN.into()),
        "/healthz" | "/readyz" => (StatusCode::OK, Bytes::from_static(b"ok")),
        "/metrics" => (StatusCode::OK, metrics::text(gateway).into()),
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
    use crate::tests::limits;
    use crate::{ended::Ended, log::Log, table::Table, tenant::tests::route};
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn it_is_ready_from_when_all_is_known_until_it_ends() {
        let gateway = Gateway::new(limits(), Log::captured().0);
        let ask = |path: &str, is_known| answer(path, &gateway, is_known).status().as_u16();
        assert_eq!((ask("/readyz", false), ask("/readyz", true)), (503, 200));
        assert_eq!((ask("/healthz", false), ask("/", true)), (200, 404));
        gateway.stop.cancel();
        assert_eq!((ask("/readyz", true), ask("/healthz", true)), (503, 200));
    }

    #[tokio::test]
    async fn metrics_are_written_so() {
        let gateway = Gateway::new(limits(), Log::captured().0);
        gateway.live.update(Table { routes: vec![route("acme", &[])], ..Table::default() });
        let tenant = gateway.live.tenant("acme.example.com").unwrap();
        let _open = tenant.admit("10.0.0.1".parse().unwrap(), &limits()).unwrap();
        tenant.traffic.refused.add(Ended::TooMany);
        gateway.ends.add(Ended::UnknownName);
        gateway.is_stale[1].store(true, Relaxed);
        let answer = answer("/metrics", &gateway, true);
        assert_eq!(answer.headers()[CONTENT_TYPE], OPEN_METRICS);
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let text = str::from_utf8(&text).unwrap();
        for line in [
            r#"berth_gateway_tenant_connections{namespace="team-a",name="acme"} 1"#,
            r#"berth_gateway_tenant_connections_opened_total{namespace="team-a",name="acme"} 1"#,
            r#"berth_gateway_tenant_connections{namespace="",name="(others)"} 0"#,
            r#"berth_gateway_tenant_traffic_bytes_total{namespace="team-a",name="acme",direction="up"} 0"#,
            r#"berth_gateway_tenant_connections_refused_total{namespace="team-a",name="acme",reason="TooMany"} 1"#,
            r#"berth_gateway_connections_ended_total{reason="UnknownName"} 1"#,
            r#"berth_gateway_connections_ended_total{reason="Drained"} 0"#,
            r#"berth_gateway_services_ignored{reason="Foreign"} 0"#,
            r#"berth_gateway_watch_failing{resource="services"} 0"#,
            r#"berth_gateway_watch_failing{resource="endpointslices"} 1"#,
            "berth_gateway_tenants 1",
            "berth_gateway_connections 0",
            "berth_gateway_log_lines_lost_total 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\n{text}");
        }
    }
}
