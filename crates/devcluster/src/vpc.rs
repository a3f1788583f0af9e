//! VPCs: networks of tenants, as a cloud has them. Two may have the same subnet and addresses.
//!
//! Each is a network namespace with a bridge and a router, whose routes lead to pods of the machines in it. In every node's namespace lies
//! a port of the bridge, which no address of the node is on: pods get an interface of their own on it (macvlan), by a
//! NetworkAttachmentDefinition.

use std::{fmt, net::Ipv4Addr, path::PathBuf, process::Command, str::FromStr};

use anyhow::{Result, anyhow, bail, ensure};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{layout::Layout, network, paths};

/// The longest name. With `vpc-` before it, it is an interface's, which has at most 15 bytes.
const NAME_MAX: usize = 11;

/// The subnet of a VPC for which none is given.
const SUBNET: &str = "172.20.0.0/24";

/// The first and the last address of the pool, by their number in the subnet.
const POOL: (u8, u8) = (201, 250);

/// The longest prefix: machines and routers need addresses beside those of pods.
const MAX_PREFIX: u8 = 24;

/// What a VPC shall be: `a`, or `a=172.20.0.0/24`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VpcConfig {
    name: String,
    subnet: Ipv4Net,
}

impl VpcConfig {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Fails if two have one name.
pub(crate) fn check_names(all: &[VpcConfig]) -> Result<()> {
    let twice = all.iter().enumerate().find(|(place, vpc)| all[..*place].iter().any(|other| other.name == vpc.name));
    twice.map_or(Ok(()), |(_, vpc)| bail!("two VPCs are called `{}`", vpc.name))
}

impl FromStr for VpcConfig {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, subnet) = text.split_once('=').unwrap_or((text, SUBNET));
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(valid) {
            bail!("`{name}` is no VPC's name: at most {NAME_MAX} lower-case letters and digits");
        }
        let subnet: Ipv4Net = subnet.parse().map_err(|_| anyhow!("`{subnet}` is no IPv4 network, such as {SUBNET}"))?;
        ensure!(subnet.trunc() == subnet, "{subnet} is an address in a network: {} is the network", subnet.trunc());
        ensure!(subnet.prefix_len() <= MAX_PREFIX, "{subnet} is too small: at most /{MAX_PREFIX}");
        Ok(Self { name: name.to_owned(), subnet })
    }
}

impl TryFrom<String> for VpcConfig {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<VpcConfig> for String {
    fn from(config: VpcConfig) -> Self {
        config.to_string()
    }
}

impl fmt::Display for VpcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.subnet)
    }
}

/// A VPC of a cluster.
#[derive(Clone, Debug)]
pub struct Vpc {
    cluster: Layout,
    config: VpcConfig,
}

impl Vpc {
    pub(crate) fn new(layout: &Layout, config: &VpcConfig) -> Self {
        Self { cluster: layout.clone(), config: config.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Its addresses. The router has the first one; machines have those from 101 on.
    pub fn subnet(&self) -> Ipv4Net {
        self.config.subnet
    }

    /// The router's address, by which pods of machines and other subnets are reached.
    pub fn router(&self) -> Ipv4Addr {
        self.address(1)
    }

    /// The network namespace of the router, for `ip -n`. What runs there is in the VPC, at the router's address.
    pub fn netns(&self) -> String {
        scope(&self.cluster, self.name())
    }

    /// The port of the VPC in every node's network namespace: macvlan's `master`.
    pub fn master(&self) -> String {
        format!("vpc-{}", self.name())
    }

    /// A program that runs in the router's network namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.netns_path().display())).arg("--").arg(program);
        command
    }

    /// A NetworkAttachmentDefinition `vpc-<name>`: each pod says with `ips` (and `mac`) which address it has.
    pub fn definition(&self, namespace: &str) -> Value {
        let capabilities = json!({"ips": true, "mac": true});
        self.definition_of(namespace, &self.master(), &json!({"type": "static"}), &capabilities)
    }

    /// A NetworkAttachmentDefinition `vpc-<name>-pool`: pods are given addresses, from the 201st to the 250th of the subnet.
    pub fn pool_definition(&self, namespace: &str) -> Value {
        let range = json!({
            "subnet": self.subnet().to_string(), "rangeStart": self.address(POOL.0), "rangeEnd": self.address(POOL.1), "gateway": self.router(),
        });
        // All nodes are on this machine, so one directory keeps them from giving an address twice.
        let leases = self.cluster.dir.join(format!("{}-pool", self.master()));
        let ipam = json!({"type": "host-local", "ranges": [[range]], "dataDir": leases});
        self.definition_of(namespace, &format!("{}-pool", self.master()), &ipam, &json!({"mac": true}))
    }

    fn definition_of(&self, namespace: &str, name: &str, ipam: &Value, capabilities: &Value) -> Value {
        let config = json!({
            "cniVersion": "1.0.0",
            "name": name,
            "type": "macvlan",
            "master": self.master(),
            "mode": "bridge",
            "ipam": ipam,
            "capabilities": capabilities,
        });
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"config": config.to_string()},
        })
    }

    /// Sends packets for these addresses to a machine in the VPC, as a cloud's route table does.
    pub fn route(&self, range: &str, via: Ipv4Addr) -> Result<()> {
        network::vpc::route(self, range, via)
    }

    pub(crate) fn netns_path(&self) -> PathBuf {
        PathBuf::from(paths::NETNS_DIR).join(self.netns())
    }

    /// The address of the subnet with this number, counted from the network's own.
    pub(crate) fn address(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.config.subnet.network().to_bits() + u32::from(number))
    }
}

