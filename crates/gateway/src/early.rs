//! Whether an API server of a tenant that wakes answers already. Its pod's probes say so up to two seconds later, and a client bears nine.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::tenant::Tenant;

/// Between two questions.
const EACH: Duration = Duration::from_millis(100);

/// For one.
const WITHIN: Duration = Duration::from_secs(1);

/// Without the hook of the roles, which waits a second before it looks: they are in etcd since the tenant's first start.
const QUESTION: &[u8] = b"GET /readyz?exclude=poststarthook/rbac/bootstrap-roles HTTP/1.1\r\n\
    Host: kube-apiserver\r\nUser-Agent: berth-gateway\r\nConnection: close\r\n\r\n";

/// For ever: finds API servers that are not listed as ready and are. One of those that wait looks for all of them.
pub(crate) async fn look(tenant: &Tenant) -> Infallible {
    let _one = tenant.looks.lock().await;
    loop {
        for address in tenant.starting() {
            if is_ready(address).await {
                tenant.answers_early(address);
            }
        }
        sleep(EACH).await;
    }
}

async fn is_ready(address: SocketAddr) -> bool {
    matches!(timeout(WITHIN, ask(address)).await, Ok(Ok(true)))
}

async fn ask(address: SocketAddr) -> io::Result<bool> {
    let stream = TcpStream::connect(address).await?;
    let mut tls = CONNECTOR.connect(ServerName::IpAddress(address.ip().into()), stream).await?;
    tls.write_all(QUESTION).await?;
    let mut answer = [0; 12];
    tls.read_exact(&mut answer).await?;
    Ok(&answer == b"HTTP/1.1 200")
}

static CONNECTOR: LazyLock<TlsConnector> = LazyLock::new(|| {
    let anybody = Anybody(ring::default_provider().signature_verification_algorithms);
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS);
    #[expect(clippy::expect_used, reason = "the provider has both versions")]
    let builder = builder.expect("versions of TLS");
    Arc::new(builder.dangerous().with_custom_certificate_verifier(Arc::new(anybody)).with_no_client_auth()).into()
});

/// Whoever answers: it gets what the client sends, as it would a moment later, and the client knows its API server by itself.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
