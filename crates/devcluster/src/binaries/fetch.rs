//! Files from addresses and folders: always an end, and a reason when it is no good one.

use std::{
    cell::OnceCell,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use http::{StatusCode, Uri, header};
use ureq::{
    Agent, Body, Error, Proxy, Timeout,
    http::Response,
    tls::{Certificate, RootCerts, TlsConfig},
};

use super::{
    proxy,
    sources::Base,
    sums::{Summing, start},
};

/// Of a list of sums; the longest is some ten kilobytes.
const LONGEST_LIST: u64 = 1 << 20;
const REDIRECTS: usize = 5;

/// How long what may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Until there is a connection, with TLS and through a proxy.
    pub connect: Duration,
    /// Without a byte.
    pub silence: Duration,
    /// One file.
    pub whole: Duration,
    /// The longest file, in bytes.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let [connect, silence, whole] = [5, 20, 3600].map(Duration::from_secs);
        Self { connect, silence, whole, bytes: 2 << 30 }
    }
}

/// Why something could not be had.
#[derive(Debug)]
pub(super) enum Failure {
    /// There was no connection: another address would only cost time.
    Unreachable(String),
    /// What came is not what was wanted.
    Wrong(String),
    /// This machine: disk, rights.
    Local(anyhow::Error),
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreachable(why) | Failure::Wrong(why) => anyhow!(why),
            Failure::Local(e) => e,
        }
    }
}

/// Asks addresses, each through the proxy that the environment names for it.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub limits: Limits,
    roots: OnceCell<Arc<Vec<Certificate<'static>>>>,
}

impl Client {
    /// The text of a list of sums.
    pub(super) fn list(&self, url: &str) -> Result<String, Failure> {
        self.text(self.get(url)?.0, url)
    }

    fn text(&self, from: impl Read, place: &str) -> Result<String, Failure> {
        let mut text = Vec::new();
        self.copy(from, &mut text, LONGEST_LIST, None, place, "memory")?;
        String::from_utf8(text).map_err(|_| Failure::Wrong(format!("{place} is no text")))
    }

    /// Writes a file; gives its sum. `expects` hears how many bytes the server promises, if it does.
    pub(super) fn file(&self, url: &str, to: &Path, expects: impl FnOnce(Option<u64>)) -> Result<String, Failure> {
        let (body, length) = self.get(url)?;
        expects(length);
        self.write(body, to, length, url)
    }

    /// Copies a file of a folder; gives its sum.
    pub(super) fn of_base(
        &self,
        base: &Base,
        path: &str,
        to: &Path,
        expects: impl FnOnce(Option<u64>),
    ) -> Result<String, Failure> {
        let place = base.place(path);
        match base {
            Base::Url(_) => self.file(&place, to, expects),
            Base::Folder(_) => {
                let (file, length) = open(&place)?;
                expects(Some(length));
                self.write(file, to, Some(length), &place)
            }
        }
    }

    /// The list of sums of a base.
    pub(super) fn list_of_base(&self, base: &Base, path: &str) -> Result<String, Failure> {
        let place = base.place(path);
        match base {
            Base::Url(_) => self.list(&place),
            Base::Folder(_) => self.text(open(&place)?.0, &place),
        }
    }

    fn write(&self, from: impl Read, to: &Path, length: Option<u64>, place: &str) -> Result<String, Failure> {
        let shown = to.display().to_string();
        let cannot = |e: io::Error| Failure::Local(anyhow::Error::new(e).context(format!("cannot write {shown}")));
        let mut file = Summing::new(File::create(to).map_err(cannot)?);
        self.copy(from, &mut file, self.limits.bytes, length, place, &shown)?;
        let (file, sum) = file.finish();
        // A file that has its name is complete, also after a power cut.
        file.sync_all().map_err(cannot)?;
        Ok(sum)
    }

