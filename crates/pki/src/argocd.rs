//! The JSON by which Argo CD connects to a cluster, made from a kubeconfig and read back to decide whether it is still right.
//! <https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::kubeconfig::{embedded, read_current};
use crate::{KubeconfigInfo, PkiError, SecretString, inspect_bundle, inspect_pair};

/// What Argo CD is told of a cluster, beside names.
#[derive(Debug, Clone)]
pub struct ArgoCdCluster {
    /// URL of the API.
    pub server: String,
    /// The key `config` of its Secret, as JSON.
    pub config: SecretString,
}

/// What a kubeconfig with embedded credentials says, as Argo CD reads it: the same CA, certificate and key.
pub fn argocd_cluster(kubeconfig: &[u8]) -> Result<ArgoCdCluster, PkiError> {
    let current = read_current(kubeconfig)?;
    let (ca, cert, key) = (encoded(&current.ca), encoded(&current.cert), encoded(&current.key));
    // Nothing of base64 is syntax of JSON. The spaces have each part of it begin at a third byte, where base64 begins anew: so the chart's admission
    // policy, which cannot decode base64, says by a pattern what it may be (charts/berth/files/argocd-config.regex).
    let config = format!(
        r#"{{"tlsClientConfig":{{"caData":"{ca}", "certData":"{cert}",  "keyData":"{key}"}}}}"#,
        ca = *ca,
        cert = *cert,
        key = *key
    );
    Ok(ArgoCdCluster { server: current.server, config: config.into() })
}

/// In base64 whose length is a multiple of three: PEM ends with any number of line ends.
fn encoded(pem: &[u8]) -> Zeroizing<String> {
    const LENGTH: usize = 9;
    let mut padded = Zeroizing::new(Vec::with_capacity(pem.len() + LENGTH));
    padded.extend_from_slice(pem);
    padded.resize(pem.len().next_multiple_of(LENGTH), b'\n');
    Zeroizing::new(STANDARD.encode(&*padded))
}

/// Reads what Argo CD is told. Whatever else is in it, such as another way to authenticate, is an error: it is to be written again.
pub fn parse_argocd_cluster(server: &str, config: &[u8]) -> Result<KubeconfigInfo, PkiError> {
    // The parser's message may quote the text, which holds a private key.
    let Config { tls_client_config: tls } = serde_json::from_slice(config)
        .map_err(|_| PkiError::kubeconfig("it is not what Berth tells Argo CD of a cluster"))?;
    if tls.insecure {
        return Err(PkiError::kubeconfig("it does not ask for the server's certificate"));
    }
    let ca = embedded(tls.ca_data.as_deref(), "caData")?;
    let cert = embedded(tls.cert_data.as_deref(), "certData")?;
    let key = embedded(tls.key_data.as_ref().map(SecretString::expose), "keyData")?;
    let mut ca_fingerprints: Vec<_> = inspect_bundle(&ca)?.into_iter().map(|c| c.fingerprint_sha256).collect();
    ca_fingerprints.sort_unstable();
    Ok(KubeconfigInfo {
        client: inspect_pair(&cert, &key)?,
        server: server.to_owned(),
        tls_server_name: None,
        ca_fingerprints,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    tls_client_config: Tls,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tls {
    ca_data: Option<String>,
    cert_data: Option<String>,
    #[serde(default, deserialize_with = "crate::kubeconfig::secret")]
    key_data: Option<SecretString>,
    #[serde(default)]
    insecure: bool,
}
