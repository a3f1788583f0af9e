//! The PROXY protocol, versions 1 and 2, by which a load balancer says from where a client comes.

use proxy_header::{Error, ParseConfig, Protocol, ProxyHeader};
use std::net::{IpAddr, SocketAddr};

/// Longer than any that a load balancer sends.
const LONGEST: usize = 4096;

/// What is known after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// It is not complete.
    More,
    /// It has so many bytes.
    Of {
        /// The client. None: the load balancer comes for itself, such as to see whether this still answers.
        client: Option<SocketAddr>,
        length: usize,
    },
    /// There is none, or it cannot be read.
    Bad,
}

/// The header at the begin of these bytes, from the first byte on.
pub(crate) fn header(bytes: &[u8]) -> Header {
    let config = ParseConfig { include_tlvs: false, allow_v1: true, allow_v2: true };
    match ProxyHeader::parse(bytes, config) {
        Ok((header, length)) => match header.proxied_address() {
            None => Header::Of { client: None, length },
            Some(of) if of.protocol == Protocol::Stream => Header::Of { client: Some(canonical(of.source)), length },
            Some(_) => Header::Bad,
        },
        Err(Error::BufferTooShort) if bytes.len() < LONGEST => Header::More,
        Err(_) => Header::Bad,
    }
}

/// Whether somebody sends a header whom nobody would believe.
pub(crate) fn is_header(bytes: &[u8]) -> bool {
    [&b"PROXY "[..], b"\r\n\r\n\0\r\nQUIT\n"].iter().any(|begin| bytes.starts_with(begin))
}

/// An IPv4 address as such, also where a socket for IPv6 has it.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proxy_header::ProxiedAddress;

    /// Version 2, from that client; with None by the load balancer itself.
    pub(crate) fn version_2(client: Option<&str>) -> Vec<u8> {
        let header = client.map_or_else(ProxyHeader::with_local, |client| {
            let client: SocketAddr = client.parse().unwrap();
            let to = if client.is_ipv4() { "192.0.2.1:443" } else { "[2001:db8::1]:443" };
            ProxyHeader::with_address(ProxiedAddress::stream(client, to.parse().unwrap()))
        });
        let mut bytes = vec![0; 256];
        let length = header.encode_to_slice_v2(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    fn client(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn both_versions_are_read_to_their_last_byte_and_no_further() {
        for (bytes, from) in [
            (b"PROXY TCP4 203.0.113.7 192.0.2.1 40000 443\r\n".to_vec(), Some(client("203.0.113.7:40000"))),
            (b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n".to_vec(), Some(client("[2001:db8::7]:40000"))),
            (b"PROXY TCP6 ::ffff:203.0.113.7 ::ffff:192.0.2.1 1 443\r\n".to_vec(), Some(client("203.0.113.7:1"))),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN 1 2 3 4\r\n".to_vec(), None),
            (version_2(Some("203.0.113.7:40000")), Some(client("203.0.113.7:40000"))),
            (version_2(Some("[2001:db8::7]:40000")), Some(client("[2001:db8::7]:40000"))),
            (version_2(None), None),
        ] {
            assert!(is_header(&bytes) || bytes.len() < 12);
            for length in 0..bytes.len() {
                assert_eq!(header(&bytes[..length]), Header::More, "{length} of {bytes:?}");
            }
            let whole = Header::Of { client: from, length: bytes.len() };
            assert_eq!(header(&bytes), whole);
            assert_eq!(header(&[&bytes[..], &[22, 3, 1]].concat()), whole);
        }
    }

    #[test]
    fn what_is_none_is_refused_and_so_is_one_without_an_end() {
        let mut datagram = version_2(Some("203.0.113.7:40000"));
        datagram[13] = 0x12;
        let mut other = version_2(None);
        other[12] = 0x31;
        for bytes in [
            &[22, 3, 1, 2][..],
            b"PROXY TCP4 here there 40000 443\r\n",
            b"PROXY TCP4 203.0.113.7 192.0.2.1 70000 443\r\n",
            b"PROXY TCP5 203.0.113.7 192.0.2.1 40000 443\r\n",
            b"POST / HTTP/1.1\r\n",
            &[&b"PROXY UNKNOWN "[..], &[b'a'; 200]].concat(),
            &datagram,
            &other,
        ] {
            assert_eq!(header(bytes), Header::Bad, "{bytes:?}");
        }
        let mut endless = version_2(None);
        endless[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(header(&endless), Header::More);
        endless.resize(LONGEST, 0);
        assert_eq!(header(&endless), Header::Bad);
        assert!(!is_header(&[22, 3, 1]) && !is_header(b"PRO"));
    }
}
