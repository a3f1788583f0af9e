//! Kubeconfigs: written for kubectl, client-go and kube-rs, and read back to decide whether one is still right.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{CertInfo, PkiError, SecretString, inspect_bundle, inspect_pair};

/// A kubeconfig with one cluster, one user and one context, which is the current one. Certificates and key are embedded, so the YAML
/// is a secret.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    /// Name of the cluster entry. The context is called `<user>@<cluster>`.
    pub cluster_name: String,
    /// URL of the API, `https://host:port`.
    pub server: String,
    /// The CA certificates to trust; a bundle during a rotation.
    pub ca_pem: String,
    /// Name of the user entry. Who the user is, is in the certificate.
    pub user: String,
    /// Client certificate.
    pub cert_pem: String,
    /// Its private key.
    pub key_pem: SecretString,
}

impl Kubeconfig {
    /// The YAML text: the same bytes for the same value. All strings are quoted as in JSON, so that no name is taken
    /// for a number, a boolean or syntax.
    pub fn to_yaml(&self) -> String {
        let context = quoted(&format!("{}@{}", self.user, self.cluster_name));
        let (cluster, user, server) = (quoted(&self.cluster_name), quoted(&self.user), quoted(&self.server));
        let (ca, cert) = (STANDARD.encode(&self.ca_pem), STANDARD.encode(&self.cert_pem));
        let key = Zeroizing::new(STANDARD.encode(self.key_pem.expose()));
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate-data: {cert}
    client-key-data: {key}
contexts:
- name: {context}
  context:
    cluster: {cluster}
    user: {user}
current-context: {context}
",
            key = *key
        )
    }
}

/// JSON strings are YAML strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What the current context of a kubeconfig says. Holds nothing private.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KubeconfigInfo {
    /// The client certificate, whose key was checked to belong to it.
    pub client: CertInfo,
    /// URL of the API.
    pub server: String,
    /// Name expected in the server's certificate, if set.
    pub tls_server_name: Option<String>,
    /// SHA-256 of each trusted CA certificate in hexadecimal, sorted.
    pub ca_fingerprints: Vec<String>,
}

/// Reads the current context of a kubeconfig with embedded credentials.
///
/// Fails when a part is missing, refers to a file, or when the key does not belong to the certificate: in all these
/// cases the kubeconfig is to be regenerated.
pub fn parse_kubeconfig_certificate(yaml: &[u8]) -> Result<KubeconfigInfo, PkiError> {
    let current = read_current(yaml)?;
    let mut ca_fingerprints: Vec<_> = inspect_bundle(&current.ca)?.into_iter().map(|c| c.fingerprint_sha256).collect();
    ca_fingerprints.sort_unstable();
    Ok(KubeconfigInfo {
        client: inspect_pair(&current.cert, &current.key)?,
        server: current.server,
        tls_server_name: current.tls_server_name,
        ca_fingerprints,
    })
}

/// The current context of a kubeconfig with embedded credentials, as PEM.
pub(crate) struct Current {
    pub(crate) server: String,
    pub(crate) tls_server_name: Option<String>,
    pub(crate) ca: Zeroizing<Vec<u8>>,
    pub(crate) cert: Zeroizing<Vec<u8>>,
    pub(crate) key: Zeroizing<Vec<u8>>,
}

pub(crate) fn read_current(yaml: &[u8]) -> Result<Current, PkiError> {
    let text = std::str::from_utf8(yaml).map_err(|_| PkiError::kubeconfig("it is not UTF-8"))?;
    // The parser's message quotes the text, which holds a private key.
    let file: File =
        serde_saphyr::from_str(text).map_err(|_| PkiError::kubeconfig("it is not a kubeconfig in YAML"))?;
    let context = find(file.contexts, &file.current_context, "context")?;
    let cluster = find(file.clusters, &context.cluster, "cluster")?;
    let user = find(file.users, &context.user, "user")?;
    Ok(Current {
        ca: embedded(cluster.certificate_authority_data.as_deref(), "certificate-authority-data")?,
        cert: embedded(user.client_certificate_data.as_deref(), "client-certificate-data")?,
        key: embedded(user.client_key_data.as_ref().map(SecretString::expose), "client-key-data")?,
        server: cluster.server,
        tls_server_name: cluster.tls_server_name,
    })
}

fn find<T>(entries: Vec<Named<T>>, name: &str, what: &str) -> Result<T, PkiError> {
    let mut matching = entries.into_iter().filter(|e| e.name == name);
    matching.next().map(|e| e.entry).ok_or_else(|| PkiError::kubeconfig(format!("it has no {what} \"{name}\"")))
}

pub(crate) fn embedded(data: Option<&str>, field: &str) -> Result<Zeroizing<Vec<u8>>, PkiError> {
    let data = data.ok_or_else(|| PkiError::kubeconfig(format!("it has no {field}")))?;
    let decoded = STANDARD.decode(data.trim()).map(Zeroizing::new);
    decoded.map_err(|_| PkiError::kubeconfig(format!("its {field} is not base64")))
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    clusters: Vec<Named<Cluster>>,
    users: Vec<Named<User>>,
    contexts: Vec<Named<Context>>,
    current_context: String,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "user", alias = "context")]
    entry: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    tls_server_name: Option<String>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    client_key_data: Option<SecretString>,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

pub(crate) fn secret<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(input)?.map(SecretString::from))
}
