//! What the operator tells `berth-agent net`, the sidecar that holds the network of an API server in a VPC: which connections leave
//! the pod, and which address moves between the API servers.
//!
//! The file is in a ConfigMap that is not pinned: agents of older builds read what newer operators write, and the other way round.
//! What an agent does not know it leaves out, so a new field may open something, or name something to be done; it must never narrow
//! what another field opens.

use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr, str::FromStr};

/// Name of the ConfigMap, in the control-plane namespace.
pub const CONFIG_MAP: &str = "kube-apiserver-vpc";

/// Its key with [`Net`] as JSON.
pub const KEY: &str = "net.json";

/// What the sidecar's log, termination message and check begin with when somebody else in the VPC has the slot's address.
pub const ADDRESS_TAKEN: &str = "AddressTaken";

/// That somebody else has the slot's address: `AddressTaken: 172.20.0.2 is in use by 02:00:00:00:00:01; …`. Programs read the word
/// before the colon, people the rest.
pub fn taken(address: IpAddr, mac: &str) -> String {
    format!("{ADDRESS_TAKEN}: {address} is in use by {mac}; the API server is not started while it is")
}

/// The file, and all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Net {
    /// The pod's interface in the VPC.
    pub interface: String,
    /// What the sidecar holds. Default: all.
    #[serde(default)]
    pub rules: Rules,
    /// Ranges of the meta cluster (pods, Services, nodes, metadata): nothing goes there but what is `open`, from eth0, and never over
    /// the VPC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<Cidr>,
    /// What of `closed` is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
    /// Networks behind routers of the VPC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// The slots' addresses in their order, with the prefix of the subnet. Empty if the provider chooses addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Cidr>,
    /// The address that one slot at a time has beside its own. Default: none.
    #[serde(default, rename = "virtualIP", skip_serializing_if = "Option::is_none")]
    pub virtual_ip: Option<IpAddr>,
}

/// What the sidecar holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub enum Rules {
    /// What leaves the pod by any interface. A word of a later build is read as this.
    #[default]
    All,
    /// Only what concerns the VPC's interface; eth0 is left to NetworkPolicies, for network plugins that translate Services in the
    /// socket.
    Interface,
}

impl From<String> for Rules {
    fn from(text: String) -> Self {
        if text == "Interface" { Self::Interface } else { Self::All }
    }
}

/// Connections that are allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// To these addresses.
    pub to: Cidr,
    /// To this port, 1 to 65535. Default: every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The last port of a range that begins with `port`. Default: `port` alone.
    #[serde(default, rename = "endPort", skip_serializing_if = "Option::is_none")]
    pub end_port: Option<u16>,
    /// By this protocol. Default: with a port TCP, without one every protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

/// As in NetworkPolicies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// 6.
    #[serde(rename = "TCP")]
    Tcp,
    /// 17.
    #[serde(rename = "UDP")]
    Udp,
    /// 132.
    #[serde(rename = "SCTP")]
    Sctp,
}

/// A network behind a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The network; `0.0.0.0/0` is all that has no other way.
    pub dst: Cidr,
    /// The router, in the subnet of the slots.
    pub via: IpAddr,
}

/// An address with the length of its network's prefix. It may have bits beyond the prefix: a slot's address has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// 0 to 32 for IPv4, to 128 for IPv6.
    pub prefix: u8,
}

impl Cidr {
    /// Whether the network that this is part of has the address.
    pub fn contains(&self, other: IpAddr) -> bool {
        let shift = |bits: u32| bits - u32::from(self.prefix);
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0,
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0,
            _ => false,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

impl FromStr for Cidr {
    type Err = NoCidr;

    fn from_str(text: &str) -> Result<Self, NoCidr> {
        let parsed = || {
            let (address, prefix) = text.split_once('/')?;
            let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?);
            (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(Self { address, prefix })
        };
        parsed().ok_or_else(|| NoCidr(text.to_owned()))
    }
}

impl TryFrom<String> for Cidr {
    type Error = NoCidr;

    fn try_from(text: String) -> Result<Self, NoCidr> {
        text.parse()
    }
}

/// The text is no address with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCidr(pub String);

impl fmt::Display for NoCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not such as 172.20.0.2/24", self.0)
    }
}

