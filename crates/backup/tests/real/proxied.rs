//! A store that is reached by a proxy alone: by its name, which nobody else knows.

use crate::world::s3_program;
use berth_backup::Problem;
use berth_backup::place::Place;
use berth_backup::proxies::Proxies;
use berth_backup::store::{Deletion, PART, Remote, digest};
use berth_contract::backup::{At, Store, keys};
use berth_testkit::forward::{Forward, ForwardProxy};
use berth_testkit::s3::S3Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const HOST: &str = "store.example.com";

/// TLS before a server, for [`HOST`]; where, and the CA. As long as the process lives.
fn with_tls(to: SocketAddr) -> (SocketAddr, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    let chain = vec![CertificateDer::from(leaf.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut client = acceptor.accept(client).await.ok()?;
                    let mut server = tokio::net::TcpStream::connect(to).await.ok()?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok()
                });
            }
        });
    });
    (address, ca.pem())
}

struct Job {
    dir: TempDir,
    ca: String,
}

impl Job {
    fn new(ca: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            (keys::ACCESS_KEY_ID, S3Server::ACCESS_KEY_ID),
            (keys::SECRET_ACCESS_KEY, S3Server::SECRET_ACCESS_KEY),
            (keys::CA, ca),
        ];
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        Self { dir, ca: ca.to_owned() }
    }

    fn open(&self, endpoint: &str, proxies: Proxies, timeout: u64) -> Result<Box<dyn Remote>, Problem> {
        assert!(!self.ca.is_empty());
        let at = |name: &str| self.dir.path().join(name);
        let place = Place {
            etcd_pki: at("none"),
            credentials: self.dir.path().into(),
            store_timeout: timeout,
            scratch: at("scratch"),
            programs: None,
            volume: None,
            proxies,
        };
        place.open(&Store {
            endpoint: endpoint.into(),
            bucket: S3Server::BUCKET.into(),
            region: "us-east-1".into(),
            path_style: true,
            ..Store::default()
        })
    }

    /// Sends objects in one piece and in parts, reads them back, and deletes one.
    fn works(&self, remote: &dyn Remote, folder: &str) {
        let back = self.dir.path().join("back");
        for (name, size) in [("small", 1000), ("large", PART + 1000)] {
            let (file, key) = (self.dir.path().join(name), format!("{folder}/{name}"));
            fs::write(&file, vec![7; size]).unwrap();
            remote.put_file(&key, &file).unwrap();
            assert_eq!(remote.read_back(&key, 1 << 30, &back).unwrap(), digest(Path::new(&file)).unwrap());
        }
        assert_eq!(remote.list(folder).unwrap().len(), 2);
        assert_eq!(remote.delete(&format!("{folder}/small")).unwrap(), Deletion::Gone);
        assert!(!remote.exists(&format!("{folder}/small")).unwrap());
    }
}

fn by(proxy: &ForwardProxy, without: &str) -> Proxies {
    Proxies::new(&proxy.url(), &proxy.url(), without)
}

#[test]
fn backups_are_kept_and_read_back_by_a_proxy_and_without_it_where_it_is_named() {
    let server = S3Server::start(&s3_program());
    let (tls, ca) = with_tls(server.address());
    let job = Job::new(&ca);
    let (plain, secure) = (format!("http://{HOST}:9080"), format!("https://{HOST}:9443"));
    let proxy = ForwardProxy::start(Forward::To(server.address()));
    job.works(&*job.open(&plain, by(&proxy, ""), 60).unwrap(), "plain");
    let asked = proxy.asked();
    assert!(asked.iter().any(|line| line == &format!("PUT {plain}/bucket/plain/small")), "{asked:?}");
    let proxy = ForwardProxy::start(Forward::To(tls));
    job.works(&*job.open(&secure, by(&proxy, "localhost,.svc,10.0.0.0/8"), 60).unwrap(), "secure");
    let asked = proxy.asked();
    let connect = format!("CONNECT {HOST}:9443");
    assert!(!asked.is_empty() && asked.iter().all(|line| *line == connect), "it sees no content: {asked:?}");

    let before = proxy.asked().len();
    let own = format!("http://{}", server.address());
    job.works(&*job.open(&own, by(&proxy, "127.0.0.0/8"), 60).unwrap(), "own");
    assert_eq!(proxy.asked().len(), before);
}

#[test]
fn a_proxy_that_refuses_or_hangs_is_named() {
    let (_, ca) = with_tls(([127, 0, 0, 1], 1).into());
    let job = Job::new(&ca);
    let endpoint = format!("https://{HOST}:9443");
    for (does, timeout) in [
        (Forward::Refuses("403 Forbidden"), 30),
        (Forward::Refuses("407 Proxy Authentication Required"), 30),
        (Forward::Hangs, 1),
    ] {
        let proxy = ForwardProxy::start(does);
        let remote = job.open(&endpoint, by(&proxy, ""), timeout).unwrap();
        let Problem { failure, lasting, .. } = remote.exists("a.db").unwrap_err();
        let wanted = format!("store {endpoint}, by the proxy {}: cannot look for a.db in bucket bucket: ", proxy.url());
        assert!(failure.message.starts_with(&wanted) && failure.at == At::Store && !lasting, "{failure:?}");
        assert!(!failure.message.contains(S3Server::ACCESS_KEY_ID), "{failure:?}");
        assert!(!proxy.asked().is_empty());
    }
}
