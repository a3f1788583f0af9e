//! The PROXY protocol: by versions 1 and 2 a load balancer says from where a client comes, and by version 2 `berth-api-proxy` says which tenant it
//! wants.

use berth_contract::gateway::comparable;
use proxy_header::{Error, ParseConfig, Protocol, ProxyHeader, Tlv};
use rustls::pki_types::DnsName;
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

/// What is known after some bytes of a header that names a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// It is not complete.
    More,
    /// It has so many bytes.
    Of {
        /// The host name (type 0x02), as [`comparable`] has it. None: it has none.
        name: Option<String>,
        length: usize,
    },
    /// There is none, or it cannot be read.
    Bad,
}

/// The header at the begin of these bytes that names a tenant, of version 2. Whose connection it says to be does not count: anybody may write it.
pub(crate) fn named(bytes: &[u8]) -> Named {
    let config = ParseConfig { include_tlvs: true, allow_v1: false, allow_v2: true };
    match ProxyHeader::parse(bytes, config) {
        Ok((header, length)) if length <= LONGEST => match authority(&header) {
            Ok(name) => Named::Of { name, length },
            Err(()) => Named::Bad,
        },
        Err(Error::BufferTooShort) if bytes.len() < LONGEST => Named::More,
        Ok(_) | Err(_) => Named::Bad,
    }
}

/// Err: a field cannot be read, or there are two names, or one that is none.
fn authority(header: &ProxyHeader<'_>) -> Result<Option<String>, ()> {
    let mut name = None;
    for field in header.tlvs() {
        if let Tlv::Authority(text) = field.map_err(|_| ())? {
            DnsName::try_from(&*text).map_err(|_| ())?;
            if name.replace(comparable(&text)).is_some() {
                return Err(());
            }
        }
    }
    Ok(name)
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

    /// Of `berth-api-proxy`, for that tenant; with a client that nobody believes, if any.
    pub(crate) fn named_header(client: Option<&str>, fields: &[Tlv<'_>]) -> Vec<u8> {
        let mut header = client.map_or_else(ProxyHeader::with_local, |client| {
            ProxyHeader::with_address(ProxiedAddress::stream(
                client.parse().unwrap(),
                "240.0.0.1:6443".parse().unwrap(),
            ))
        });
        for field in fields {
            header.append_tlv(field.clone());
        }
        let mut bytes = vec![0; 8192];
        let length = header.encode_to_slice_v2(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn authority_of(name: &str) -> Tlv<'_> {
        Tlv::Authority(name.into())
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

    #[test]
    fn the_name_is_read_however_the_header_is_split() {
        let other = Tlv::UniqueId(b"17".as_slice().into());
        for (bytes, name) in [
            (named_header(None, &[authority_of("acme.example.com")]), Some("acme.example.com")),
            (
                named_header(Some("10.1.2.3:1"), &[other.clone(), authority_of("ACME.Example.com.")]),
                Some("acme.example.com"),
            ),
            (named_header(None, &[other]), None),
            (named_header(None, &[]), None),
        ] {
            for length in 0..bytes.len() {
                assert_eq!(named(&bytes[..length]), Named::More, "{length} of {bytes:?}");
            }
            let whole = Named::Of { name: name.map(str::to_owned), length: bytes.len() };
            assert_eq!(named(&bytes), whole);
            assert_eq!(named(&[&bytes[..], &[22, 3, 1]].concat()), whole);
        }
    }

    #[test]
    fn a_header_that_names_no_tenant_is_refused() {
        let acme = authority_of("acme.example.com");
        let mut cut = named_header(None, std::slice::from_ref(&acme));
        // The field says that it has a byte more than the header.
        let field = 16 + 2;
        cut[field] += 1;
        let padded = |size: usize| named_header(None, &[acme.clone(), Tlv::Noop(size)]);
        let plain = padded(0).len();
        for bytes in [
            cut,
            named_header(None, &[acme.clone(), acme.clone()]),
            named_header(None, &[authority_of("")]),
            named_header(None, &[authority_of("192.0.2.1")]),
            named_header(None, &[authority_of("acme/example.com")]),
            b"PROXY TCP4 203.0.113.7 192.0.2.1 40000 443\r\n".to_vec(),
            vec![22, 3, 1, 2],
            padded(LONGEST - plain + 1),
        ] {
            assert_eq!(named(&bytes), Named::Bad, "{bytes:?}");
        }
        assert!(matches!(named(&padded(LONGEST - plain)), Named::Of { .. }));
    }
}
