//! The operator's own client certificate: short-lived, in memory only.

use crate::error::TargetError;
use berth_api::names;
use berth_pki::{CertSpec, Clocks, Usage};
use jiff::SignedDuration;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// How long a credential is valid. An etcd at rest is asked with one for a quarter of an hour; then a reconcile makes another.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// What the operator shows to etcd, and what it believes. Cloning is cheap and shares TLS sessions.
#[derive(Clone, Debug)]
pub struct Credential {
    config: Arc<ClientConfig>,
}

impl Credential {
    /// Issues one, signed by the client CA, which is also the CA that the members' certificates are checked against.
    pub fn issue(ca_cert_pem: &[u8], ca_key_pem: &[u8], clocks: impl Into<Clocks>) -> Result<Self, TargetError> {
        let clocks = clocks.into();
        let spec = CertSpec::new(names::OPERATOR_USER, Usage::Client, clocks.covered(LIFETIME));
        let pair = berth_pki::issue(&spec, ca_cert_pem, ca_key_pem, clocks)?;
        let config = config(ca_cert_pem, pair.cert_pem.as_bytes(), pair.key_pem.expose_bytes())?;
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn tls(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

fn config(ca: &[u8], cert: &[u8], key: &[u8]) -> Result<ClientConfig, TargetError> {
    let refused = |e: &dyn std::fmt::Display| TargetError::Tls(e.to_string());
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_slice_iter(ca) {
        roots.add(found.map_err(|e| refused(&e))?).map_err(|e| refused(&e))?;
    }
    let chain = CertificateDer::pem_slice_iter(cert).collect::<Result<Vec<_>, _>>().map_err(|e| refused(&e))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| refused(&e))?;
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| refused(&e))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|e| refused(&e))
}
