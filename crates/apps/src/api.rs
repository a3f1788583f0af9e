//! The tenant's API, as far as it is not left to Helm: for a look for drift, and for what Helm has recorded.

use crate::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_contract::apps::At;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// By this name Helm owns fields (`kube.ManagedFieldsManager` in its `main`).
const MANAGER: &str = "helm";
/// Of one request. Admission may take 30 seconds for each webhook.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How often an API server that does not answer is asked.
const TRIES: u32 = 5;
/// The largest answer, in bytes.
const LARGEST: u64 = 16 << 20;

/// The tenant's API.
#[derive(Debug)]
pub(crate) struct Api {
    agent: Agent,
    server: String,
}

/// What it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// An object.
    Is(Value),
    /// It is not there.
    Missing,
    /// It refuses, and says why.
    Refused(String),
}

/// A kubeconfig as Berth writes it: of one tenant.
#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<Named>,
    users: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    cluster: Cluster,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[expect(clippy::struct_field_names, reason = "as kubeconfigs have them")]
struct User {
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
}

impl Api {
    /// By a kubeconfig.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(crate) fn new(path: &Path) -> Result<Self, Problem> {
        let text = std::fs::read_to_string(path).map_err(|e| Problem::file(path, &e))?;
        Self::from_text(&text).map_err(|why| Problem::lasting(At::Other, format!("the tenant's kubeconfig: {why}")))
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let config: Kubeconfig = serde_saphyr::from_str(text).map_err(|_| "it is no YAML of one")?;
        let cluster = config.clusters.into_iter().next().ok_or("it has no cluster")?.cluster;
        let user = config.users.into_iter().next().ok_or("it has no user")?.user;
        let decoded = |data: &str| STANDARD.decode(data.trim()).map_err(|_| "it is no base64".to_owned());
        let pem = |data: &str, path: &str| match path {
            "" => decoded(data),
            path => std::fs::read(path).map_err(|error| format!("its file {path}: {error}")),
        };
        let ca = decoded(&cluster.certificate_authority_data)?;
        let cas: Vec<Certificate<'static>> = parse_pem(&ca)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        let (certificate, key) = (
            pem(&user.client_certificate_data, &user.client_certificate)?,
            pem(&user.client_key_data, &user.client_key)?,
        );
        let certificate = Certificate::from_pem(&certificate).map_err(|_| "its certificate is no PEM".to_owned())?;
        let key = PrivateKey::from_pem(&key).map_err(|_| "its key is no PEM".to_owned())?;
        // Fails only if there is a provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(cas)))
            .client_cert(Some(ClientCert::new_with_certs(&[certificate], key)))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // That of the environment leads to registries.
            .proxy(None)
            .timeout_global(Some(TIMEOUT))
            .build();
        let server = cluster.server.trim_end_matches('/').to_owned();
        Ok(Self { agent: Agent::new_with_config(config), server })
    }

    /// Reads what is at a path.
    ///
    /// # Errors
    ///
    /// The API does not answer.
    pub(crate) fn get(&self, path: &str) -> Result<Answer, Problem> {
        let url = format!("{}{path}", self.server);
        patiently(|| read(self.agent.get(&url).header("Accept", "application/json").call()))
    }

    /// Applies an object as Helm does, over whoever owns its fields. `dry`: nothing is changed, and the answer is as if it were.
    ///
    /// # Errors
    ///
    /// The API does not answer.
    pub(crate) fn apply(&self, path: &str, object: &Value, dry: bool) -> Result<Answer, Problem> {
        let dry = if dry { "&dryRun=All" } else { "" };
        let url = format!("{}{path}?fieldManager={MANAGER}&force=true{dry}", self.server);
        let body = object.to_string();
        patiently(|| {
            let request = self.agent.patch(&url).header("Accept", "application/json");
            read(request.header("Content-Type", "application/apply-patch+yaml").send(&body))
        })
    }

    /// Changes fields of an object. It names the version that it is for, so it changes no other.
    ///
    /// # Errors
    ///
    /// The API does not answer.
    pub(crate) fn merge(&self, path: &str, change: &Value) -> Result<Answer, Problem> {
        let (url, body) = (format!("{}{path}", self.server), change.to_string());
        patiently(|| {
            let request = self.agent.patch(&url).header("Accept", "application/json");
            read(request.header("Content-Type", "application/merge-patch+json").send(&body))
        })
    }

    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// The API does not answer.
    pub(crate) fn delete(&self, path: &str) -> Result<Answer, Problem> {
        let url = format!("{}{path}", self.server);
        patiently(|| read(self.agent.delete(&url).header("Accept", "application/json").call()))
    }
}

/// A segment of a path, or a value of a query: names of RBAC may have colons, and those of no kind have slashes.
pub(crate) fn escaped(segment: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    segment.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Asks again while nobody answers.
fn patiently(ask: impl Fn() -> Result<Answer, String>) -> Result<Answer, Problem> {
    let mut tries = 0;
    loop {
        tries += 1;
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(_) if tries < TRIES => thread::sleep(Duration::from_secs(1 << tries)),
            Err(why) => return Err(Problem::brief(At::Tenant, format!("the tenant's API: {why}"))),
        }
    }
}

/// Err: nobody has decided anything, so it may be asked again.
fn read(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, String> {
    let mut answer = answer.map_err(|e| e.to_string())?;
    let code = answer.status().as_u16();
    let text = answer.body_mut().with_config().limit(LARGEST).read_to_string().map_err(|e| e.to_string())?;
    said(code, &text)
}

fn said(code: u16, text: &str) -> Result<Answer, String> {
    let object: Value = serde_json::from_str(text).unwrap_or_default();
    // A path that is not there gets a page and no Status.
    let why = || format!("it says {code}: {}", object["message"].as_str().unwrap_or(text.trim()));
    match code {
        200..=299 => Ok(Answer::Is(object)),
        404 => Ok(Answer::Missing),
        // It does not know this user, which is none of the object's.
        401 | 429 | 502..=599 => Err(why()),
        _ => Ok(Answer::Refused(why())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_object_none_a_refusal_or_no_answer() {
        let status = r#"{"kind": "Status", "message": "admission webhook \"x\" does not support dry run"}"#;
        assert!(matches!(said(200, "{}"), Ok(Answer::Is(_))));
        assert_eq!(said(404, "404 page not found"), Ok(Answer::Missing));
        let refused = said(400, status).unwrap();
        assert_eq!(refused, Answer::Refused("it says 400: admission webhook \"x\" does not support dry run".into()));
        for code in [401, 429, 503, 504] {
            assert!(said(code, status).is_err(), "{code}");
        }
    }

    #[test]
    fn a_kubeconfig_that_is_none_is_told_without_what_is_in_it() {
        for text in
            ["no: [yaml", "clusters: []\nusers: []\n", "clusters: [{cluster: {server: a}}]\nusers: [{user: {}}]"]
        {
            let why = Api::from_text(text).unwrap_err();
            assert!(why.starts_with("it"), "{why}");
        }
    }
}
