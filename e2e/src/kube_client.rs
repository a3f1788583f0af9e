//! A blocking client that speaks in paths and JSON: what a test says is what goes over the wire.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Method, Request};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Path of a collection of the core group: `core("team-a", "pods")`; without a namespace `core("", "nodes")`.
pub fn core(namespace: &str, plural: &str) -> String {
    path("/api/v1", namespace, plural)
}

/// Path of a collection of the group `apps`.
pub fn apps(namespace: &str, plural: &str) -> String {
    path("/apis/apps/v1", namespace, plural)
}

/// Path of a collection of Berth's group.
pub fn berth(namespace: &str, plural: &str) -> String {
    path("/apis/berth.dev/v1alpha1", namespace, plural)
}

/// Path of a collection of any group.
pub fn path(api: &str, namespace: &str, plural: &str) -> String {
    if namespace.is_empty() { format!("{api}/{plural}") } else { format!("{api}/namespaces/{namespace}/{plural}") }
}

/// Access to one API server.
#[derive(Clone)]
pub struct Kube {
    client: Client,
    runtime: Arc<Runtime>,
}

impl std::fmt::Debug for Kube {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kube")
    }
}

impl Kube {
    /// Access as a kubeconfig gives it.
    pub fn new(kubeconfig: &str) -> Result<Self> {
        Self::from(Kubeconfig::from_yaml(kubeconfig)?)
    }

    /// The cluster of one kubeconfig with the user of another.
    pub fn with_user_of(cluster: &str, user: &str) -> Result<Self> {
        let mut kubeconfig = Kubeconfig::from_yaml(cluster)?;
        let user = Kubeconfig::from_yaml(user)?.auth_infos.remove(0).auth_info;
        kubeconfig.auth_infos[0].auth_info = user;
        Self::from(kubeconfig)
    }

    /// The cluster and user of one kubeconfig with the CA of another.
    pub fn trusting(kubeconfig: &str, ca: &str) -> Result<Self> {
        let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        let ca = Kubeconfig::from_yaml(ca)?.clusters.remove(0).cluster.and_then(|c| c.certificate_authority_data);
        if let Some(cluster) = &mut kubeconfig.clusters[0].cluster {
            cluster.certificate_authority_data = ca;
        }
        Self::from(kubeconfig)
    }

    /// The cluster of a kubeconfig with a token.
    pub fn with_token(kubeconfig: &str, token: &str) -> Result<Self> {
        let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        kubeconfig.auth_infos[0].auth_info =
            Some(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() });
        Self::from(kubeconfig)
    }

    /// Access as a kubeconfig gives it. A call that an API server refuses for now (429, 503, 504) is not made again.
    pub fn without_retries(kubeconfig: &str) -> Result<Self> {
        Self::connect(Kubeconfig::from_yaml(kubeconfig)?, false)
    }

    fn from(kubeconfig: Kubeconfig) -> Result<Self> {
        Self::connect(kubeconfig, true)
    }

    fn connect(kubeconfig: Kubeconfig, retries: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(async {
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            config.connect_timeout = Some(Duration::from_secs(5));
            config.read_timeout = Some(Duration::from_secs(20));
            config.default_retry = retries;
            Ok::<_, anyhow::Error>(Client::try_from(config)?)
        })?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// One call. The status of a refusal is in the error: see [`status_of`].
    pub fn call(&self, method: &Method, path: &str, content: &str, body: Option<&Value>) -> Result<Value> {
        let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, content);
        }
        let request = request.body(bytes)?;
        let what = || format!("{method} {path}");
        self.runtime.block_on(self.client.request::<Value>(request)).with_context(what)
    }

    /// The object at a path, or None.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.call(&Method::GET, path, "", None) {
            Ok(value) => Ok(Some(value)),
            Err(e) if status_of(&e) == Some(404) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The object at a path.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.find(path)?.ok_or_else(|| anyhow!("{path} is not there"))
    }

    /// The items of a collection.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut answer = self.call(&Method::GET, path, "", None)?;
        Ok(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Creates an object in a collection.
    pub fn create(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(&Method::POST, path, "application/json", Some(body))
    }

    /// Creates an object unless one of its name is there.
    pub fn ensure(&self, path: &str, body: &Value) -> Result<()> {
        match self.create(path, body) {
            Err(e) if status_of(&e) != Some(409) => Err(e),
            _ => Ok(()),
        }
    }

    /// Merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.call(&Method::PATCH, path, "application/merge-patch+json", Some(patch))
    }

    /// Delete; gone already is fine.
    pub fn delete(&self, path: &str) -> Result<()> {
        match self.call(&Method::DELETE, path, "", None) {
            Err(e) if status_of(&e) != Some(404) => Err(e),
            _ => Ok(()),
        }
    }
}

