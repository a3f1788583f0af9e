//! `join-command`: what a machine runs to become a node of a tenant.

use crate::access::Access;
use crate::args::{JoinCommand, Meta};
use crate::connect::Way;
use crate::outcome::Outcome;
use crate::{kubeconfig, output};
use anyhow::{Context as _, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{Calls, Io};
use berth_pki::BootstrapToken;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Patience with one call into the tenant.
const DEADLINE: Duration = Duration::from_secs(20);

/// The group that the RBAC objects of kubeadm give rights to.
const NODES: &str = "system:bootstrappers:kubeadm:default-node-token";

/// Creates a bootstrap token in the tenant, with nothing but the published kubeconfig, and prints the command that uses it.
pub(crate) async fn run(meta: &Meta, args: &JoinCommand) -> anyhow::Result<Outcome> {
    let access = Access::to_read(meta).await?;
    let Some(published) = kubeconfig::published(&access, &args.name).await? else { return Ok(Outcome::NotYet) };
    let (_, ca) = server_and_ca(&published)?;
    let way = Way::to(&access, &args.name, published).await?;
    let config = kubeconfig::config(&way.kubeconfig).await?;
    let client = FencedClient::connect(config, Fence::open()).context("the tenant's kubeconfig")?;
    let tenant = Io::new(client, Arc::new(Calls::default()), DEADLINE);

    let info = ObjectKey::namespaced(Kind::ConfigMap, "kube-public", "cluster-info");
    let Some(found) = tenant.get(&info).await? else {
        bail!(
            "{info} does not exist in the tenant, so nodes could not join. See: kubectl berth status {} -n {}",
            args.name,
            access.namespace
        );
    };
    // Nodes may reach the API elsewhere than people do: in the tenant's VPC.
    let server = server(&found).with_context(|| {
        format!("{info} in the tenant names no server as https://host:port, so no command is printed")
    })?;
    let token = BootstrapToken::generate()?;
    let until = Timestamp::now() + args.ttl;
    let (key, secret) = secret(&token, until);
    tenant.create(&key, &secret, "kubectl-berth").await?;
    output::note(&format!(
        "any machine can join with it until {until:.0}. To end it sooner, delete {key} in the tenant"
    ));
    output::print(&format!(
        "kubeadm join {server} --token {} --discovery-token-ca-cert-hash sha256:{ca}\n",
        token.expose()
    ))?;
    drop(way);
    Ok(Outcome::Done)
}

/// `host:port` for nodes, from the ConfigMap `cluster-info`.
fn server(info: &Value) -> Option<String> {
    let file = kubeconfig::parsed(info["data"]["kubeconfig"].as_str()?).ok()?;
    let server = file["clusters"][0]["cluster"]["server"].as_str()?.strip_prefix("https://")?;
    is_authority(server).then(|| server.to_owned())
}

/// Whether it is an address or a name, with a port, and nothing else: the tenant's administrators write it, and a root shell reads it.
fn is_authority(text: &str) -> bool {
    if text.parse::<SocketAddr>().is_ok_and(|at| at.port() > 0) {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_port && host.len() <= 253 && host.split('.').all(is_label)
}

/// `host:port`, and the digest of the CA's public key as kubeadm counts it.
fn server_and_ca(kubeconfig: &str) -> anyhow::Result<(String, String)> {
    let file = kubeconfig::parsed(kubeconfig)?;
    let cluster = &file["clusters"][0]["cluster"];
    let server = cluster["server"].as_str().and_then(|server| server.strip_prefix("https://"));
    let pem = cluster["certificate-authority-data"].as_str().and_then(|data| STANDARD.decode(data).ok());
    let (server, pem) = server.zip(pem).context("the published kubeconfig has no server or no CA")?;
    Ok((server.to_owned(), berth_pki::inspect(&pem)?.public_key_sha256))
}

/// The Secret that kube-apiserver authenticates the token by.
fn secret(token: &BootstrapToken, until: Timestamp) -> (ObjectKey, Value) {
    let key = ObjectKey::namespaced(Kind::Secret, "kube-system", format!("bootstrap-token-{}", token.id()));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "stringData": {
            "token-id": token.id(),
            "token-secret": token.secret(),
            "expiration": format!("{until:.0}"),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": NODES,
            "description": "made by kubectl berth join-command",
        },
    });
    (key, secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_what_kubernetes_documents() {
        let token = BootstrapToken::generate().unwrap();
        let until: Timestamp = "2026-11-23T10:00:00.5Z".parse().unwrap();
        let (key, secret) = secret(&token, until);
        assert_eq!(key.name, format!("bootstrap-token-{}", token.id()));
        assert_eq!(secret["stringData"]["expiration"], "2026-11-23T10:00:00Z");
        assert_eq!(
            token.expose(),
            format!("{}.{}", token.id(), secret["stringData"]["token-secret"].as_str().unwrap())
        );
    }

    #[test]
    fn nodes_are_sent_where_cluster_info_says() {
        let info = |url: &str| {
            let file = format!("apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster: {{server: '{url}'}}\n");
            server(&json!({"data": {"kubeconfig": file}}))
        };
        assert_eq!(info("https://172.20.0.2:6443").as_deref(), Some("172.20.0.2:6443"));
        assert_eq!(info("http://172.20.0.2:6443"), None);
        for good in ["[fd00::1]:6443", "acme.example.com:6443", "ACME-1:443"] {
            assert_eq!(info(&format!("https://{good}")).as_deref(), Some(good));
        }
    }

    #[test]
    fn nothing_of_a_tenants_text_but_an_address_reaches_a_root_shell() {
        let inserts = [
            ";id>/tmp/owned;",
            "$(id)",
            "`id`",
            "|id",
            "&&id",
            " --config=x",
            "'",
            "\"",
            "\u{1b}[8m",
            "\u{9b}1A",
            "\n",
            "\r\n",
            "\0",
        ];
        let long = "a".repeat(1 << 20);
        for text in inserts.into_iter().chain([&*long]) {
            for at in [
                format!("192.0.2.1:6443{text}"),
                format!("192.0.2.1{text}:6443"),
                format!("{text}192.0.2.1:6443"),
                format!("acme.example.com{text}:6443"),
                format!("{text}:6443"),
            ] {
                let file = json!({"clusters": [{"name": "", "cluster": {"server": format!("https://{at}")}}]});
                let info = json!({"data": {"kubeconfig": file.to_string()}});
                assert_eq!(server(&info), None, "{at:.80}");
            }
        }
        for text in [
            "192.0.2.1",
            "192.0.2.1:",
            "192.0.2.1:0",
            "192.0.2.1:+1",
            "192.0.2.1:65536",
            ":6443",
            "-x:6443",
            "a..b:1",
            "u@h:1",
            "h:1/p",
        ] {
            assert!(!is_authority(text), "{text}");
        }
    }
}
