//! Callers' connections.

use berth_edge::socket;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::certificate::Certificate;
use crate::serve::Access;

/// Connections at once. Each takes some tens of KiB.
const MOST: usize = 10_000;
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long a caller has for TLS, and for the headers of a call.
const TLS_WITHIN: Duration = Duration::from_secs(10);
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// A connection of HTTP/2 on which nothing happens is asked whether the other end is there.
const QUIET: Duration = Duration::from_secs(30);
/// Bytes of all headers of a call.
const HEADERS: u32 = 64 * 1024;
/// Calls in one connection of HTTP/2.
const STREAMS: u32 = 250;

/// What callers are shown.
pub(crate) fn tls(certificate: Arc<Certificate>) -> Arc<ServerConfig> {
    let mut tls = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificate);
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(tls)
}

/// Until it is told to stop, and all calls have ended.
pub(crate) async fn serve(access: Arc<Access>, listener: TcpListener, tls: Arc<ServerConfig>) {
    let (acceptor, places) = (TlsAcceptor::from(tls), Arc::new(Semaphore::new(MOST)));
    let graceful = Arc::new(GracefulShutdown::new());
    loop {
        let accepted = tokio::select! {
            () = access.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                let Ok(place) = places.clone().try_acquire_owned() else {
                    socket::reset(&stream);
                    continue;
                };
                let (access, acceptor, watcher) = (access.clone(), acceptor.clone(), graceful.watcher());
                tokio::spawn(async move {
                    let _place = place;
                    let client = std::net::SocketAddr::new(client.ip().to_canonical(), client.port());
                    one(access, stream, client, &acceptor, watcher).await;
                });
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                eprintln!("berth-access: cannot accept a connection: {error}");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
    drop(listener);
    if let Ok(graceful) = Arc::try_unwrap(graceful) {
        graceful.shutdown().await;
    }
}

async fn one(
    access: Arc<Access>,
    stream: TcpStream,
    client: std::net::SocketAddr,
    acceptor: &TlsAcceptor,
    watcher: hyper_util::server::graceful::Watcher,
) {
    if socket::set_up(&stream).is_err() {
        return;
    }
    let Ok(Ok(stream)) = timeout(TLS_WITHIN, acceptor.accept(stream)).await else { return };
    let over = access.over.clone();
    let service = service_fn(move |request| {
        let access = access.clone();
        async move { Ok::<_, Infallible>(access.answer(request, client).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_headers(128);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(QUIET);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    tokio::select! {
        _ = watcher.watch(connection) => (),
        () = over.cancelled() => (),
    }
}
