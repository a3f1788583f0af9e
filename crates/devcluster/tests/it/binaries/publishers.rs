//! Publishers on loopback: a proxy that answers for every host, with certificates of a CA of its own.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    File(Vec<u8>),
    /// The file's beginning, and an end.
    Cut(Vec<u8>),
    /// In eight pieces, with pauses.
    Slow(Vec<u8>),
    /// To another address.
    Redirect(String),
}

/// What is done with `CONNECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// A page in place of a connection.
    Page,
    /// A connection, and a page where TLS is to be.
    Portal,
    /// Nothing.
    Silent,
}

pub(crate) struct Publishers {
    pub(crate) proxy: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Publishers {
    /// Serves files by address without `https://`; writes its CA into a file.
    pub(crate) fn new(way: Way, files: HashMap<String, Answer>, ca: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = format!("http://user:secret@{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (config, files, log) = (Arc::new(tls(ca)), Arc::new(files), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, config, files, log) = (stream.unwrap(), config.clone(), files.clone(), log.clone());
                // Who asks may end at any time.
                thread::spawn(move || tunnel(stream, way, config, &files, &log));
            }
        });
        Self { proxy, asked }
    }

    /// The addresses that were asked for since the last time; of a connection without a request its host.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn tls(ca: &Path) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    std::fs::write(ca, params.self_signed(&key).unwrap().pem()).unwrap();
    let (issuer, key) = (Issuer::new(params, key), KeyPair::generate().unwrap());
    let hosts = ["dl.k8s.io", "github.com", "get.helm.sh", "objects.example.com"].map(str::to_owned);
    let leaf = CertificateParams::new(hosts).unwrap().signed_by(&key, &issuer).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], private)
        .unwrap()
}

fn tunnel(
    mut stream: TcpStream,
    way: Way,
    config: Arc<ServerConfig>,
    files: &HashMap<String, Answer>,
    asked: &Mutex<Vec<String>>,
) -> Option<()> {
    let (request, headers) = request(&mut BufReader::new(&stream))?;
    let host = request.strip_prefix("CONNECT ")?.split(':').next()?.to_owned();
    assert!(headers.iter().any(|line| line == "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ="), "{headers:?}");
    if way != Way::Open {
        asked.lock().unwrap().push(host);
        if way == Way::Silent {
            // Until whoever asks gives up.
            let _ = std::io::Read::read(&mut stream, &mut [0]);
            return None;
        }
        let status = if way == Way::Page { "403 Forbidden" } else { "200 OK" };
        let page = "<!DOCTYPE html>\n<title>Sign in</title>\n";
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{page}", page.len()).ok()?;
        return Some(());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let (request, _) = self::request(&mut BufReader::new(&mut stream))?;
    let address = format!("{host}{}", request.split(' ').nth(1)?);
    asked.lock().unwrap().push(address.clone());
    let (file, sent, pieces) = match files.get(&address) {
        Some(Answer::File(file)) => (file, file.len(), 1),
        Some(Answer::Cut(file)) => (file, file.len() / 2, 1),
        Some(Answer::Slow(file)) => (file, file.len(), 8),
        Some(Answer::Redirect(to)) => {
            write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").ok()?;
            return stream.flush().ok();
        }
        None => {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok()?;
            return stream.flush().ok();
        }
    };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len()).ok()?;
    for piece in file[..sent].chunks(sent.div_ceil(pieces).max(1)) {
        stream.write_all(piece).ok()?;
        stream.flush().ok()?;
        thread::sleep(Duration::from_millis(if pieces > 1 { 250 } else { 0 }));
    }
    stream.conn.send_close_notify();
    stream.flush().ok()
}

/// The first line, and the others up to the empty one. Nothing behind it is read too early: clients wait for answers.
fn request(stream: &mut impl BufRead) -> Option<(String, Vec<String>)> {
    let mut lines = stream.by_ref().lines().map_while(Result::ok);
    let first = lines.next()?;
    Some((first, lines.take_while(|line| !line.is_empty()).collect()))
}
