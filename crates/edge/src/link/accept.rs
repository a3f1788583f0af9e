//! A replica's end: takes the operator's connections, and nobody else's.

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use rustls::server::Acceptor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::codec::{Framed, LinesCodec};

use super::identity::Identity;
use super::names::Names;
use super::opening::Opening;
use crate::socket;

/// Connections whose other end has not shown who it is.
const OPENING: usize = 64;
/// How long one has for that.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// Of these so many have the operator's Lease read at once.
const READING: usize = 4;
const AFTER_FAILURE: Duration = Duration::from_millis(100);
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// A stream of lines with the operator.
pub type Lines = Framed<TlsStream<TcpStream>, LinesCodec>;

/// Takes the operator's connections, for ever. Only who has published its certificate in the operator's Lease is the operator. `speak`: is handed each
/// stream, ends with it, and says why.
pub async fn serve<F>(
    names: Names,
    listener: TcpListener,
    identity: Arc<Identity>,
    leases: Api<Lease>,
    speak: impl Fn(Lines) -> F + Clone + Send + 'static,
) where
    F: Future<Output = String> + Send + 'static,
{
    // Whoever comes may come often.
    let said = Arc::new(Mutex::new(None::<Instant>));
    let (opening, reading) = (Opening::new(OPENING), Arc::new(Semaphore::new(READING)));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let place = opening.take(peer.ip());
        let (identity, leases, speak) = (identity.clone(), leases.clone(), speak.clone());
        let (reading, said) = (reading.clone(), said.clone());
        tokio::spawn(async move {
            let opened = tokio::select! {
                opened = timeout(OPEN_WITHIN, open(names, stream, &identity, &leases, &reading)) => {
                    opened.unwrap_or_else(|_| Err(anyhow::anyhow!("it took longer than {OPEN_WITHIN:?}")))
                }
                () = place.taken() => Err(anyhow::anyhow!("{OPENING} connections say nothing, most from there: it made room for a newer one")),
            };
            drop(place);
            match opened {
                Ok(lines) => talk(names, peer, speak(lines)).await,
                Err(error) => {
                    let mut last = said.lock();
                    if last.is_none_or(|last| last.elapsed() > BETWEEN_LINES) {
                        *last = Some(Instant::now());
                        eprintln!("{}: {peer} is not taken for the operator: {error:#}", names.program);
                    }
                }
            }
        });
    }
}

async fn talk(names: Names, peer: SocketAddr, speaking: impl Future<Output = String>) {
    eprintln!("{}: the operator is connected from {peer}", names.program);
    let why = speaking.await;
    eprintln!("{}: the operator's connection from {peer} has ended: {why}", names.program);
}

async fn open(
    names: Names,
    stream: TcpStream,
    identity: &Identity,
    leases: &Api<Lease>,
    reading: &Semaphore,
) -> Result<Lines> {
    socket::set_up_server(&stream)?;
    // Who says nothing costs no call.
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await.context("TLS")?;
    let permit = reading.acquire().await?;
    let lease = leases.get_opt(names.operator).await.context("cannot read the operator's Lease")?;
    let lease = lease.with_context(|| format!("there is no Lease {}", names.operator))?;
    let operator = lease
        .annotations()
        .get(names.certificate)
        .with_context(|| format!("Lease {} has no certificate", names.operator))?;
    drop(permit);
    let stream = hello.into_stream(Arc::new(identity.server(operator)?)).await.context("TLS")?;
    Ok(Framed::new(stream, LinesCodec::new_with_max_length(names.longest)))
}
