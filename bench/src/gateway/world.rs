//! What is around a gateway: an API server that has tenants' Services, and API servers of tenants.

use anyhow::{Context as _, Result};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::Options;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use super::client::Way;

/// Who a gateway is in the meta cluster.
pub(crate) const USER: &str = "gateway";
/// The team of all tenants.
pub(crate) const TEAM: &str = "team-a";
/// Tenants with a real API server. They share a few.
pub(crate) const TENANTS: usize = 20;
/// An address of a client has at most so many connections by default: clients come from several.
const SOURCES: u8 = 20;

/// Berth's programs.
pub(crate) struct Programs {
    pub(crate) gateway: PathBuf,
    pub(crate) access: PathBuf,
}

pub(crate) struct World {
    pub(crate) programs: Programs,
    pub(crate) meta: ApiServer,
    /// Of the tenants `t0`, `t2` and so on, and of the others.
    pub(crate) servers: [ApiServer; 2],
    /// An address of this machine that is no loopback address, since no EndpointSlice may have one. What is sent there does not leave it.
    pub(crate) ip: Ipv4Addr,
}

impl World {
    pub(crate) async fn start(programs: Programs) -> Result<Self> {
        let ip = own_address()?;
        let everywhere = || {
            let apiserver_args = vec!["--bind-address=0.0.0.0".to_owned()];
            ApiServer::start_with(Options { apiserver_args, ..Options::default() })
        };
        let (meta, even, odd) = tokio::try_join!(ApiServer::start(), everywhere(), everywhere())?;
        let world = Self { programs, meta, servers: [even, odd], ip };
        let rules = json!([
            {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ]);
        grant(&world.meta.client(), "", USER, &user(USER), &rules).await?;
        for tenant in 0..TENANTS {
            world.tenant(&name(tenant), &[world.server_of(tenant)]).await?;
        }
        Ok(world)
    }

    /// Where the API server of that tenant is.
    pub(crate) fn server_of(&self, tenant: usize) -> SocketAddr {
        (self.ip, port_of(&self.servers[tenant % 2])).into()
    }

    /// A tenant with these API servers, each in a slice of its own. Its server name is `host(name)`.
    pub(crate) async fn tenant(&self, name: &str, servers: &[SocketAddr]) -> Result<()> {
        tenant(&self.meta.client(), name, servers).await
    }

    /// What is so of a tenant's API server from now on.
    pub(crate) async fn change(&self, name: &str, number: usize, change: &Value) -> Result<()> {
        let slices: Api<EndpointSlice> = Api::namespaced(self.meta.client(), &namespace(name));
        slices.patch(&slice(number), &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    /// To an API server itself.
    pub(crate) fn direct(&self, to: SocketAddr) -> Way {
        Way { from: self.ip, to }
    }
}

/// From one of the addresses that clients have, in turns.
pub(crate) fn way(number: usize, to: SocketAddr) -> Way {
    let last = u8::try_from(number % usize::from(SOURCES)).unwrap_or_default() + 1;
    Way { from: Ipv4Addr::new(127, 0, 1, last), to }
}

/// As tenants with real API servers are called.
pub(crate) fn name(tenant: usize) -> String {
    format!("t{tenant}")
}

/// The server name of a tenant.
pub(crate) fn host(name: &str) -> String {
    format!("{name}.example.com")
}

fn namespace(name: &str) -> String {
    berth_api::names::control_plane_namespace(TEAM, name)
}

fn slice(number: usize) -> String {
    format!("kube-apiserver-{number}")
}

/// Of that server at all addresses.
pub(crate) fn port_of(server: &ApiServer) -> u16 {
    server.url().rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
}

/// See [`World::tenant`].
pub(crate) async fn tenant(client: &Client, name: &str, servers: &[SocketAddr]) -> Result<()> {
    let home = namespace(name);
    create(client, "v1", "Namespace", "", json!({"metadata": {"name": home}})).await?;
    // As the operator labels and annotates it.
    let exposed = json!({"cluster": {"namespace": TEAM, "name": name}, "names": [host(name)]});
    let metadata = json!({
        "name": "kube-apiserver",
        "labels": {"berth.dev/gateway": "true"},
        "annotations": {"berth.dev/gateway": exposed.to_string()},
    });
    let spec = json!({"clusterIP": "None", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]});
    create(client, "v1", "Service", &home, json!({"metadata": metadata, "spec": spec})).await?;
    for (number, server) in servers.iter().enumerate() {
        // As Kubernetes makes it for that Service.
        let object = json!({
            "metadata": {
                "name": slice(number),
                "labels": {"berth.dev/gateway": "true", "kubernetes.io/service-name": "kube-apiserver"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": server.port(), "protocol": "TCP"}],
            "endpoints": [{"addresses": [server.ip()], "conditions": {"ready": true}}],
        });
        create(client, "discovery.k8s.io/v1", "EndpointSlice", &home, object).await?;
    }
    Ok(())
}

/// An object of that kind; without a namespace if that is empty.
pub(crate) async fn create(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: &str,
    mut object: Value,
) -> Result<()> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let of = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    let object: DynamicObject = serde_json::from_value(object)?;
    let all: Api<DynamicObject> = match namespace {
        "" => Api::all_with(client.clone(), &of),
        namespace => Api::namespaced_with(client.clone(), namespace, &of),
    };
    all.create(&PostParams::default(), &object).await.with_context(|| format!("create a {kind}"))?;
    Ok(())
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// These rules there, or without a namespace everywhere.
pub(crate) async fn grant(client: &Client, namespace: &str, name: &str, subject: &Value, rules: &Value) -> Result<()> {
    let (role, binding) =
        if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
    create(client, RBAC, role, namespace, json!({"metadata": {"name": name}, "rules": rules})).await?;
    let bound = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [subject],
    });
    create(client, RBAC, binding, namespace, bound).await
}

pub(crate) fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

/// By which it would send something elsewhere; nothing is sent.
fn own_address() -> Result<Ipv4Addr> {
    let asked = UdpSocket::bind("0.0.0.0:0")?;
    asked
        .connect("198.51.100.1:9")
        .context("this machine has no address but loopback, and EndpointSlices take none of these")?;
    match asked.local_addr()?.ip() {
        std::net::IpAddr::V4(ip) => Ok(ip),
        std::net::IpAddr::V6(_) => anyhow::bail!("this machine has no IPv4 address"),
    }
}
