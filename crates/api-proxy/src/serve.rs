//! Takes connections of pods, and carries each to the API.

use berth_edge::http::Told;
use berth_edge::socket;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::Args;
use crate::carry::carry;
use crate::dial::Turns;
use crate::header::header;

/// How long nobody is let in after a failure, such as too many open files, which is there again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long a pod may stay when the API has ended, as at the gateway.
const STAYS: Duration = Duration::from_secs(30);
/// Between two looks whether the API answers, as long as it does not.
const LOOK: Duration = Duration::from_secs(5);
/// An API server says 400 to it, without TLS: a load balancer takes any connection, and a gateway ends it when it does not know the name.
const ASK: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
/// How long that may take.
const ANSWERS: Duration = Duration::from_secs(5);

/// All that connections share.
#[derive(Debug)]
pub(crate) struct Proxy {
    args: Args,
    /// The API has answered, and could be dialled since.
    is_open: AtomicBool,
    /// It was told that it did not.
    is_told: AtomicBool,
    turns: Turns,
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
            turns: Turns::default(),
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
        if carry(&mut stream, &mut api, STAYS).await.is_err() {
            socket::reset(&stream);
            socket::reset(&api);
        }
    }

    /// A connection to the API, which knows for whom it is.
    async fn open(&self, stream: &TcpStream, client: SocketAddr) -> io::Result<TcpStream> {
        socket::set_up(stream)?;
        self.dial(client, stream.local_addr()?).await.inspect_err(|error| self.is_shut(error))
    }

    async fn dial(&self, client: SocketAddr, own: SocketAddr) -> io::Result<TcpStream> {
        let mut api = self.turns.dial(&self.args.to, self.args.listen.ip(), self.args.dial_timeout).await?;
        if let Some(name) = &self.args.name {
            api.write_all(&header(name, client, own).map_err(io::Error::other)?).await?;
        }
        Ok(api)
    }

    /// Whether the API is there: it answers. What a pod says is not looked into.
    async fn ask(&self) -> io::Result<()> {
        // Nobody else asks.
        let client = self.args.listen;
        let mut api = self.dial(client, client).await?;
        let why = |error| io::Error::other(format!("it takes connections, and does not answer: {error}"));
        let answer = async {
            api.write_all(ASK).await?;
            api.read_u8().await
        };
        match tokio::time::timeout(ANSWERS, answer).await {
            Ok(answer) => answer.map(drop).map_err(why),
            Err(_) => Err(why(ErrorKind::TimedOut.into())),
        }
    }

    /// A line for each change, and none for each client.
    fn is_shut(&self, error: &io::Error) {
        self.is_open.store(false, Relaxed);
        if !self.is_told.swap(true, Relaxed) {
            eprintln!("berth-api-proxy: cannot connect to {}: {error}", self.args.to);
        }
    }

    fn is_there(&self) {
        self.is_open.store(true, Relaxed);
        if self.is_told.swap(false, Relaxed) {
            eprintln!("berth-api-proxy: {} answers again", self.args.to);
        }
    }

    /// Looks whether the API answers, as long as it is not known to.
    pub(crate) async fn look(self: Arc<Self>) {
        loop {
            if !self.is_open.load(Relaxed) {
                match self.ask().await {
                    Err(error) => self.is_shut(&error),
                    Ok(()) => self.is_there(),
                }
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
        (!self.is_open.load(Relaxed)).then_some("the API does not answer: the log says what is in the way")
    }

    fn metrics(&self) -> String {
        "# EOF\n".to_owned()
    }
}
