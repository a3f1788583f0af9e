//! A gateway with real TLS on loopback.

mod alerts;
mod carried;
mod ends;
mod held;
mod hours;
mod looked_up;
mod named;
mod refused;
mod told;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use berth_edge::log::Log;
use berth_edge::socket;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::ended::Ended;
use crate::limits::{Limits, MostHeld};
use crate::opening::By;
use crate::serve::Gateway;
use crate::sources::Most;
use crate::table::{Route, Table};
use crate::tenant::tests::route;

/// What has no bound of its own.
const SOON: Duration = Duration::from_secs(20);

/// Short enough to be waited for.
pub(crate) fn limits() -> Limits {
    Limits {
        hello: 16 * 1024,
        hello_within: Duration::from_millis(500),
        dial_within: Duration::from_millis(300),
        stays: SOON,
        drain: Duration::from_millis(500),
        connections: 100,
        rate: 1000.try_into().unwrap(),
        in_all: 1000,
        rate_in_all: None,
        source: Most { open: None, opening: 1000.try_into().unwrap(), rate: None },
        proxy_from: vec![],
        held: MostHeld { in_all: 100, of_tenant: 20, how_long: Duration::from_millis(700) },
    }
}

/// It, and what it writes.
struct World {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    lines: Receiver<String>,
}

impl World {
    fn start(limits: Limits) -> Self {
        Self::by(By::ServerName, limits)
    }

    /// Where each connection begins with a header that names the tenant.
    fn named(limits: Limits) -> Self {
        Self::by(By::Header, limits)
    }

    fn by(by: By, limits: Limits) -> Self {
        let (log, lines) = Log::captured();
        let gateway = Gateway::new(limits, log);
        let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(gateway.clone().accept(listener, by));
        Self { gateway, address, lines }
    }

    /// These are all tenants, each with its API servers and whether they are ready.
    fn has(&self, tenants: &[(&str, &[(SocketAddr, bool)])]) {
        self.has_routes(tenants.iter().map(|(name, servers)| leads(name, servers)).collect());
    }

    fn has_routes(&self, routes: Vec<Route>) {
        self.gateway.live.update(Table { routes, ..Table::default() });
    }

    async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The next line of the access log.
    async fn line(&self) -> Value {
        let begin = Instant::now();
        loop {
            match self.lines.try_recv() {
                Ok(line) => return serde_json::from_str(&line).unwrap(),
                Err(TryRecvError::Empty) if begin.elapsed() < SOON => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("no line: {error}"),
            }
        }
    }

    /// The next line says so.
    async fn ended(&self, why: Ended) -> Value {
        let line = self.line().await;
        assert_eq!(line["ended"], why.as_str(), "{line}");
        line
    }

    fn count(&self, why: Ended) -> u64 {
        self.gateway.ends.all().find(|(ended, _)| *ended == why).unwrap().1
    }
}

/// To the tenant of that name, by `<name>.example.com`.
fn leads(name: &str, servers: &[(SocketAddr, bool)]) -> Route {
    let servers: Vec<_> = servers.iter().map(|(address, is_ready)| (address.to_string(), *is_ready)).collect();
    let servers: Vec<_> = servers.iter().map(|(address, is_ready)| (address.as_str(), "", *is_ready)).collect();
    route(name, &servers)
}

/// A stand-in for an API server: it says its name, gives back what it gets, and says goodbye when the client has ended.
struct Server {
    name: &'static str,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    /// Whom it sees.
    peers: mpsc::UnboundedReceiver<SocketAddr>,
}

impl Server {
    /// Its certificate is for `<name>.example.com`, and nobody else's clients trust it.
    async fn start(name: &'static str) -> Self {
        let own = rcgen::generate_simple_self_signed(vec![format!("{name}.example.com")]).unwrap();
        let certificate = own.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, peers) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let _ = seen.send(peer);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut tls = acceptor.accept(stream).await?;
                    tls.write_all(format!("{name}\n").as_bytes()).await?;
                    let (mut from, mut to) = tokio::io::split(tls);
                    tokio::io::copy(&mut from, &mut to).await?;
                    to.write_all(b"goodbye").await?;
                    to.shutdown().await
                });
            }
        });
        Self { name, address, certificate, peers }
    }

    /// A client that trusts this one alone.
    async fn client(&self, over: TcpStream, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        self.dial(over, name, true).await
    }

    /// A client that trusts this one alone and sends no name, as pods do that dial an address.
    async fn nameless(&self, over: TcpStream) -> TlsStream<TcpStream> {
        self.dial(over, &format!("{}.example.com", self.name), false).await.unwrap()
    }

    async fn dial(&self, over: TcpStream, name: &str, sends_name: bool) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.enable_sni = sends_name;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, over).await
    }

    /// Connected through the gateway, and greeted.
    async fn through(&self, world: &World, name: &str) -> TlsStream<TcpStream> {
        let mut tls = self.client(world.connect().await, &format!("{name}.example.com")).await.unwrap();
        assert_eq!(read(&mut tls, name.len() + 1).await, format!("{name}\n"));
        tls
    }
}

/// So many bytes.
async fn read(from: &mut (impl tokio::io::AsyncRead + Unpin), count: usize) -> String {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// What is said is given back.
async fn works(tls: &mut TlsStream<TcpStream>) {
    tls.write_all(b"still there?").await.unwrap();
    assert_eq!(read(tls, 12).await, "still there?");
}

/// Until it is reset.
async fn is_reset(stream: &mut TcpStream) {
    let read = tokio::time::timeout(SOON, stream.read(&mut [0; 1])).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// A reset below TLS.
async fn is_reset_tls(tls: &mut TlsStream<TcpStream>) {
    let read = tokio::time::timeout(SOON, tls.read(&mut [0; 1])).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}
