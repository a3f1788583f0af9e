//! The client of a store: it speaks to the endpoint, and to nobody to whom that sends it.

use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use object_store::{Error, Result};
use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder};
use std::fmt;
use std::time::Duration;

/// A server that sends on to another. Where to is its own word, and not repeated.
#[derive(Debug)]
pub(crate) struct Redirects(pub(crate) u16);

impl fmt::Display for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(status) = self;
        write!(
            f,
            "it redirects to another address ({status}), and Berth follows none. Set endpoint, region and pathStyle of the store so that this server answers by itself"
        )
    }
}

impl std::error::Error for Redirects {}

/// Makes clients that follow no redirect. The library's own follow ten of them, also to hosts that nobody has allowed.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    /// What a server's certificate is issued by. None: `http` alone.
    roots: Option<Vec<Certificate>>,
    timeout: Duration,
}

impl Direct {
    /// `ca`: certificates in PEM; without any, no TLS is spoken. A request may take as long as `timeout`.
    pub(crate) fn new(ca: Option<&str>, timeout: Duration) -> reqwest::Result<Self> {
        let roots = ca.map(|pem| Certificate::from_pem_bundle(pem.as_bytes())).transpose()?;
        Ok(Self { roots, timeout })
    }
}

impl HttpConnector for Direct {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient> {
        let client = ClientBuilder::new()
            .redirect(Policy::custom(|attempt| {
                let status = attempt.status().as_u16();
                attempt.error(Redirects(status))
            }))
            .timeout(self.timeout)
            .connect_timeout(Duration::from_secs(10))
            .https_only(self.roots.is_some())
            .tls_certs_only(self.roots.clone().unwrap_or_default())
            .build();
        client.map(HttpClient::new).map_err(|e| Error::Generic { store: "S3", source: e.into() })
    }
}
