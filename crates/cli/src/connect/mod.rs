//! `connect`: a kubeconfig that works from here, for as long as the command runs.
//!
//! The published address is used where it answers from here. Otherwise every connection goes through the meta cluster's API server, to
//! a ready pod of kube-apiserver, as `kubectl port-forward` does.

mod child;
mod forward;

use crate::access::Access;
use crate::args::{Connect, Meta};
use crate::kubeconfig::{self, PrivateFile};
use crate::outcome::Outcome;
use crate::output;
use anyhow::Context as _;
use forward::Forward;
use kube::Client;
use std::error::Error;
use std::time::Duration;

/// How long one try to reach the API may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A kubeconfig whose API answers from here, as long as this lives.
pub(crate) struct Way {
    pub(crate) kubeconfig: String,
    _forward: Option<Forward>,
}

impl Way {
    /// To the `Cluster` whose published kubeconfig that is: directly, or else by a port-forward.
    pub(crate) async fn to(access: &Access, name: &str, published: String) -> anyhow::Result<Self> {
        let who = format!("Cluster {}/{name}", access.namespace);
        let unreachable = match answers(&published).await {
            Ok(server) => {
                output::note(&format!("{who} answers at {server}"));
                return Ok(Self { kubeconfig: published, _forward: None });
            }
            Err(unreachable) => unreachable,
        };
        let (_, _, cluster) = access.read_cluster(name).await?;
        let forward = Forward::to(access, access.control_plane_namespace(&cluster, name)).await?;
        let kubeconfig = redirected(&published, &forward.server())?;
        let server = answers(&kubeconfig).await.with_context(|| {
            format!("{who} does not answer at its address ({unreachable:#}), nor through a port-forward")
        })?;
        output::note(&format!("{who} is forwarded to {server} until this command ends ({unreachable:#})"));
        Ok(Self { kubeconfig, _forward: Some(forward) })
    }
}

/// Writes the kubeconfig, and holds the way open until the command, or the person, has ended.
pub(crate) async fn run(meta: &Meta, args: &Connect) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let Some(text) = kubeconfig::published(&access, &args.name).await? else { return Ok(Outcome::NotYet) };
    let way = Way::to(&access, &args.name, text).await?;
    let file = PrivateFile::new(args.out.as_deref(), &way.kubeconfig)?;
    let outcome = if args.command.is_empty() {
        output::print(&format!("export KUBECONFIG={}\n", file.path().display()))?;
        output::note("run that in another shell. Ctrl-C ends the connection and removes the file");
        child::interrupted().await?;
        Ok(Outcome::Done)
    } else {
        child::run(&args.command, file.path()).await
    };
    drop(way);
    outcome
}

/// The server of that kubeconfig, if its API answers from here with the credentials in it.
async fn answers(text: &str) -> anyhow::Result<String> {
    // Errors of the parser quote what they read, which is secret.
    let mut config = kubeconfig::config(text).await?;
    config.connect_timeout = Some(PATIENCE);
    config.read_timeout = Some(PATIENCE);
    config.default_retry = false;
    let server = config.cluster_url.to_string();
    let server = server.trim_end_matches('/').to_owned();
    let version = async { Client::try_from(config)?.apiserver_version().await };
    let answer = tokio::time::timeout(PATIENCE, version).await;
    let answer = answer.with_context(|| format!("{server}: no answer within {} s", PATIENCE.as_secs()))?;
    answer.map(|_| server.clone()).map_err(|error| anyhow::anyhow!("{server}: {}", cause(&error)))
}

/// What is behind the layers of a client's error.
fn cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), cause)
}

/// The same kubeconfig with another server. Its name is in the API server's certificate of every tenant.
fn redirected(text: &str, server: &str) -> anyhow::Result<String> {
    let mut file = kubeconfig::parsed(text)?;
    file["clusters"][0]["cluster"]["server"] = server.into();
    file["clusters"][0]["cluster"]["tls-server-name"] = "localhost".into();
    output::yaml(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn only_the_way_to_the_server_changes() {
        let before = "clusters:\n- name: acme\n  cluster: {server: 'https://10.96.0.7:6443', certificate-authority-data: Y2E=}\nusers:\n- name: admin\n  user: {client-key-data: a2V5}\n";
        let after: Value = serde_saphyr::from_str(&redirected(before, "https://127.0.0.1:4711").unwrap()).unwrap();
        let cluster = &after["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://127.0.0.1:4711");
        assert_eq!(cluster["tls-server-name"], "localhost");
        assert_eq!(cluster["certificate-authority-data"], "Y2E=");
        assert_eq!(after["users"][0]["user"]["client-key-data"], "a2V5");
    }

    #[tokio::test]
    async fn an_address_where_nobody_listens_is_named() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
             clusters: [{{name: a, cluster: {{server: 'https://{free}'}}}}], users: [{{name: a, user: {{token: x}}}}]}}"
        );
        let why = format!("{:#}", answers(&text).await.unwrap_err());
        assert!(why.contains(&format!("https://{free}")) && !why.contains("token"), "{why}");
    }
}
