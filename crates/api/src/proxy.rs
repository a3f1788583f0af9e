//! `spec.proxy`, and the chart's value `tenants.proxy`: the way out of a network from which the Internet is reached by a proxy alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::net::IpAddr;

/// A proxy for connections to the outside: kube-apiserver's to issuers (`apiServer.authentication.jwt`) and to webhooks by URL. What is the
/// tenant's own is never reached by it: Berth adds that to what `noProxy` says.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.http) || !self.http.contains('@')", "message": format!("proxy.http: {OF_A_USER}")},
    {"rule": "!has(self.https) || !self.https.contains('@')", "message": format!("proxy.https: {OF_A_USER}")},
    {"rule": format!("!has(self.http) || self.http.contains('@') || self.http.matches('{URL}')"), "message": format!("proxy.http: {NO_URL}")},
    {"rule": format!("!has(self.https) || self.https.contains('@') || self.https.matches('{URL}')"), "message": format!("proxy.https: {NO_URL}")},
    {"rule": format!("!has(self.noProxy) || self.noProxy.all(e, e.matches('{NAME}') || isIP(e) || isCIDR(e))"), "message": format!("proxy.noProxy: each {NO_ENTRY}")},
    {"rule": "!has(self.noProxy) || self.noProxy.size() == 0 || has(self.http) || has(self.https)", "message": format!("proxy.noProxy: {ALONE}")}
])))]
pub struct Proxy {
    /// Proxy for `http` URLs: `http://` or `https://`, a host and a port, such as `http://proxy.example.com:3128`. No path, no user, no password.
    /// Default: none.
    #[schemars(length(min = 8, max = 300))]
    pub http: Option<String>,
    /// Proxy for `https` URLs, by `CONNECT`; in the same form. An `https://` proxy needs a certificate by a CA with which the target itself is
    /// verified, such as the webhook's `caBundle`. Default: none.
    #[schemars(length(min = 8, max = 300))]
    pub https: Option<String>,
    /// What is reached without the proxy beside what Berth adds: a host (with all below it), a domain such as `.example.com`, an IP address, or
    /// a network in CIDR form. Addresses and networks count for URLs that have an address, not for names. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub no_proxy: Vec<String>,
}

/// A URL as a rule of CEL has it.
const URL: &str = r"^https?://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$";
/// A host or a domain, as a rule of CEL has it.
const NAME: &str = r"^[.]?[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$";

const OF_A_USER: &str = "a user or password in the URL is shown to whoever reads this object, its pods and its releases: remove it. Have the proxy let in the control planes by their addresses, or run one that logs in beside it";
const NO_URL: &str = "must be http:// or https://, a host, and a port, such as http://proxy.example.com:3128, without a path, a query or a fragment";
const NO_ENTRY: &str = "must be a host, a domain such as .example.com, an IP address, or a network in CIDR form such as 10.0.0.0/8, without spaces, commas, ports and *";
const ALONE: &str = "it counts beside proxy.http or proxy.https: set one, or remove it";

/// Most entries of `noProxy`, and how long one is.
const MOST: usize = 64;
const LONGEST: usize = 253;
const LONGEST_URL: usize = 300;

impl Proxy {
    /// Whether nothing is to go by a proxy.
    pub fn is_none(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// What is wrong with it: the field below it, and why. No text of a URL with a user is repeated.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        for (field, url) in [("http", &self.http), ("https", &self.https)] {
            let Some(url) = url else { continue };
            if url.contains('@') {
                return Some((field, OF_A_USER.to_owned()));
            }
            if url.len() > LONGEST_URL || parts(url).is_none() {
                return Some((field, NO_URL.to_owned()));
            }
        }
        if let Some(entry) = self.no_proxy.iter().find(|entry| !is_entry(entry)) {
            return Some(("noProxy", format!("{entry:?}: {NO_ENTRY}")));
        }
        if self.no_proxy.len() > MOST {
            return Some(("noProxy", format!("it has more than {MOST} entries: name networks or domains")));
        }
        (self.is_none() && !self.no_proxy.is_empty()).then(|| ("noProxy", ALONE.to_owned()))
    }

    /// Host and port of each proxy, nothing twice.
    pub fn servers(&self) -> Vec<(&str, u16)> {
        let mut all: Vec<_> = [&self.http, &self.https].into_iter().flatten().filter_map(|url| parts(url)).collect();
        all.dedup();
        all
    }

    /// For an annotation.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The variables by which programs know it: `own` is what they reach without, before what `noProxy` says. Nothing without a proxy.
    pub fn variables(&self, own: &[String]) -> Vec<(&'static str, String)> {
        if self.is_none() {
            return vec![];
        }
        let mut without: Vec<&str> = vec![];
        for entry in own.iter().chain(&self.no_proxy).map(String::as_str) {
            if !without.contains(&entry) {
                without.push(entry);
            }
        }
        let urls = [(HTTP_PROXY, &self.http), (HTTPS_PROXY, &self.https)];
        let urls = urls.into_iter().filter_map(|(name, url)| Some((name, url.clone()?)));
        urls.chain([(NO_PROXY, without.join(","))]).collect()
    }
}