    fn copy(
        &self,
        mut from: impl Read,
        to: &mut impl Write,
        longest: u64,
        length: Option<u64>,
        place: &str,
        shown: &str,
    ) -> Result<(), Failure> {
        let (start, mut buffer, mut done) = (Instant::now(), vec![0; 1 << 16], 0);
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Failure::Wrong(self.cut(place, done, length, e))),
            };
            done += count as u64;
            to.write_all(&buffer[..count]).with_context(|| format!("cannot write {shown}")).map_err(Failure::Local)?;
            if done > longest {
                return Err(Failure::Wrong(format!("{place} does not end: more than {longest} bytes came")));
            }
            if start.elapsed() > self.limits.whole {
                let seconds = self.limits.whole.as_secs();
                return Err(Failure::Wrong(format!("{place} is too slow: {done} bytes came in {seconds} s")));
            }
        }
        match length {
            Some(length) if length != done => {
                Err(Failure::Wrong(format!("{place} is cut: {done} of {length} bytes came")))
            }
            _ => Ok(()),
        }
    }

    fn cut(&self, place: &str, done: u64, length: Option<u64>, e: io::Error) -> String {
        let of = length.map(|length| format!(" of {length}")).unwrap_or_default();
        match Error::from(e) {
            Error::Timeout(_) => {
                format!("{place} stalls: after {done}{of} bytes none came for {} s", self.limits.silence.as_secs_f32())
            }
            e => format!("{place} is cut: {done}{of} bytes came ({e})"),
        }
    }

    /// Follows redirects itself, since each may need another proxy.
    fn get(&self, url: &str) -> Result<(impl Read + use<>, Option<u64>), Failure> {
        let mut uri: Uri = url.parse().map_err(|_| Failure::Wrong(format!("{url} is no address")))?;
        let secure = uri.scheme_str() == Some("https");
        for _ in 0..=REDIRECTS {
            let response = self.ask(&uri)?;
            let status = response.status();
            if status == StatusCode::OK {
                let body = response.into_body();
                let length = body.content_length();
                return Ok((body.into_reader(), length));
            }
            if !status.is_redirection() {
                return Err(Failure::Wrong(format!("{url} answers {status}")));
            }
            let next = location(&uri, &response);
            uri = next.ok_or_else(|| Failure::Wrong(format!("{url} answers {status}, and leads nowhere")))?;
            if secure && uri.scheme_str() != Some("https") {
                return Err(Failure::Wrong(format!("{url} leads to an address without TLS")));
            }
        }
        Err(Failure::Wrong(format!("{url} leads to another address more than {REDIRECTS} times")))
    }

    fn ask(&self, uri: &Uri) -> Result<Response<Body>, Failure> {
        let proxy = proxy::choose(uri, |name| std::env::var(name).ok());
        let host = uri.host().unwrap_or_default();
        let parsed = proxy.as_deref().map(Proxy::new).transpose().map_err(|_| {
            Failure::Unreachable(format!(
                "the proxy for {host} is no address: see HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
            ))
        })?;
        // Without its password.
        let through = parsed.as_ref().map(|proxy| format!(" through the proxy {}:{}", proxy.host(), proxy.port()));
        let mut config = Agent::config_builder()
            .proxy(parsed)
            .timeout_resolve(Some(self.limits.connect))
            .timeout_connect(Some(self.limits.connect))
            .timeout_recv_response(Some(self.limits.silence))
            .timeout_per_read(Some(self.limits.silence))
            .timeout_per_write(Some(self.limits.silence))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("devcluster/", env!("CARGO_PKG_VERSION")));
        if uri.scheme_str() == Some("https") {
            config = config.tls_config(TlsConfig::builder().root_certs(RootCerts::Specific(self.roots()?)).build());
        }
        let agent = Agent::new_with_config(config.build());
        agent.get(uri).call().map_err(|e| self.unanswered(uri, through.as_deref().unwrap_or_default(), e))
    }

    /// The system's certificate authorities, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    fn roots(&self) -> Result<Arc<Vec<Certificate<'static>>>, Failure> {
        if let Some(roots) = self.roots.get() {
            return Ok(roots.clone());
        }
        // Fails only if there is a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let found = rustls_native_certs::load_native_certs().certs;
        if found.is_empty() {
            let way = "install the package ca-certificates, or name a file with SSL_CERT_FILE";
            return Err(Failure::Unreachable(format!("no certificate authority is known: {way}")));
        }
        let roots = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        Ok(self.roots.get_or_init(|| Arc::new(roots)).clone())
    }

    /// No answer: there was no connection, or nothing useful came over it.
    fn unanswered(&self, uri: &Uri, through: &str, e: Error) -> Failure {
        let host = uri.authority().map_or_else(String::new, ToString::to_string);
        let seconds = |limit: Duration| limit.as_secs_f32();
        match e {
            Error::Timeout(Timeout::Resolve | Timeout::Connect) => Failure::Unreachable(format!(
                "{host}{through}: no connection within {} s",
                seconds(self.limits.connect)
            )),
            Error::Timeout(_) => {
                Failure::Wrong(format!("{uri}{through}: no answer within {} s", seconds(self.limits.silence)))
            }
            Error::Io(e) if matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                Failure::Wrong(format!("{uri}{through}: the connection ended without an answer"))
            }
            e @ (Error::Http(_) | Error::Protocol(_) | Error::LargeResponseHeader(..) | Error::BadUri(_)) => {
                Failure::Wrong(format!("{uri}{through}: the answer is not HTTP ({e})"))
            }
            e => Failure::Unreachable(format!("{host}{through}: no connection ({})", start(&e.to_string()))),
        }
    }
}

/// A file of a folder, and its length. A pipe or a device may have no end.
fn open(place: &str) -> Result<(File, u64), Failure> {
    let opened = std::fs::metadata(place)
        .and_then(|meta| if meta.is_file() { Ok(meta.len()) } else { Err(io::Error::other("it is no file")) })
        .and_then(|length| Ok((File::open(place)?, length)));
    opened.map_err(|e| Failure::Wrong(format!("{place} cannot be read: {e}")))
}

/// Where a redirect leads: an address, or a path on the same host.
fn location(from: &Uri, response: &Response<Body>) -> Option<Uri> {
    let to = response.headers().get(header::LOCATION)?.to_str().ok()?;
    let (scheme, authority) = (from.scheme_str()?, from.authority()?);
    let absolute = match to {
        _ if to.starts_with("//") => format!("{scheme}:{to}"),
        _ if to.starts_with('/') => format!("{scheme}://{authority}{to}"),
        _ => to.to_owned(),
    };
    let uri: Uri = absolute.parse().ok()?;
    matches!(uri.scheme_str(), Some("http" | "https")).then_some(uri)
}

#[cfg(test)]
mod tests;
