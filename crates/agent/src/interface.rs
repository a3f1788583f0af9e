//! Whether an interface has its address. What a network plugin says it gave a pod is no proof: the interface itself is.

use anyhow::Context;
use nix::ifaddrs::getifaddrs;
use std::{net::Ipv4Addr, str::FromStr};

/// An interface and the address that it is to have, with the prefix length. None: any that its network's provider chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    name: String,
    address: Option<(Ipv4Addr, u32)>,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let Some((name, address)) = text.split_once('=') else {
                return Some(Self { name: text.to_owned(), address: None }).filter(|_| !text.contains('/'));
            };
            let (address, prefix) = address.split_once('/')?;
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
            Some(Self { name: name.to_owned(), address: Some((address.parse().ok()?, prefix)) })
        };
        parsed().filter(|w| !w.name.is_empty()).ok_or_else(|| "must be such as net1=172.20.0.2/24, or net1".to_owned())
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            Some((ip, prefix)) => write!(f, "{} at interface {}", address(ip, prefix), self.name),
            None => write!(f, "an IPv4 address at interface {}", self.name),
        }
    }
}

fn address(address: Ipv4Addr, prefix: u32) -> String {
    format!("{address}/{prefix}")
}

impl Wanted {
    /// An error says what the interface has in its place.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let all = getifaddrs().context("cannot read the addresses of interfaces")?;
        let of_it: Vec<_> = all.filter(|one| one.interface_name == self.name).collect();
        anyhow::ensure!(!of_it.is_empty(), "there is no interface {}", self.name);
        let ip = |storage: Option<nix::sys::socket::SockaddrStorage>| Some(storage?.as_sockaddr_in()?.ip());
        let has: Vec<_> = of_it
            .into_iter()
            .filter_map(|one| Some((ip(one.address)?, u32::from(ip(one.netmask)?).count_ones())))
            .collect();
        if self.address.map_or(!has.is_empty(), |wanted| has.contains(&wanted)) {
            return Ok(());
        }
        let has: Vec<_> = has.into_iter().map(|(ip, prefix)| address(ip, prefix)).collect();
        let has = if has.is_empty() { "no IPv4 address".to_owned() } else { has.join(", ") };
        anyhow::bail!("{} has {has}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Result<Wanted, String> {
        text.parse()
    }

    #[test]
    fn only_an_interface_with_an_address_and_its_prefix_is_understood() {
        let net1 = wanted("net1=172.20.0.2/24").unwrap();
        assert_eq!(net1.to_string(), "172.20.0.2/24 at interface net1");
        assert_eq!(wanted("net1").unwrap().to_string(), "an IPv4 address at interface net1");
        for wrong in
            ["net1=", "172.20.0.2/24", "net1=172.20.0.2", "=172.20.0.2/24", "net1=172.20.0.2/33", "net1=fd00::2/64", ""]
        {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_interface_itself_is_looked_at() {
        let said = |text: &str| wanted(text).unwrap().check().map_err(|e| e.to_string());
        assert_eq!(said("lo=127.0.0.1/8"), Ok(()));
        let other = said("lo=127.0.0.7/8").unwrap_err();
        assert!(other.starts_with("lo has ") && other.contains("127.0.0.1/8"), "{other}");
        assert!(said("lo=127.0.0.1/24").is_err(), "another subnet");
        assert_eq!(said("lo"), Ok(()), "any address");
        assert_eq!(said("net99"), Err("there is no interface net99".to_owned()));
        assert_eq!(said("net99=172.20.0.2/24"), Err("there is no interface net99".to_owned()));
    }
}
