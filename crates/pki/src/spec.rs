//! What a certificate should be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::SignedDuration;
use serde::Serialize;

use crate::PkiError;

/// How far before the moment of issue a certificate becomes valid, for clocks that are behind: 5 minutes.
/// Lifetimes count from the moment of issue, so the backdate does not shorten them.
pub const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// What a certificate is for. It decides basic constraints, key usage and extended key usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Usage {
    /// Signs leaf certificates and nothing else: path length 0, no extended key usage.
    Ca,
    /// A TLS server; needs at least one DNS name or IP address.
    Server,
    /// A TLS client; Kubernetes reads the user from the common name and the groups from the organizations.
    Client,
    /// Server and client in one, as etcd peers and etcd servers are; needs at least one DNS name or IP address.
    Peer,
}

impl Usage {
    /// Names of the extended key usages as in RFC 5280, sorted.
    pub fn extended(self) -> &'static [&'static str] {
        match self {
            Self::Ca => &[],
            Self::Server => &["serverAuth"],
            Self::Client => &["clientAuth"],
            Self::Peer => &["clientAuth", "serverAuth"],
        }
    }
}

/// How long leaf certificates live unless somebody says otherwise: 90 days.
pub const LEAF_LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long CAs live: 10 years of 365 days.
pub const CA_LIFETIME: SignedDuration = SignedDuration::from_hours(3650 * 24);

/// What a certificate should be. Equal specs mean that nothing has to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertSpec {
    /// Common name: the user of a client certificate, a label for all others. For a CA it must be distinct for every
    /// generation (`kubernetes-ca-1`), or clients that trust two of them cannot tell them apart.
    pub common_name: String,
    /// Organizations: the groups of a client certificate. At most two.
    pub organizations: Vec<String>,
    /// DNS names of a server. Order, case and duplicates do not matter; an IP address here counts as one.
    pub dns_names: Vec<String>,
    /// IP addresses of a server, both families. Order and duplicates do not matter.
    pub ip_addresses: Vec<IpAddr>,
    /// What it is for.
    pub usage: Usage,
    /// From the moment of issue to the end of validity. Never beyond the end of the CA.
    pub lifetime: SignedDuration,
}

impl CertSpec {
    /// One without organizations, names and addresses.
    pub fn new(common_name: impl Into<String>, usage: Usage, lifetime: SignedDuration) -> Self {
        Self {
            common_name: common_name.into(),
            organizations: vec![],
            dns_names: vec![],
            ip_addresses: vec![],
            usage,
            lifetime,
        }
    }

    /// The canonical form, which is what is issued and what is compared: names in lower case, IPv4 addresses not
    /// written as IPv6, every list sorted and without duplicates.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let mut names = BTreeSet::new();
        let mut addresses: BTreeSet<IpAddr> = self.ip_addresses.iter().map(IpAddr::to_canonical).collect();
        for name in &self.dns_names {
            match name.parse::<IpAddr>() {
                Ok(address) => _ = addresses.insert(address.to_canonical()),
                Err(_) => _ = names.insert(name.to_ascii_lowercase()),
            }
        }
        let organizations: BTreeSet<_> = self.organizations.iter().cloned().collect();
        Self {
            common_name: self.common_name.clone(),
            organizations: organizations.into_iter().collect(),
            dns_names: names.into_iter().collect(),
            ip_addresses: addresses.into_iter().collect(),
            usage: self.usage,
            lifetime: self.lifetime,
        }
    }

    /// Refuses what no client would accept, before a key is generated. [`crate::issue`] and [`crate::issue_ca`] call it.
    pub fn validate(&self) -> Result<(), PkiError> {
        let refuse = |problem: String| Err(PkiError::spec(self, problem));
        if self.common_name.trim().is_empty() {
            return refuse("the common name is empty".into());
        }
        if self.organizations.iter().any(|o| o.trim().is_empty()) {
            return refuse("an organization is empty".into());
        }
        if self.organizations.iter().collect::<BTreeSet<_>>().len() > 2 {
            return refuse("more than two organizations".into());
        }
        if let Some(name) =
            self.dns_names.iter().find(|n| n.parse::<IpAddr>().is_err() && !is_dns_name(&n.to_ascii_lowercase()))
        {
            return refuse(format!("\"{name}\" is not a DNS name"));
        }
        let named = !self.dns_names.is_empty() || !self.ip_addresses.is_empty();
        match self.usage {
            Usage::Server | Usage::Peer if !named => {
                return refuse("a server needs a DNS name or an IP address".into());
            }
            Usage::Ca if named => return refuse("a CA has no DNS names or IP addresses".into()),
            _ => {}
        }
        if self.lifetime < SignedDuration::from_secs(1) {
            return refuse("the lifetime is shorter than a second".into());
        }
        Ok(())
    }
}

/// A name that Go, OpenSSL and webpki all match: labels of letters, digits, `-` and `_`, a wildcard only as the first.
fn is_dns_name(name: &str) -> bool {
    let labels = name.strip_prefix("*.").unwrap_or(name);
    name.len() <= 253
        && labels.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        })
}
