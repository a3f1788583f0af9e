//! The client of a store: it speaks to the endpoint, and to nobody to whom that sends it.

use crate::proxies::ProxyServer;
use crate::s3::answer::{Answer, Last};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::{Error, Result};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
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
    last: Last,
    proxy: Option<ProxyServer>,
}

impl Direct {
    /// `ca`: certificates in PEM; without any, no TLS is spoken. A request may take as long as `timeout`. `last` learns of each answer.
    pub(crate) fn new(ca: Option<&str>, timeout: Duration, last: Last) -> reqwest::Result<Self> {
        let roots = ca.map(|pem| Certificate::from_pem_bundle(pem.as_bytes())).transpose()?;
        Ok(Self { roots, timeout, last, proxy: None })
    }

    /// All requests go by this proxy: to a server with TLS by `CONNECT`, so that it is the server whose certificate counts.
    pub(crate) fn by(self, proxy: Option<ProxyServer>) -> Self {
        Self { proxy, ..self }
    }
}

impl HttpConnector for Direct {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient> {
        let failed = |e: reqwest::Error| Error::Generic { store: "S3", source: e.into() };
        let proxy = self.proxy.as_ref().map(ProxyServer::for_client).transpose().map_err(failed)?;
        // It has been decided already; the library would ask the environment once more.
        let client = ClientBuilder::new().no_proxy();
        let client = proxy.into_iter().fold(client, ClientBuilder::proxy);
        let client = client
            .redirect(Policy::custom(|attempt| {
                let status = attempt.status().as_u16();
                attempt.error(Redirects(status))
            }))
            .timeout(self.timeout)
            .connect_timeout(Duration::from_secs(10))
            // Of what is asked for, not of the proxy.
            .https_only(self.roots.is_some())
            .tls_certs_only(self.roots.clone().unwrap_or_default())
            .build();
        let client = client.map_err(failed)?;
        Ok(HttpClient::new(Listening { client, last: self.last.clone() }))
    }
}

/// A client that keeps what was answered last: the library tells little of it.
#[derive(Debug)]
struct Listening {
    client: Client,
    last: Last,
}

impl HttpService for Listening {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            self.last.set(None);
            let response = self.client.call(request).await?;
            let mut answer = Answer::of(&response);
            if response.status().is_success() {
                self.last.set(Some(answer));
                return Ok(response);
            }
            let (parts, body) = response.into_parts();
            let body = body.bytes().await?;
            answer.read(&String::from_utf8_lossy(&body));
            self.last.set(Some(answer));
            Ok(HttpResponse::from_parts(parts, body.into()))
        })
    }
}
