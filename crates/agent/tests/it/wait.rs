//! `berth-agent wait` against a TLS server that asks for client certificates, as etcd does.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, server::WebPkiClientVerifier};

/// A server on 127.0.0.1 that answers every request with a status that the test sets.
struct Server {
    port: u16,
    status: Arc<AtomicU16>,
    requests: Arc<AtomicUsize>,
}

/// Writes `ca.crt`, `tls.crt` and `tls.key` into the directory and serves with another certificate of the same CA.
fn serve(dir: &Path, status: u16) -> Server {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let leaf = |name: &str, usage: ExtendedKeyUsagePurpose| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &issuer).unwrap(), key)
    };
    let (client, client_key) = leaf("client", ExtendedKeyUsagePurpose::ClientAuth);
    std::fs::write(dir.join("ca.crt"), ca.pem()).unwrap();
    std::fs::write(dir.join("tls.crt"), client.pem()).unwrap();
    std::fs::write(dir.join("tls.key"), client_key.serialize_pem()).unwrap();

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let (server, server_key) = leaf("localhost", ExtendedKeyUsagePurpose::ServerAuth);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.der().clone()], server_key.serialize_der().try_into().unwrap())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (status, requests) = (Arc::new(AtomicU16::new(status)), Arc::new(AtomicUsize::new(0)));
    let (answer, count) = (status.clone(), requests.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream.unwrap());
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            count.fetch_add(1, Ordering::SeqCst);
            let status = answer.load(Ordering::SeqCst);
            let _ = write!(stream.get_mut(), "HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.get_mut().conn.send_close_notify();
            let _ = stream.get_mut().flush();
        }
    });
    Server { port, status, requests }
}

fn agent(dir: &Path, args: &[String]) -> Child {
    let flag = |name: &str, file: &str| format!("--{name}={}", dir.join(file).display());
    Command::new(env!("CARGO_BIN_EXE_berth-agent"))
        .args(["wait".to_owned(), flag("cacert", "ca.crt"), flag("cert", "tls.crt"), flag("key", "tls.key")])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn url(port: u16) -> String {
    format!("--url=https://localhost:{port}/readyz")
}

/// A port on which nobody listens.
fn closed_port() -> u16 {
    berth_testkit::ports::port()
}

#[test]
fn waits_for_200_with_a_client_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), 503);
    let mut child = agent(dir.path(), &["--any".to_owned(), url(closed_port()), url(server.port)]);
    while server.requests.load(Ordering::SeqCst) < 3 {
        assert_eq!(child.try_wait().unwrap(), None, "503 is not ready");
        thread::sleep(Duration::from_millis(20));
    }
    server.status.store(200, Ordering::SeqCst);
    assert!(child.wait().unwrap().success());
}

#[test]
fn it_becomes_the_command_that_follows() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), 200);
    let command = ["--", "sh", "-c", "echo \"$$ $1\"; exit 7", "sh", "--flag=a b"].map(ToOwned::to_owned);
    let mut child = agent(dir.path(), &[&[url(server.port)], &command[..]].concat());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_eq!(said.lines().last().unwrap(), format!("{} --flag=a b", child.id()));
    let missing = ["--", "no-such-program"].map(ToOwned::to_owned);
    let mut child = agent(dir.path(), &[&[url(server.port)], &missing[..]].concat());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn the_copy_is_whole_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let to = format!("--to={}", dir.path().display());
        let install = Command::new(env!("CARGO_BIN_EXE_berth-agent")).args(["install", &to]).status().unwrap();
        assert!(install.success(), "also where a copy is, as after a restart of the init container");
    }
    let copy = dir.path().join("berth-agent");
    let version = |program: &Path| Command::new(program).arg("--version").output().unwrap().stdout;
    assert_eq!(version(&copy), version(Path::new(env!("CARGO_BIN_EXE_berth-agent"))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn all_means_all_and_sigterm_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), 200);
    let mut child = agent(dir.path(), &[url(server.port), url(closed_port())]);
    // Until it has been asked, and is not asked any more.
    let mut asked = 0;
    loop {
        thread::sleep(Duration::from_millis(600));
        let now = server.requests.load(Ordering::SeqCst);
        if now > 0 && now == asked {
            break;
        }
        assert!(now < 20, "who has answered is asked again");
        asked = now;
    }
    assert_eq!(child.try_wait().unwrap(), None, "one of two is not all");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_foreign_ca_is_not_an_answer() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(dir.path(), 200);
    serve(other.path(), 200);
    let mut child = agent(other.path(), &["--any".to_owned(), url(server.port)]);
    thread::sleep(Duration::from_millis(600));
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_waits_for_the_address_of_an_interface_before_it_asks_anybody() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), 200);
    let there = "--interface=lo=127.0.0.1/8".to_owned();
    let mut child = agent(dir.path(), &[there.clone(), url(server.port)]);
    assert!(child.wait().unwrap().success());
    let asked = server.requests.load(Ordering::SeqCst);
    let missing = "--interface=net99=172.20.0.2/24".to_owned();
    let mut child = agent(dir.path(), &[there, missing, url(server.port)]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.into_iter().find(|line| line.contains("waiting for")).unwrap();
    assert!(said.ends_with("172.20.0.2/24 at interface net99: there is no interface net99"), "{said}");
    assert_eq!(server.requests.load(Ordering::SeqCst), asked, "nobody is asked meanwhile");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
