//! Two programs that know each other by certificates which each publishes where only it may write. Keys are made when a program starts, and never leave
//! its memory.

use anyhow::{Context as _, Result};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;

/// Who a program is, for as long as it runs.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("pem", &self.pem).finish_non_exhaustive()
    }
}

impl Identity {
    /// A new one. `name`: by which the other end asks for it.
    ///
    /// # Errors
    /// If the name is no DNS name, or the system has no random bytes.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new([name.to_owned()]).context("name of a certificate")?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().context("make a key")?;
        let certificate = params.self_signed(&key).context("make a certificate")?;
        let pem = certificate.pem();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(Self { certificate: certificate.der().clone(), key, pem })
    }

    /// What is published: the certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// For taking connections of the one who has published that certificate, and of nobody else.
    ///
    /// # Errors
    /// If that is no certificate.
    pub fn server(&self, other: &str) -> Result<ServerConfig> {
        let verifier = WebPkiClientVerifier::builder(Arc::new(alone(other)?)).build()?;
        let builder = ServerConfig::builder_with_protocol_versions(&[&TLS13]).with_client_cert_verifier(verifier);
        Ok(builder.with_single_cert(vec![self.certificate.clone()], self.key())?)
    }

    /// For dialling the one who has published that certificate, and nobody else.
    ///
    /// # Errors
    /// If that is no certificate.
    pub fn client(&self, other: &str) -> Result<ClientConfig> {
        let builder = ClientConfig::builder_with_protocol_versions(&[&TLS13]).with_root_certificates(alone(other)?);
        Ok(builder.with_client_auth_cert(vec![self.certificate.clone()], self.key())?)
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.clone_key())
    }
}

/// That certificate and no other is trusted.
fn alone(pem: &str) -> Result<RootCertStore> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).context("a published certificate")?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).context("a published certificate")?;
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConnection, ServerConnection};

    /// Whether two of them come to speak.
    fn speak(server: ServerConfig, client: ClientConfig, name: &'static str) -> bool {
        let mut client = ClientConnection::new(Arc::new(client), name.try_into().unwrap()).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        for _ in 0..8 {
            let mut sent = vec![];
            while client.wants_write() {
                client.write_tls(&mut sent).unwrap();
            }
            let mut bytes = &*sent;
            while !bytes.is_empty() {
                server.read_tls(&mut bytes).unwrap();
                if server.process_new_packets().is_err() {
                    return false;
                }
            }
            let mut sent = vec![];
            while server.wants_write() {
                server.write_tls(&mut sent).unwrap();
            }
            let mut bytes = &*sent;
            while !bytes.is_empty() {
                client.read_tls(&mut bytes).unwrap();
                if client.process_new_packets().is_err() {
                    return false;
                }
            }
        }
        !client.is_handshaking() && !server.is_handshaking()
    }

    #[test]
    fn each_takes_the_other_and_nobody_else() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let [operator, access, stranger] =
            ["berth-operator", "berth-access", "berth-access"].map(|name| Identity::new(name).unwrap());
        let server = |trusts: &Identity| access.server(trusts.pem()).unwrap();
        let client = |is: &Identity, trusts: &Identity| is.client(trusts.pem()).unwrap();
        assert!(speak(server(&operator), client(&operator, &access), "berth-access"));
        assert!(!speak(server(&operator), client(&stranger, &access), "berth-access"), "who is not published");
        assert!(!speak(server(&operator), client(&operator, &stranger), "berth-access"), "a server of the same name");
        assert!(!speak(server(&operator), client(&operator, &access), "berth-other"), "another name");
        assert!(access.server("").is_err() && access.client("-----BEGIN CERTIFICATE-----").is_err());
        assert!(!format!("{access:?}").contains("PRIVATE"));
    }
}
