//! Callers.

use crate::platform::Platform;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What came back.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

pub(crate) fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    roots
}

async fn dial(config: ClientConfig, port: u16, name: &'static str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name).unwrap(), stream).await.unwrap()
}

/// With that token, or none, and these headers.
pub(crate) async fn call(p: &Platform, token: &str, method: Method, path: &str, headers: &[(&str, &str)]) -> Said {
    let response = send(p, token, method, path, headers).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Said { code, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }
}

/// The same, whose body is still to come.
pub(crate) async fn send(
    p: &Platform,
    token: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> http::Response<Incoming> {
    let config = ClientConfig::builder().with_root_certificates(roots(&p.access.ca)).with_no_client_auth();
    let stream = dial(config, p.access.port, "localhost").await;
    let mut all = vec![];
    if !token.is_empty() {
        all.push((AUTHORIZATION, format!("Bearer {token}")));
    }
    all.extend(headers.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), (*value).to_owned())));
    request(stream, method, path, &all).await
}

async fn request(
    stream: TlsStream<TcpStream>,
    method: Method,
    path: &str,
    headers: &[(HeaderName, String)],
) -> http::Response<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
    for (name, value) in headers {
        request = request.header(name, HeaderValue::from_str(value).unwrap());
    }
    sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap()
}

/// Straight to the tenant with a certificate and these headers, as somebody would who stole it.
pub(crate) async fn steal(p: &Platform, certificate: &str, key: &str, headers: &[(&str, &str)]) -> u16 {
    let mut tenant = RootCertStore::empty();
    tenant.add(CertificateDer::from(p.tenant.config().root_cert.unwrap()[0].clone())).unwrap();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config =
        ClientConfig::builder().with_root_certificates(tenant).with_client_auth_cert(vec![certificate], key).unwrap();
    let port = p.tenant.url().rsplit(':').next().unwrap().parse().unwrap();
    let stream = dial(config, port, "127.0.0.1").await;
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.parse().unwrap(), (*value).to_owned())).collect();
    request(stream, Method::GET, "/api/v1/namespaces", &headers).await.status().as_u16()
}

/// Bytes as they are; what comes back until the end, or for a moment.
pub(crate) async fn raw(p: &Platform, bytes: &str) -> String {
    let config = ClientConfig::builder().with_root_certificates(roots(&p.access.ca)).with_no_client_auth();
    let mut stream = dial(config, p.access.port, "localhost").await;
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = vec![];
    let read = async {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut some).await {
            answer.extend_from_slice(&some[..count]);
        }
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), read).await;
    String::from_utf8_lossy(&answer).into_owned()
}
