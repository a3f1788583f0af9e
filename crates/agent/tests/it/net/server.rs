//! An HTTPS server at the pod's own loopback, in place of an API server.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::namespace::Namespace;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Answers 200.
    Serves,
    /// Answers 500, as one that shuts down.
    Drains,
    /// Answers 403, as to a tenant that forbids anonymous requests.
    Forbids,
    /// Takes connections and answers nothing, as one that was sent SIGSTOP.
    Hangs,
}

pub(crate) struct Server {
    mode: Arc<AtomicU8>,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(namespace: &Namespace) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["other".to_owned()]).unwrap().self_signed(&key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
            .unwrap();
        let config = Arc::new(config);
        let listener = namespace.enter(|| TcpListener::bind("127.0.0.1:6443").unwrap());
        let server = Self { mode: Arc::default(), connections: Arc::default(), requests: Arc::default() };
        let (mode, connections, requests) = (server.mode.clone(), server.connections.clone(), server.requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (config, mode, requests) = (config.clone(), mode.clone(), requests.clone());
                thread::spawn(move || answer(config, stream, &mode, &requests));
            }
        });
        server
    }

    pub(crate) fn is(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// Connections so far, and requests.
    pub(crate) fn counts(&self) -> [usize; 2] {
        [&self.connections, &self.requests].map(|count| count.load(Ordering::SeqCst))
    }
}

fn answer(config: Arc<ServerConfig>, stream: TcpStream, mode: &AtomicU8, requests: &AtomicUsize) {
    let waits = || {
        while mode.load(Ordering::SeqCst) == Mode::Hangs as u8 {
            thread::sleep(Duration::from_millis(10));
        }
    };
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).unwrap(), stream));
    loop {
        waits();
        let mut request = String::new();
        loop {
            let before = request.len();
            match stream.read_line(&mut request) {
                Ok(0) | Err(_) => return,
                Ok(_) if &request[before..] == "\r\n" => break,
                Ok(_) => {}
            }
        }
        assert!(request.starts_with("GET /readyz?exclude=etcd&exclude=etcd-readiness HTTP/1.1\r\n"), "{request}");
        requests.fetch_add(1, Ordering::SeqCst);
        waits();
        let status = match mode.load(Ordering::SeqCst) {
            mode if mode == Mode::Drains as u8 => "500 Internal Server Error",
            mode if mode == Mode::Forbids as u8 => "403 Forbidden",
            _ => "200 OK",
        };
        let _ = write!(stream.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
        let _ = stream.get_mut().flush();
    }
}
