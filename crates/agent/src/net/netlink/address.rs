//! Addresses of interfaces.

use std::{io, net::IpAddr};

use berth_contract::vpc::Cidr;

use super::{
    Family, Netlink,
    attributes::{Body, address, attributes, native_u32},
    flags,
};

const NEW: u16 = 20;
const DELETE: u16 = 21;
const GET: u16 = 22;
/// Length of `struct ifaddrmsg`.
const FIXED: usize = 8;

/// Attributes, from linux/if_addr.h.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const CACHE_INFO: u16 = 6;

/// An interface's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Address {
    /// Index of the interface.
    pub(in crate::net) interface: u32,
    pub(in crate::net) address: Cidr,
}

impl Address {
    fn encode(self) -> Body {
        let index = self.interface.to_ne_bytes();
        let fixed = [&[Family::of(self.address.address).number(), self.address.prefix, 0, 0], &index[..]].concat();
        Body::new(&fixed).address(LOCAL, self.address.address).address(ADDRESS, self.address.address)
    }

    fn decode(body: &[u8]) -> Option<Self> {
        Family::from_number(*body.first()?)?;
        let (prefix, interface) = (*body.get(1)?, native_u32(body, 4)?);
        let (mut local, mut peer): (Option<IpAddr>, Option<IpAddr>) = (None, None);
        for (kind, value) in attributes(body, FIXED) {
            match kind {
                LOCAL => local = address(value),
                ADDRESS => peer = address(value),
                _ => {}
            }
        }
        Some(Self { interface, address: Cidr { address: local.or(peer)?, prefix } })
    }
}

impl Netlink {
    /// All addresses, of both families.
    pub(in crate::net) fn addresses(&mut self) -> io::Result<Vec<Address>> {
        let answers = self.dump(GET, &[0; FIXED])?;
        Ok(answers.iter().filter(|m| m.kind == NEW).filter_map(|m| Address::decode(&m.body)).collect())
    }

    /// Puts an address on an interface for so many seconds, or lets it live on for so long.
    pub(in crate::net) fn put_address(&mut self, address: Address, seconds: u32) -> io::Result<()> {
        let seconds = seconds.to_ne_bytes();
        // Preferred and valid; the other two are the kernel's.
        let info = [seconds, seconds, [0; 4], [0; 4]].concat();
        let body = address.encode().attribute(CACHE_INFO, &info);
        self.change(NEW, flags::CREATE | flags::REPLACE, body.bytes())
    }

    pub(in crate::net) fn delete_address(&mut self, address: Address) -> io::Result<()> {
        match self.change(DELETE, 0, address.encode().bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["172.20.0.10/32", "fd00::1/64"] {
            let address = Address { interface: 7, address: text.parse().unwrap() };
            assert_eq!(Address::decode(address.encode().bytes()), Some(address));
        }
    }
}
