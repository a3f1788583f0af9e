//! What a gateway is told of a connection: a PROXY header of version 2 with the tenant's host name.

use anyhow::{Result, ensure};
use proxy_header::{ProxiedAddress, ProxyHeader, Tlv};
use std::net::SocketAddr;

/// As long as a DNS name may be.
const LONGEST: usize = 253;
/// What comes before the name, with the longest addresses, and then some.
const ROOM: usize = 128;

/// A host name, or why it is none: what the gateway cannot read would be found out by pods.
pub(crate) fn name(text: &str) -> Result<String> {
    let is_fine = |c: u8| c.is_ascii_alphanumeric() || b".-".contains(&c);
    ensure!(
        (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_fine),
        "it is no DNS name, such as acme.api.example.com"
    );
    Ok(text.to_owned())
}

/// The header of a connection from that client to this program's own address.
pub(crate) fn header(name: &str, client: SocketAddr, own: SocketAddr) -> Result<Vec<u8>> {
    let mut header = ProxyHeader::with_address(ProxiedAddress::stream(client, own));
    header.append_tlv(Tlv::Authority(name.into()));
    let mut bytes = vec![0; ROOM + name.len()];
    let length = header.encode_to_slice_v2(&mut bytes).map_err(|error| anyhow::anyhow!("a PROXY header: {error}"))?;
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy_header::ParseConfig;

    #[test]
    fn a_header_has_the_name_and_whose_connection_it_is() {
        let long = "a".repeat(LONGEST);
        for (host, client, own) in
            [("acme.api.example.com", "10.1.2.3:40000", "240.0.0.1:6443"), (&*long, "[fd00::1]:1", "[fd00::ffff]:443")]
        {
            let (client, own) = (client.parse().unwrap(), own.parse().unwrap());
            let bytes = header(host, client, own).unwrap();
            let config = ParseConfig { allow_v1: false, ..ParseConfig::default() };
            let (read, length) = ProxyHeader::parse(&bytes, config).unwrap();
            assert_eq!(length, bytes.len());
            assert_eq!(read.authority(), Some(host));
            assert_eq!(read.proxied_address(), Some(&ProxiedAddress::stream(client, own)));
        }
    }

    #[test]
    fn a_name_that_no_gateway_takes_is_refused() {
        assert_eq!(name("acme-0e1f2a3b.api.example.com").unwrap(), "acme-0e1f2a3b.api.example.com");
        for wrong in ["", "a b", "a/b", "ä.example", &"a".repeat(LONGEST + 1)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