/// Proxy for `http` URLs.
pub const HTTP_PROXY: &str = "HTTP_PROXY";
/// Proxy for `https` URLs.
pub const HTTPS_PROXY: &str = "HTTPS_PROXY";
/// What is reached without.
pub const NO_PROXY: &str = "NO_PROXY";

/// What no pod of Berth's reaches by a proxy, wherever it runs: itself, and Services by their names.
pub const ALWAYS: [&str; 5] = ["localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local"];

/// Host, without brackets, and port of the URL of a proxy. None: it has another form.
fn parts(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let standard = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        address.parse::<std::net::Ipv6Addr>().ok()?;
        (address, after)
    } else {
        let (host, port) = rest.find(':').map_or((rest, ""), |at| rest.split_at(at));
        if !is_name(host) {
            return None;
        }
        (host, port)
    };
    let port = match port.strip_prefix(':') {
        Some(port) if port.bytes().all(|c| c.is_ascii_digit()) => port.parse().ok().filter(|port| *port > 0)?,
        None if port.is_empty() => standard,
        _ => return None,
    };
    Some((host, port))
}

fn is_entry(entry: &str) -> bool {
    let is_network = || {
        let (address, length) = entry.split_once('/')?;
        let most = if address.parse::<IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
        length.parse::<u8>().ok().filter(|length| *length <= most)
    };
    let is_host = is_name(entry.strip_prefix('.').unwrap_or(entry));
    entry.len() <= LONGEST && (is_host || entry.parse::<IpAddr>().is_ok() || is_network().is_some())
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(https: &str, no_proxy: &[&str]) -> Proxy {
        let https = (!https.is_empty()).then(|| https.to_owned());
        Proxy { http: None, https, no_proxy: no_proxy.iter().map(|&entry| entry.to_owned()).collect() }
    }

    #[test]
    fn a_url_is_a_scheme_a_host_and_a_port() {
        for (url, server) in [
            ("http://proxy:3128", ("proxy", 3128)),
            ("https://proxy.example.com", ("proxy.example.com", 443)),
            ("http://192.0.2.7", ("192.0.2.7", 80)),
            ("http://[2001:db8::7]:8080", ("2001:db8::7", 8080)),
        ] {
            assert_eq!((of(url, &[]).problem(), of(url, &[]).servers()), (None, vec![server]), "{url}");
        }
        for url in [
            "proxy:3128",
            "socks5://proxy:1080",
            "http://",
            "http://proxy:",
            "http://proxy:0",
            "http://proxy:65536",
            "http://proxy:+80",
            "http://proxy:3128/",
            "http://proxy/path",
            "http://proxy?x",
            "http://proxy#x",
            "http://pro xy",
            "http://[proxy]",
            "http://[::1]x",
            "http://proxy\n",
            "HTTP://proxy",
        ] {
            assert_eq!(of(url, &[]).problem(), Some(("https", NO_URL.to_owned())), "{url}");
        }
        let (field, why) = of("http://user:planted-7@proxy:3128", &[]).problem().unwrap();
        assert!(field == "https" && why == OF_A_USER && !why.contains("planted-7"));
        let http = Proxy { http: Some("ftp://x".to_owned()), ..Proxy::default() };
        assert_eq!(http.problem().unwrap().0, "http");
    }

    #[test]
    fn an_entry_is_a_host_a_domain_an_address_or_a_network() {
        let url = "http://proxy";
        for good in
            ["a", "a.example.com", ".example.com", "192.0.2.7", "10.0.0.0/8", "2001:db8::/32", "::1", "10.1.2.3/8"]
        {
            assert_eq!(of(url, &[good]).problem(), None, "{good}");
        }
        for bad in
            ["", "*", "*.example.com", "a b", "a,b", "a:80", "10.0.0.0/33", "::/129", "-a", "a..b", ".", "http://a"]
        {
            let (field, why) = of(url, &[bad]).problem().unwrap();
            assert!(field == "noProxy" && why == format!("{bad:?}: {NO_ENTRY}"), "{bad}: {why}");
        }
        assert_eq!(of("", &["a"]).problem(), Some(("noProxy", ALONE.to_owned())));
        assert_eq!(of("", &[]).problem(), None, "nothing by a proxy");
        assert!(of(url, &["a"; 65]).problem().unwrap().1.contains("more than 64"));
    }

    #[test]
    fn variables_name_each_entry_once_and_nothing_without_a_proxy() {
        let own = ["localhost".to_owned(), ".svc".to_owned()];
        assert_eq!(of("", &[]).variables(&own), []);
        let all = of("http://proxy:3128", &[".svc", ".example.com"]).variables(&own);
        let wanted = [("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "localhost,.svc,.example.com")];
        assert_eq!(all, wanted.map(|(name, value)| (name, value.to_owned())));
    }
}
