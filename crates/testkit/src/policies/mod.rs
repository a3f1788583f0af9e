//! Who may open a connection to whom, by NetworkPolicies: an evaluator of `networking.k8s.io/v1`, since the network of the test
//! cluster enforces none.
//!
//! What the API leaves to implementations is a parameter ([`Network::blocks_cover_pods`]): what holds must hold either way.

mod selector;

#[cfg(test)]
mod tests;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;
use std::net::IpAddr;

type Labels = BTreeMap<String, String>;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// A pod, as far as policies look at it.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: Labels,
    /// Its address.
    pub ip: Option<IpAddr>,
    /// Names of its ports.
    pub ports: BTreeMap<String, u16>,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// A pod.
    Pod(&'a Pod),
    /// Anything else: a node, a host, the world.
    Address(IpAddr),
}

impl End<'_> {
    fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Pod(pod) => pod.ip,
            Self::Address(ip) => Some(*ip),
        }
    }
}

/// Namespaces and policies.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Labels of each namespace.
    pub namespaces: BTreeMap<String, Labels>,
    /// All policies.
    pub policies: Vec<NetworkPolicy>,
    /// Whether an `ipBlock` covers pods whose address is in it. The API says that it is meant for addresses outside of the cluster,
    /// and implementations differ.
    pub blocks_cover_pods: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Ingress,
    Egress,
}

impl Network {
    /// True if `from` may open a connection to `port` of `to`: the policies of both ends have a say.
    pub fn allows(&self, from: End<'_>, to: End<'_>, protocol: Protocol, port: u16) -> bool {
        if let (End::Pod(a), End::Pod(b)) = (from, to)
            && std::ptr::eq(a, b)
        {
            return true;
        }
        self.leaves(from, to, protocol, port) && self.enters(from, to, protocol, port)
    }

    /// What the policies of `from` say of it.
    pub fn leaves(&self, from: End<'_>, to: End<'_>, protocol: Protocol, port: u16) -> bool {
        self.side(from, Direction::Egress, to, to, protocol, port)
    }

    /// What the policies of `to` say of it.
    pub fn enters(&self, from: End<'_>, to: End<'_>, protocol: Protocol, port: u16) -> bool {
        self.side(to, Direction::Ingress, from, to, protocol, port)
    }

    /// What the policies of `subject` say of a connection with `peer`.
    fn side(
        &self,
        subject: End<'_>,
        direction: Direction,
        peer: End<'_>,
        to: End<'_>,
        protocol: Protocol,
        port: u16,
    ) -> bool {
        let End::Pod(pod) = subject else { return true };
        let mut isolated = false;
        for policy in self.policies.iter().filter(|p| selects(p, pod, direction)) {
            isolated = true;
            let Some(spec) = &policy.spec else { continue };
            let passes = |peers: Option<&Vec<NetworkPolicyPeer>>, ports: Option<&Vec<NetworkPolicyPort>>| {
                let peers = peers.map_or(&[][..], Vec::as_slice);
                let ports = ports.map_or(&[][..], Vec::as_slice);
                (peers.is_empty() || peers.iter().any(|p| self.is(p, &pod.namespace, peer)))
                    && (ports.is_empty() || ports.iter().any(|p| is_port(p, to, protocol, port)))
            };
            let allowed = match direction {
                Direction::Ingress => spec.ingress.iter().flatten().any(|r| passes(r.from.as_ref(), r.ports.as_ref())),
                Direction::Egress => spec.egress.iter().flatten().any(|r| passes(r.to.as_ref(), r.ports.as_ref())),
            };
            if allowed {
                return true;
            }
        }
        !isolated
    }

    /// Whether `end` is one that the rule of a policy in `namespace` names.
    fn is(&self, peer: &NetworkPolicyPeer, namespace: &str, end: End<'_>) -> bool {
        if let Some(block) = &peer.ip_block {
            let inside = |cidr: &String| {
                let net = cidr.parse::<IpNet>().unwrap_or_else(|e| panic!("ipBlock {cidr}: {e}"));
                end.ip().is_some_and(|ip| net.contains(&ip))
            };
            let covered = matches!(end, End::Address(_)) || self.blocks_cover_pods;
            return covered && inside(&block.cidr) && !block.except.iter().flatten().any(inside);
        }
        let End::Pod(pod) = end else { return false };
        let in_namespace = match &peer.namespace_selector {
            None => pod.namespace == namespace,
            Some(selector) => self.namespaces.get(&pod.namespace).is_some_and(|l| selector::matches(selector, l)),
        };
        in_namespace && peer.pod_selector.as_ref().is_none_or(|s| selector::matches(s, &pod.labels))
    }
}

/// Whether a policy isolates a pod in that direction. Without `policyTypes` it is about ingress, and about egress if it has
/// rules for it.
fn selects(policy: &NetworkPolicy, pod: &Pod, direction: Direction) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let about = match (&spec.policy_types, direction) {
        (Some(types), Direction::Ingress) => types.iter().any(|t| t == "Ingress"),
        (Some(types), Direction::Egress) => types.iter().any(|t| t == "Egress"),
        (None, Direction::Ingress) => true,
        (None, Direction::Egress) => spec.egress.is_some(),
    };
    let here = policy.metadata.namespace.as_deref() == Some(&pod.namespace);
    about && here && spec.pod_selector.as_ref().is_none_or(|s| selector::matches(s, &pod.labels))
}

fn is_port(rule: &NetworkPolicyPort, to: End<'_>, protocol: Protocol, port: u16) -> bool {
    if rule.protocol.as_deref().unwrap_or("TCP") != protocol.name() {
        return false;
    }
    match &rule.port {
        None => true,
        Some(IntOrString::Int(first)) => (*first..=rule.end_port.unwrap_or(*first)).contains(&i32::from(port)),
        Some(IntOrString::String(name)) => match to {
            End::Pod(pod) => pod.ports.get(name) == Some(&port),
            End::Address(_) => false,
        },
    }
}
