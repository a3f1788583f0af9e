//! The part of a kubeconfig that this plugin needs: the current context's server and credentials.

use std::{fs, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

use crate::error::{Code, Error, Result};

/// Where the API server is, and who asks.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// `https://<address>:<port>`.
    pub(crate) server: String,
    /// The CA's certificate, PEM.
    pub(crate) ca: Vec<u8>,
    /// Certificate and key, PEM.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    clusters: Vec<Named>,
    #[serde(default)]
    users: Vec<Named>,
    #[serde(default)]
    contexts: Vec<Named>,
    #[serde(default)]
    current_context: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    cluster: Cluster,
    #[serde(default)]
    user: User,
    #[serde(default)]
    context: Context,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct User {
    #[serde(rename = "client-certificate")]
    certificate: Option<String>,
    #[serde(rename = "client-certificate-data")]
    certificate_data: Option<String>,
    #[serde(rename = "client-key")]
    key: Option<String>,
    #[serde(rename = "client-key-data")]
    key_data: Option<String>,
    token: Option<String>,
    token_file: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

/// Reads a kubeconfig and the files that it names.
pub(crate) fn read(path: &Path) -> Result<Access> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(format!("kubeconfig {}", path.display()), e))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let file = |name: &str| fs::read(directory.join(name)).map_err(|e| format!("{name}: {e}"));
    parse(&text, &file).map_err(|message| Error::new(Code::Config, format!("kubeconfig {}: {message}", path.display())))
}

type ReadFile<'a> = &'a dyn Fn(&str) -> std::result::Result<Vec<u8>, String>;

fn parse(text: &str, file: ReadFile<'_>) -> std::result::Result<Access, String> {
    let config: File = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    let find = |list: Vec<Named>, what: &str, name: &str| {
        list.into_iter().find(|one| one.name == name).ok_or_else(|| format!("there is no {what} `{name}`"))
    };
    let context = find(config.contexts, "context", &config.current_context)?.context;
    let cluster = find(config.clusters, "cluster", &context.cluster)?.cluster;
    let user = find(config.users, "user", &context.user)?.user;
    let content = |data: Option<String>, path: Option<String>| match (data, path) {
        (Some(data), _) => BASE64_STANDARD.decode(data.trim()).map(Some).map_err(|e| e.to_string()),
        (None, Some(path)) => file(&path).map(Some),
        (None, None) => Ok(None),
    };
    let certificate = content(user.certificate_data, user.certificate)?;
    let key = content(user.key_data, user.key)?;
    let token = match (user.token, user.token_file) {
        (Some(token), _) => Some(token),
        (None, Some(path)) => Some(String::from_utf8_lossy(&file(&path)?).trim().to_owned()),
        (None, None) => None,
    };
    Ok(Access {
        server: cluster.server.trim_end_matches('/').to_owned(),
        ca: content(cluster.certificate_authority_data, cluster.certificate_authority)?
            .ok_or("the cluster's CA is missing")?,
        client: certificate.zip(key),
        token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
apiVersion: v1
kind: Config
clusters:
- {name: other, cluster: {server: 'https://192.0.2.1'}}
- {name: meta, cluster: {server: 'https://10.0.0.1:6443/', certificate-authority-data: Y2E=}}
users:
- {name: cni, user: {client-certificate-data: Y2VydA==, client-key: key.pem}}
- {name: pod, user: {tokenFile: token}}
contexts:
- {name: one, context: {cluster: meta, user: cni}}
- {name: two, context: {cluster: meta, user: pod}}
- {name: no-ca, context: {cluster: other, user: cni}}
";

    fn parsed(context: &str) -> std::result::Result<Access, String> {
        let file = |name: &str| match name {
            "key.pem" => Ok(b"key".to_vec()),
            "token" => Ok(b"secret\n".to_vec()),
            other => Err(format!("{other}: no such file")),
        };
        parse(&format!("{CONFIG}current-context: {context}\n"), &file)
    }

    #[test]
    fn the_current_context_gives_server_and_credentials() {
        let access = parsed("one").unwrap();
        assert_eq!((&*access.server, &*access.ca), ("https://10.0.0.1:6443", &b"ca"[..]));
        assert_eq!(access.client, Some((b"cert".to_vec(), b"key".to_vec())));
        let access = parsed("two").unwrap();
        assert_eq!((access.client, access.token.as_deref()), (None, Some("secret")));
        assert_eq!(parsed("no-ca").err().unwrap(), "the cluster's CA is missing");
        assert_eq!(parsed("three").err().unwrap(), "there is no context `three`");
    }
}
