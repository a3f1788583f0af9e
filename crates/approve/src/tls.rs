//! TLS to the API server: its certificate tells what is the API's, and ours is read for each connection, since both are renewed while
//! this runs.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Where the CA's certificate and the client's own are, each as PEM.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Files {
    /// Certificate of the CA that signed the API server's.
    #[arg(long)]
    cacert: PathBuf,
    /// Client certificate; read again for each connection.
    #[arg(long)]
    cert: PathBuf,
    /// Its key; likewise.
    #[arg(long)]
    key: PathBuf,
}

/// The names in a server's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// DNS names, in lower case.
    pub(crate) dns: Vec<String>,
    /// IP addresses.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Names in the certificate that the server showed last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Names>>);

impl Seen {
    pub(crate) fn names(&self) -> Names {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The configuration, and where the server's names are to be found after each handshake.
pub(crate) fn config(files: Files) -> Result<(ClientConfig, Seen)> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(&files.cacert).with_context(|| files.cacert.display().to_string())?
    {
        roots.add(certificate?)?;
    }
    ensure!(!roots.is_empty(), "{} holds no certificate", files.cacert.display());
    let seen = Seen::default();
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let verifier = Verifier { inner, seen: seen.clone() };
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(Own { files, provider }));
    // A resumed session shows no certificate.
    config.resumption = rustls::client::Resumption::disabled();
    Ok((config, seen))
}

/// Verifies as usual, and remembers the names of what is valid.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    seen: Seen,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)?;
        let names = names(end_entity).ok_or(rustls::CertificateError::BadEncoding)?;
        *self.seen.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The alternative names of a certificate. None: they cannot be read.
fn names(der: &[u8]) -> Option<Names> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let extension = certificate.subject_alternative_name().ok()??;
    let mut names = Names::default();
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.dns.push(name.to_ascii_lowercase()),
            GeneralName::IPAddress(bytes) => names.addresses.push(crate::request::address(bytes)?),
            _ => {}
        }
    }
    Some(names)
}

/// The client's own certificate.
struct Own {
    files: Files,
    provider: Arc<CryptoProvider>,
}

impl Own {
    fn read(&self) -> Result<CertifiedKey> {
        let Files { cert, key, .. } = &self.files;
        let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<_, _>>);
        let chain = chain.with_context(|| cert.display().to_string())?;
        let key = PrivateKeyDer::from_pem_file(key).with_context(|| key.display().to_string())?;
        Ok(CertifiedKey::from_der(chain, key, &self.provider)?)
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match self.read() {
            Ok(key) => Some(Arc::new(key)),
            // Without it the API server says who may not do what.
            Err(error) => {
                eprintln!("berth-approve: client certificate: {error:#}");
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("files", &self.files).finish_non_exhaustive()
    }
}
