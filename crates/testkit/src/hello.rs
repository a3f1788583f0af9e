//! What a TLS client begins with.

use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};
use std::sync::Arc;

/// The first bytes of a client with that server name. None: it sends no name.
///
/// # Errors
/// If it is no server name.
pub fn hello(name: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = name.is_some();
    let name = ServerName::try_from(name.unwrap_or("localhost").to_owned())?;
    let mut bytes = vec![];
    ClientConnection::new(Arc::new(config), name)?.write_tls(&mut bytes)?;
    Ok(bytes)
}