/// The network namespace of a VPC. A dot, as nodes have it: no cluster's name has one.
fn scope(layout: &Layout, name: &str) -> String {
    format!("{}{name}", scope_prefix(layout))
}

/// What the names of all of a cluster's VPCs' namespaces begin with.
pub(crate) fn scope_prefix(layout: &Layout) -> String {
    format!("{}.vpc-", layout.scope())
}

/// The VPCs' objects in the API: the kind that the standard defines, and what the plugin may do.
pub(crate) fn objects() -> Vec<Value> {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
        "spec": {
            "group": "k8s.cni.cncf.io",
            "scope": "Namespaced",
            "names": {
                "plural": "network-attachment-definitions",
                "singular": "network-attachment-definition",
                "kind": "NetworkAttachmentDefinition",
                "shortNames": ["net-attach-def"],
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "spec": {"type": "object", "properties": {"config": {"type": "string", "description": "A CNI configuration, as JSON."}}},
                    },
                }},
            }],
        },
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": USER},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get", "update", "patch"]},
            {"apiGroups": ["k8s.cni.cncf.io"], "resources": ["network-attachment-definitions"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
    });
    // No pod starts before the plugin may ask, so that comes first.
    vec![role, binding, crd]
}

/// Who the plugin is for the API server.
pub(crate) const USER: &str = "devcluster-cni";

#[cfg(test)]
mod tests {
    use super::*;

    fn vpc(text: &str) -> Vpc {
        Vpc::new(&Layout { name: "demo".to_owned(), dir: "/state/demo".into() }, &text.parse().unwrap())
    }

    #[test]
    fn a_name_alone_has_the_usual_subnet() {
        assert_eq!(vpc("a").config.to_string(), "a=172.20.0.0/24");
        let other = vpc("b=10.9.0.0/16");
        assert_eq!((other.router().to_string(), other.netns()), ("10.9.0.1".to_owned(), "berth-demo.vpc-b".to_owned()));
        let again: VpcConfig = serde_json::from_str(&serde_json::to_string(&other.config).unwrap()).unwrap();
        assert_eq!(again, other.config);
    }

    #[test]
    fn what_cannot_be_a_vpc_is_refused() {
        for wrong in ["", "A", "a-b", "twelve-bytes", "a=x", "a=172.20.0.1/24", "a=172.20.0.0/25", "a=fd00::/64"] {
            assert!(wrong.parse::<VpcConfig>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn pods_are_on_the_port_of_their_node() {
        let vpc = vpc("eleven-byte".replace('-', "x").as_str());
        assert!(vpc.master().len() <= 15, "an interface's name: {}", vpc.master());
        let definition = vpc.definition("acme");
        assert_eq!(definition["metadata"], json!({"name": vpc.master(), "namespace": "acme"}));
        let config: Value = serde_json::from_str(definition["spec"]["config"].as_str().unwrap()).unwrap();
        assert_eq!((&config["master"], &config["capabilities"]["ips"]), (&json!(vpc.master()), &json!(true)));
        let pool = vpc.pool_definition("acme");
        let config: Value = serde_json::from_str(pool["spec"]["config"].as_str().unwrap()).unwrap();
        assert_eq!((&config["name"], &config["capabilities"]["ips"]), (&pool["metadata"]["name"], &Value::Null));
        assert_eq!(config["ipam"]["ranges"][0][0]["rangeStart"], "172.20.0.201");
    }
}
