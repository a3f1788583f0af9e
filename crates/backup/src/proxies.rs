//! The proxy by which a store is reached, as the Job's environment names it: one decision for a store, since nothing but its endpoint is dialled.

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use std::sync::Arc;

/// Proxies by kind of URL, and what is reached without.
#[derive(Clone, Debug)]
pub struct Proxies(Arc<Matcher>);

impl Default for Proxies {
    fn default() -> Self {
        Self(Arc::new(Matcher::builder().build()))
    }
}

impl Proxies {
    /// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in capitals or not. Berth sets them from the chart's value; admission may have set others.
    pub fn from_env() -> Self {
        Self(Arc::new(Matcher::from_env()))
    }

    /// What these variables say.
    pub fn new(http: &str, https: &str, without: &str) -> Self {
        Self(Arc::new(Matcher::builder().http(http).https(https).no(without).build()))
    }

    /// That of a server. None: it is reached without.
    pub(crate) fn of(&self, endpoint: &str) -> Option<ProxyServer> {
        self.0.intercept(&endpoint.parse().ok()?).map(ProxyServer)
    }
}

/// A proxy.
#[derive(Clone, Debug)]
pub(crate) struct ProxyServer(Intercept);

impl ProxyServer {
    /// Its URL, without user and password, if admission gave it such.
    pub(crate) fn url(&self) -> String {
        self.0.uri().to_string().trim_end_matches('/').to_owned()
    }

    /// For the client of one server: all that it asks goes by this proxy.
    pub(crate) fn for_client(&self) -> reqwest::Result<reqwest::Proxy> {
        let proxy = reqwest::Proxy::all(self.url())?;
        Ok(match self.0.basic_auth() {
            Some(header) => proxy.custom_http_auth(header.clone()),
            None => proxy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_goes_by_the_proxy_of_its_scheme_unless_it_is_named() {
        let all = Proxies::new("http://plain:3128", "http://user:planted-7@tls:3128", ".svc,10.0.0.0/8,s3.example.com");
        for (endpoint, wanted) in [
            ("http://store.example.com:9000", Some("http://plain:3128")),
            ("https://store.example.com", Some("http://tls:3128")),
            ("https://192.0.2.7:9000", Some("http://tls:3128")),
            ("https://bucket.s3.example.com", None),
            ("https://minio.minio.svc:9000", None),
            ("https://10.1.2.3:9000", None),
        ] {
            let of = all.of(endpoint);
            assert_eq!(of.as_ref().map(ProxyServer::url).as_deref(), wanted, "{endpoint}");
            assert!(!format!("{of:?}{all:?}").contains("planted-7"));
        }
        assert!(Proxies::default().of("https://store.example.com").is_none());
    }
}
