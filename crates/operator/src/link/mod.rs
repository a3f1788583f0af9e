//! Connections to all replicas of a program that takes the operator's: it finds them by their Leases, and stays connected to each.

mod leases;

use crate::context::Context;
use anyhow::Context as _;
use berth_edge::link::{Identity, Names};
use berth_edge::socket;
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use leases::Replicas;
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::codec::{Framed, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use leases::Replica;

/// Between two tries to connect to a replica: at first, and at most.
const SOON: Duration = Duration::from_millis(200);
const AT_MOST: Duration = Duration::from_secs(15);

/// How long a replica may take to be connected to.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A stream of lines with a replica.
pub(crate) type Lines = Framed<TlsStream<TcpStream>, LinesCodec>;

/// A program, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) names: Names,
    /// Its name in certificates of replicas.
    pub(crate) name: &'static str,
    pub(crate) namespace: String,
}

/// Until `stop`: stays connected to each replica. `speak`: is handed each connection, ends with it, and says why.
pub(crate) async fn run<F>(
    ctx: &Context,
    stop: &CancellationToken,
    program: Program,
    speak: impl Fn(Context, Replica, Lines) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = String> + Send + 'static,
{
    let identity = match Identity::new(program.names.operator) {
        Ok(identity) => Arc::new(identity),
        Err(error) => {
            let to = program.names.program;
            return tracing::error!(error = format!("{error:#}"), to, "cannot make a key");
        }
    };
    let program = Arc::new(program);
    tokio::select! {
        () = follow(ctx, &program, &identity, speak) => (),
        () = stop.cancelled() => (),
    }
}

async fn follow<F>(
    ctx: &Context,
    program: &Arc<Program>,
    identity: &Arc<Identity>,
    speak: impl Fn(Context, Replica, Lines) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = String> + Send + 'static,
{
    let (names, namespace) = (program.names, &program.namespace);
    let leases = leases::api(&ctx.io, namespace);
    let mut replicas = Replicas::new(names);
    let mut open: HashMap<Replica, AbortOnDropHandle<()>> = HashMap::new();
    let mut events = pin!(watcher(leases, leases::watched(names)).backoff(watcher::DefaultBackoff::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => replicas.see(event),
            Err(error) => {
                let error = berth_kubeio::IoError::from_watch(&error);
                ctx.failed(&error);
                tracing::warn!(%error, namespace, "cannot watch the Leases of {}", names.program);
            }
        }
        let all = replicas.all();
        open.retain(|replica, _| all.contains(replica));
        for replica in all {
            open.entry(replica).or_insert_with_key(|replica| {
                let (ctx, identity, program, replica) =
                    (ctx.clone(), identity.clone(), program.clone(), replica.clone());
                let speak = speak.clone();
                let stay = async move { stay(&ctx, &program, &identity, &replica, speak).await };
                AbortOnDropHandle::new(tokio::spawn(stay))
            });
        }
    }
}

/// Keeps a connection to that replica, for ever.
async fn stay<F>(
    ctx: &Context,
    program: &Program,
    identity: &Identity,
    replica: &Replica,
    speak: impl Fn(Context, Replica, Lines) -> F,
) where
    F: Future<Output = String>,
{
    let to = program.names.program;
    let (mut pause, mut said) = (SOON, String::new());
    loop {
        let connected = async {
            // Each time: it may be gone, or another operator's.
            leases::publish(program.names, &ctx.io, &program.namespace, identity.pem()).await?;
            connect(program, identity, replica).await
        };
        match connected.await {
            Ok(lines) => {
                tracing::info!(replica = replica.name, address = %replica.address, "connected to {to}");
                (pause, said) = (SOON, String::new());
                let why = speak(ctx.clone(), replica.clone(), lines).await;
                tracing::info!(replica = replica.name, why, "the connection to {to} has ended");
            }
            Err(error) => {
                let text = format!("{error:#}");
                if said != text {
                    tracing::warn!(replica = replica.name, address = %replica.address, error = text, "cannot connect to {to}");
                    said = text;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AT_MOST);
    }
}

/// Connects to that replica; to nobody else at its address.
pub(crate) async fn connect(program: &Program, identity: &Identity, replica: &Replica) -> anyhow::Result<Lines> {
    let tls = TlsConnector::from(Arc::new(identity.client(&replica.certificate)?));
    let connect = async {
        let stream = TcpStream::connect(replica.address).await?;
        socket::set_up_server(&stream)?;
        tls.connect(ServerName::try_from(program.name)?, stream).await.context("TLS")
    };
    let stream = timeout(CONNECT_WITHIN, connect).await.context("it does not answer")??;
    Ok(Framed::new(stream, LinesCodec::new_with_max_length(program.names.longest)))
}
