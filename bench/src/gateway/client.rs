//! Clients of API servers: a connection, and one call after the other on it.

use anyhow::{Context as _, Result, ensure};
use berth_testkit::ApiServer;
use http::header::{AUTHORIZATION, HOST};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// Where a connection begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) from: Ipv4Addr,
    pub(crate) to: SocketAddr,
}

impl Way {
    pub(crate) async fn connect(self) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((self.from, 0)))?;
        let stream = socket.connect(self.to).await.with_context(|| format!("connect to {}", self.to))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Who calls.
#[derive(Clone)]
pub(crate) struct Caller {
    tls: TlsConnector,
    token: Option<String>,
}

impl Caller {
    /// The admin of an API server.
    pub(crate) fn admin(server: &ApiServer) -> Result<Self> {
        let config = server.config();
        let path = |path: Option<String>| path.context("the admin has no certificate");
        let certificate = CertificateDer::from_pem_file(path(config.auth_info.client_certificate)?)?;
        let key = PrivateKeyDer::from_pem_file(path(config.auth_info.client_key)?)?;
        let config = trusting(&config.root_cert.context("no CA")?[0])?.with_client_auth_cert(vec![certificate], key)?;
        Ok(Self::with(config, None))
    }

    /// Who has that token. `certificate`: the server's own, as PEM.
    pub(crate) fn bearer(certificate: &str, token: &str) -> Result<Self> {
        let config = trusting(&CertificateDer::from_pem_slice(certificate.as_bytes())?)?.with_no_client_auth();
        Ok(Self::with(config, Some(format!("Bearer {token}"))))
    }

    fn with(mut config: ClientConfig, token: Option<String>) -> Self {
        // Each connection is to cost what a first one does.
        config.resumption = Resumption::disabled();
        Self { tls: TlsConnector::from(Arc::new(config)), token }
    }

    /// `name`: the server name that is asked for.
    pub(crate) async fn open(&self, way: Way, name: &str) -> Result<Connection> {
        let stream = self.tls.connect(ServerName::try_from(name.to_owned())?, way.connect().await?).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, token: self.token.clone() })
    }
}

pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    token: Option<String>,
}

impl Connection {
    /// Bytes of the answer.
    pub(crate) async fn get(&mut self, path: &str) -> Result<usize> {
        let mut body = self.begin(path).await?;
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    /// The answer, once it has begun.
    pub(crate) async fn begin(&mut self, path: &str) -> Result<Incoming> {
        self.sender.ready().await?;
        let mut request = http::Request::get(path).header(HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let answer = self.sender.send_request(request.body(Empty::new())?).await?;
        ensure!(answer.status() == 200, "{path}: {}", answer.status());
        Ok(answer.into_body())
    }
}

type Builder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn trusting(root: &[u8]) -> Result<Builder> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root.to_vec()))?;
    let verifier = Local(WebPkiServerVerifier::builder(Arc::new(roots)).build()?);
    Ok(ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Whatever name is asked for, the certificate is one for `localhost`: API servers here serve tenants of several names.
#[derive(Debug)]
struct Local(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Local {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let name = ServerName::try_from("localhost").map_err(|_| Error::General("localhost".to_owned()))?;
        self.0.verify_server_cert(end_entity, intermediates, &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