/// The HTTP status with which an API server refused a call.
pub fn status_of(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The certificate in a kubeconfig, as PEM.
pub fn certificate_of(kubeconfig: &str) -> Result<Option<Vec<u8>>> {
    let user = Kubeconfig::from_yaml(kubeconfig)?.auth_infos.remove(0).auth_info;
    user.and_then(|u| u.client_certificate_data).map(|data| STANDARD.decode(data).context("base64")).transpose()
}

/// The address of the API server in a kubeconfig.
pub fn server(kubeconfig: &str) -> String {
    let line = kubeconfig.lines().find_map(|l| l.trim().strip_prefix("server: ")).unwrap_or_default();
    line.trim_matches('"').to_owned()
}

/// A kubeconfig whose client knows the API server by another name or address than that at which it connects.
pub fn under_name(kubeconfig: &str, name: &str) -> Result<String> {
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let cluster = kubeconfig.clusters.first_mut().and_then(|c| c.cluster.as_mut()).context("no cluster")?;
    cluster.tls_server_name = Some(name.to_owned());
    // JSON is YAML.
    Ok(serde_json::to_string(&kubeconfig)?)
}

/// Host, and port, of the API server in a kubeconfig, whose host is a name.
fn host_and_port(kubeconfig: &str) -> (String, String) {
    let server = server(kubeconfig);
    let server = server.trim_start_matches("https://");
    let (host, port) = server.split_once(':').unwrap_or((server, "443"));
    (host.to_owned(), port.to_owned())
}

/// The name of the API server in a kubeconfig.
pub fn host(kubeconfig: &str) -> String {
    host_and_port(kubeconfig).0
}

/// A kubeconfig for where DNS does not know the name in it, which leads to that address.
pub fn through(kubeconfig: &str, address: &str) -> Result<String> {
    let (host, port) = host_and_port(kubeconfig);
    under_name(&at(kubeconfig, &format!("https://{address}:{port}"))?, &host)
}

/// A kubeconfig whose client connects at another address.
pub fn at(kubeconfig: &str, server: &str) -> Result<String> {
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let cluster = kubeconfig.clusters.first_mut().and_then(|c| c.cluster.as_mut()).context("no cluster")?;
    cluster.server = Some(server.to_owned());
    Ok(serde_json::to_string(&kubeconfig)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_changes_nothing_else() {
        let before = concat!(
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], ",
            "clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443', certificate-authority-data: Y2E=}}], ",
            "users: [{name: u, user: {client-certificate-data: Y3J0, client-key-data: a2V5}}]}"
        );
        let after = under_name(before, "acme.example").unwrap();
        let all = |text: &str| serde_json::to_value(Kubeconfig::from_yaml(text).unwrap()).unwrap();
        let mut expected = all(before);
        expected["clusters"][0]["cluster"]["tls-server-name"] = "acme.example".into();
        assert_eq!(all(&after), expected);
        assert_eq!(all(&after)["users"][0]["user"]["client-key-data"], "a2V5");
    }
}
