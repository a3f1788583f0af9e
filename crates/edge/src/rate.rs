//! How much may come in a second, and from where.

use governor::Quota;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

/// So many a second, and for a moment twice as many.
pub fn quota(rate: NonZeroU32) -> Quota {
    Quota::per_second(rate).allow_burst(rate.saturating_mul(const { NonZeroU32::new(2).unwrap() }))
}

/// What counts as one source: an address; with IPv6 a network with a prefix of 64 bits, since whoever has one address there has 2^64.
pub fn place(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_address_or_a_network_of_ipv6() {
        let of = |client: &str| place(client.parse().unwrap()).to_string();
        assert_eq!((of("192.0.2.1"), of("::ffff:192.0.2.1")), ("192.0.2.1".to_owned(), "192.0.2.1".to_owned()));
        assert_eq!((of("2001:db8::1"), of("2001:db8:0:1::1")), ("2001:db8::".to_owned(), "2001:db8:0:1::".to_owned()));
    }
}
