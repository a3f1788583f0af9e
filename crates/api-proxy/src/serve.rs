//! Takes connections of pods, and carries each to the API.

use berth_edge::http::Told;
use berth_edge::socket;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::Args;
use crate::dial::dial;
use crate::header::header;

/// How long nobody is let in after a failure, such as too many open files, which is there again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Between two looks whether the API can be dialled, as long as it cannot.
const LOOK: Duration = Duration::from_secs(5);

/// All that connections share.
#[derive(Debug)]
pub(crate) struct Proxy {
    args: Args,
    /// The last attempt to dial the API succeeded.
    is_open: AtomicBool,
    /// It was told that it did not.
    is_told: AtomicBool,
    turn: AtomicUsize,
    /// It ends: nobody is let in.
    pub(crate) stop: CancellationToken,
    pub(crate) connections: TaskTracker,
}

impl Proxy {
    pub(crate) fn new(args: Args) -> Arc<Self> {
        Arc::new(Self {
            args,
            is_open: AtomicBool::default(),
            is_told: AtomicBool::default(),
            turn: AtomicUsize::default(),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
        })
    }

    /// Until it is told to stop.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) if self.connections.len() >= self.args.max_connections => socket::reset(&stream),
                Ok((stream, client)) => drop(self.connections.spawn(self.clone().one(stream, client))),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    eprintln!("berth-api-proxy: cannot accept a connection: {error}");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Until both sides have ended. Whoever is gone without a word is gone to the other side, too.
    async fn one(self: Arc<Self>, mut stream: TcpStream, client: SocketAddr) {
        let Ok(mut api) = self.open(&stream, client).await else { return socket::reset(&stream) };
        if copy_bidirectional(&mut stream, &mut api).await.is_err() {
            socket::reset(&stream);
            socket::reset(&api);
        }
    }

    /// A connection to the API, which knows for whom it is.
    async fn open(&self, stream: &TcpStream, client: SocketAddr) -> io::Result<TcpStream> {
        socket::set_up(stream)?;
        let mut api = self.dial().await?;
        if let Some(name) = &self.args.name {
            let header = header(name, client, stream.local_addr()?).map_err(io::Error::other)?;
            api.write_all(&header).await?;
        }
        Ok(api)
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let dialled =
            dial(&self.args.to, self.args.listen.ip(), self.turn.fetch_add(1, Relaxed), self.args.dial_timeout).await;
        self.is_open.store(dialled.is_ok(), Relaxed);
        // A line for each change, and none for each client.
        match &dialled {
            Ok(_) if self.is_told.swap(false, Relaxed) => eprintln!("berth-api-proxy: {} answers again", self.args.to),
            Err(error) if !self.is_told.swap(true, Relaxed) => {
                eprintln!("berth-api-proxy: cannot connect to {}: {error}", self.args.to);
            }
            _ => {}
        }
        dialled
    }

    /// Looks whether the API can be dialled, as long as it is not known to be so. What it opens says nothing, and is closed.
    pub(crate) async fn look(self: Arc<Self>) {
        loop {
            if !self.is_open.load(Relaxed) {
                drop(self.dial().await);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Until who is in has left, or may not stay any longer.
    pub(crate) async fn drained(&self) {
        self.connections.close();
        let _ = tokio::time::timeout(self.args.drain, self.connections.wait()).await;
    }
}

impl Told for Proxy {
    fn unready(&self) -> Option<&'static str> {
        if self.stop.is_cancelled() {
            return Some("this proxy ends");
        }
        (!self.is_open.load(Relaxed)).then_some("the API cannot be dialled: the log says what is in the way")
    }

    fn metrics(&self) -> String {
        "# EOF\n".to_owned()
    }
}
