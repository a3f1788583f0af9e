//! Callers' connections.

use berth_edge::rate::place;
use berth_edge::socket;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::Mutex;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::certificate::Certificate;
use crate::serve::Access;

/// Connections at once, of all and of one source. Each takes up to some hundred KiB.
const MOST: usize = 10_000;
const MOST_OF_ONE: usize = 2_000;
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long a caller has for TLS.
const TLS_WITHIN: Duration = Duration::from_secs(10);
/// A connection without a call is ended: soon if it never had one, and later if it had. A call begins once all of its headers are there.
const FIRST_CALL_WITHIN: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_secs(5);
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
    let (acceptor, places) = (TlsAcceptor::from(tls), Places::new(MOST, MOST_OF_ONE));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = access.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                let Some(place) = places.take(client.ip()) else {
                    socket::reset(&stream);
                    continue;
                };
                let (access, acceptor, watcher) = (access.clone(), acceptor.clone(), graceful.watcher());
                tokio::spawn(async move {
                    let _place = place;
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
    graceful.shutdown().await;
}

async fn one(access: Arc<Access>, stream: TcpStream, client: SocketAddr, acceptor: &TlsAcceptor, watcher: Watcher) {
    if socket::set_up(&stream).is_err() {
        return;
    }
    let Ok(Ok(stream)) = timeout(TLS_WITHIN, acceptor.accept(stream)).await else { return };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (over, calls) = (access.over.clone(), Arc::new(Mutex::new(Calls::default())));
    let counted = calls.clone();
    let service = service_fn(move |request| {
        let (access, call) = (access.clone(), Call::begin(&counted));
        async move {
            let answer = access.answer(request, client).await;
            Ok::<_, Infallible>(answer.map(|body| Counted::new(body, call)))
        }
    });
    // As it was agreed on by TLS: whoever says nothing is not waited for to find out.
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    // hyper's own timer for headers would end connections of HTTP/1.1 that are idle between two calls: `idle` ends those that take too long.
    builder.http1().header_read_timeout(None).max_buf_size(HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(QUIET);
    let served = watcher.watch(builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned());
    tokio::select! {
        _ = served => (),
        () = over.cancelled() => (),
        () = idle(&calls) => (),
    }
}

/// Until nothing has been asked for long.
async fn idle(calls: &Mutex<Calls>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if calls.lock().are_over(Instant::now()) {
            return;
        }
    }
}

/// Calls of a connection.
#[derive(Debug)]
struct Calls {
    open: usize,
    /// Whether there was any.
    had: bool,
    since: Instant,
}

impl Default for Calls {
    fn default() -> Self {
        Self { open: 0, had: false, since: Instant::now() }
    }
}

impl Calls {
    fn are_over(&self, now: Instant) -> bool {
        let patience = if self.had { IDLE } else { FIRST_CALL_WITHIN };
        self.open == 0 && now.saturating_duration_since(self.since) > patience
    }
}

/// A call is open until this is dropped.
#[derive(Debug)]
struct Call(Arc<Mutex<Calls>>);

impl Call {
    fn begin(all: &Arc<Mutex<Calls>>) -> Self {
        let mut calls = all.lock();
        calls.open += 1;
        calls.had = true;
        Self(all.clone())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = self.0.lock();
        calls.open -= 1;
        calls.since = Instant::now();
    }
}

/// A body with which the call ends.
struct Counted {
    body: crate::body::Body,
    _call: Call,
}

impl Counted {
    fn new(body: crate::body::Body, call: Call) -> Self {
        Self { body, _call: call }
    }
}

impl http_body::Body for Counted {
    type Data = bytes::Bytes;
    type Error = crate::body::BoxError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::pin::Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Places for connections: so many in all, and for each source.
#[derive(Clone, Debug)]
struct Places {
    all: Arc<Semaphore>,
    sources: Arc<Mutex<HashMap<IpAddr, usize>>>,
    of_one: usize,
}

/// One of them, until this is dropped.
#[derive(Debug)]
struct Place {
    sources: Arc<Mutex<HashMap<IpAddr, usize>>>,
    source: IpAddr,
    _one: OwnedSemaphorePermit,
}

impl Places {
    fn new(all: usize, of_one: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), sources: Arc::default(), of_one }
    }

    /// None: there is none left for that client.
    fn take(&self, client: IpAddr) -> Option<Place> {
        let source = place(client);
        let one = self.all.clone().try_acquire_owned().ok()?;
        let mut sources = self.sources.lock();
        let count = sources.entry(source).or_default();
        if *count >= self.of_one {
            return None;
        }
        *count += 1;
        drop(sources);
        Some(Place { sources: self.sources.clone(), source, _one: one })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sources = self.sources.lock();
        if let Some(count) = sources.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_leaves_places_for_others() {
        let places = Places::new(3, 2);
        let take = |client: &str| places.take(client.parse().unwrap());
        let (first, _second) = (take("192.0.2.1").unwrap(), take("192.0.2.1").unwrap());
        assert!(take("192.0.2.1").is_none());
        let other = take("192.0.2.2").unwrap();
        assert!(take("192.0.2.3").is_none(), "three in all");
        drop((first, other));
        let _again = take("192.0.2.1").unwrap();
        assert_eq!(places.sources.lock().len(), 1, "who is gone is forgotten");
    }

    #[test]
    fn a_connection_without_calls_is_over_after_a_while() {
        let calls = Arc::new(Mutex::new(Calls::default()));
        let later = |time: Duration| Instant::now() + time + Duration::from_secs(1);
        assert!(calls.lock().are_over(later(FIRST_CALL_WITHIN)) && !calls.lock().are_over(Instant::now()));
        let call = Call::begin(&calls);
        assert!(!calls.lock().are_over(later(IDLE * 100)), "a watch may be silent");
        drop(call);
        assert!(!calls.lock().are_over(later(FIRST_CALL_WITHIN)) && calls.lock().are_over(later(IDLE)));
    }
}
