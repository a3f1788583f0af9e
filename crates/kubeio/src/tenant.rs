//! The tenant's own API, with a certificate that lives for an hour and only in memory.

use crate::calls::{Calls, Io};
use crate::error::{IoError, Kindred, chain};
use crate::observe::Snapshot;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::names;
use berth_pki::{CertSpec, Lifetime, Usage};
use berth_plan::observed::ApiProbe;
use berth_render::ObjectKey;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::config::{AuthInfo, Config};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a call into a tenant may take; its endpoint may be anything.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where a tenant's API is, and the CA that signs the operator's way in.
#[derive(Clone)]
pub struct TenantTarget {
    /// `https://host:port`.
    pub server: String,
    /// The tenant's CA.
    pub ca_cert: Vec<u8>,
    /// Its key.
    pub ca_key: Vec<u8>,
}

impl std::fmt::Debug for TenantTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TenantTarget").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Makes a client for a tenant; tests put a local API server in its place.
pub type Connect = Arc<dyn Fn(TenantTarget, Timestamp) -> BoxFuture<'static, Result<Client, String>> + Send + Sync>;

/// The target, from what was observed.
pub fn tenant_target(snapshot: &Snapshot, ca: &ObjectKey, host: &str, port: i32) -> Option<TenantTarget> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Some(TenantTarget {
        server: format!("https://{host}:{port}"),
        ca_cert: snapshot.secret(ca, "tls.crt")?.to_vec(),
        ca_key: snapshot.secret(ca, "tls.key")?.to_vec(),
    })
}

/// The real [`Connect`].
pub fn connect() -> Connect {
    Arc::new(|target, now| Box::pin(async move { client(&target, now) }))
}

fn client(target: &TenantTarget, now: Timestamp) -> Result<Client, String> {
    let spec = CertSpec {
        common_name: names::OPERATOR_USER.into(),
        organizations: vec!["system:masters".into()],
        dns_names: vec![],
        ip_addresses: vec![],
        usage: Usage::Client,
        lifetime: Lifetime::leaf(SignedDuration::from_hours(1)),
    };
    let pair = berth_pki::issue(&spec, &target.ca_cert, &target.ca_key, now).map_err(|e| e.to_string())?;
    let url = target.server.parse().map_err(|e| format!("{}: {e}", target.server))?;
    let mut config = Config::new(url);
    config.connect_timeout = Some(Duration::from_secs(3));
    config.read_timeout = Some(DEADLINE);
    config.write_timeout = Some(DEADLINE);
    config.proxy_url = None;
    config.root_cert = Some(vec![der(&target.ca_cert)?]);
    config.auth_info = AuthInfo {
        client_certificate_data: Some(STANDARD.encode(&pair.cert_pem)),
        client_key_data: Some(STANDARD.encode(pair.key_pem.expose()).into()),
        ..AuthInfo::default()
    };
    Client::try_from(config).map_err(|e| chain(&e))
}

fn der(pem: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(pem);
    let body: String = text.lines().filter(|l| !l.starts_with("-----")).collect();
    STANDARD.decode(body.trim()).map_err(|e| format!("the CA certificate: {e}"))
}

/// Asks the tenant's API: one object, and its version if that is wanted. Returns the connection for what is to be written.
pub async fn probe_tenant(
    io: &Io,
    connect: &Connect,
    target: TenantTarget,
    key: &ObjectKey,
    want_version: bool,
    calls: Arc<Calls>,
    now: Timestamp,
) -> (ApiProbe, Option<Io>) {
    let client = match connect(target, now).await {
        Ok(client) => client,
        Err(e) => return (ApiProbe::Failed(e), None),
    };
    let tenant = io.to(client, calls, DEADLINE);
    match ask(&tenant, key, want_version).await {
        Ok((version, object)) => {
            let read = BTreeMap::from([(key.clone(), object)]);
            (ApiProbe::Answered { version, read }, Some(tenant))
        }
        Err(e) if e.kind == Kindred::NotFound => (ApiProbe::Failed(e.message), None),
        Err(e) => (ApiProbe::Failed(e.message), None),
    }
}

type Answer = (Option<String>, Option<serde_json::Value>);

async fn ask(tenant: &Io, key: &ObjectKey, want_version: bool) -> Result<Answer, IoError> {
    let object = tenant.get(key).await?;
    let version = if want_version {
        let v = tenant.raw("/version").await?;
        v["gitVersion"].as_str().map(|v| v.trim_start_matches('v').to_owned())
    } else {
        None
    };
    Ok((version, object))
}