impl std::error::Error for NoCidr {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    /// The file that both sides agreed on, with fields of a later build.
    const AGREED: &str = r#"{"interface": "net1", "rules": "All", "later": {"a": 1},
 "closed": ["10.96.0.0/12", "10.244.0.0/16", "192.168.100.0/24", "169.254.0.0/16", "fd00::/8"],
 "open": [{"to": "10.96.1.2/32", "port": 2379, "protocol": "TCP", "later": 2}, {"to": "10.96.0.10/32", "port": 53, "protocol": "UDP"},
          {"to": "10.200.0.0/16"}, {"to": "10.201.0.0/16", "port": 8000, "endPort": 8999, "protocol": "SCTP"}],
 "routes": [{"dst": "0.0.0.0/0", "via": "172.20.0.1", "later": []}],
 "slots": ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"],
 "virtualIP": "172.20.0.10"}"#;

    fn agreed() -> Net {
        let open = |to, port, end_port, protocol| Open { to: cidr(to), port, end_port, protocol };
        Net {
            interface: "net1".to_owned(),
            rules: Rules::All,
            closed: ["10.96.0.0/12", "10.244.0.0/16", "192.168.100.0/24", "169.254.0.0/16", "fd00::/8"]
                .map(cidr)
                .into(),
            open: vec![
                open("10.96.1.2/32", Some(2379), None, Some(Protocol::Tcp)),
                open("10.96.0.10/32", Some(53), None, Some(Protocol::Udp)),
                open("10.200.0.0/16", None, None, None),
                open("10.201.0.0/16", Some(8000), Some(8999), Some(Protocol::Sctp)),
            ],
            routes: vec![Route { dst: cidr("0.0.0.0/0"), via: "172.20.0.1".parse().unwrap() }],
            slots: ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"].map(cidr).into(),
            virtual_ip: Some("172.20.0.10".parse().unwrap()),
        }
    }

    #[test]
    fn files_of_other_builds_are_read() {
        assert_eq!(serde_json::from_str::<Net>(AGREED).unwrap(), agreed());
        let least = Net { interface: "net1".to_owned(), ..Net::default() };
        assert_eq!(serde_json::from_str::<Net>(r#"{"interface": "net1"}"#).unwrap(), least);
        let rules = |word| {
            serde_json::from_str::<Net>(&format!(r#"{{"interface": "net1", "rules": "{word}"}}"#)).unwrap().rules
        };
        assert_eq!([rules("Interface"), rules("All"), rules("Later")], [Rules::Interface, Rules::All, Rules::All]);
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        for net in [agreed(), Net { rules: Rules::Interface, ..Net::default() }] {
            assert_eq!(serde_json::from_str::<Net>(&serde_json::to_string(&net).unwrap()).unwrap(), net);
        }
    }

    #[test]
    fn what_is_written_has_kubernetes_words() {
        let written = serde_json::to_value(agreed()).unwrap();
        assert_eq!(written["virtualIP"], "172.20.0.10");
        assert_eq!(written["open"][3]["endPort"], 8999);
        assert_eq!(written["open"][3]["protocol"], "SCTP");
        assert_eq!(written["slots"][0], "172.20.0.2/24");
        let text = serde_json::to_string(&Net { interface: "net1".to_owned(), ..Net::default() }).unwrap();
        assert_eq!(text, r#"{"interface":"net1","rules":"All"}"#);
    }

    #[test]
    fn only_addresses_with_a_prefix_are_taken() {
        for wrong in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "/8"] {
            assert_eq!(wrong.parse::<Cidr>(), Err(NoCidr(wrong.to_owned())));
        }
        let error = serde_json::from_str::<Cidr>(r#""10.0.0.0""#).unwrap_err().to_string();
        assert!(error.contains("\"10.0.0.0\" is not such as 172.20.0.2/24"), "{error}");
    }

    #[test]
    fn a_network_has_its_addresses() {
        let has = |network: &str, address: &str| cidr(network).contains(address.parse().unwrap());
        for (network, address) in [
            ("172.20.0.2/24", "172.20.0.255"),
            ("0.0.0.0/0", "8.8.8.8"),
            ("10.96.0.0/12", "10.111.0.1"),
            ("10.0.0.1/32", "10.0.0.1"),
            ("fd00::/8", "fdff::1"),
            ("::/0", "::1"),
            ("fd00::1/128", "fd00::1"),
        ] {
            assert!(has(network, address), "{network} {address}");
        }
        for (network, address) in [
            ("172.20.0.2/24", "172.20.1.0"),
            ("0.0.0.0/0", "::1"),
            ("::/0", "8.8.8.8"),
            ("10.96.0.0/12", "10.112.0.1"),
            ("10.0.0.1/32", "10.0.0.2"),
            ("fd00::/8", "fe00::1"),
            ("fd00::1/128", "fd00::2"),
        ] {
            assert!(!has(network, address), "{network} {address}");
        }
    }
}
