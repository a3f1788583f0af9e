//! Whom a ClientHello is for. It is read from a copy of the bytes: nothing of the handshake is done here.

use berth_contract::gateway::comparable;
use rustls::server::Acceptor;

use crate::ended::Ended;

/// What is known after some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// It is not complete.
    More,
    /// It is, and has this server name, if any, as [`comparable`] has it. An address is no name.
    Of(Option<String>),
    /// It cannot be read, or is too long.
    Refused(Ended),
}

/// Reads a ClientHello, however it is split.
pub(crate) struct Reader {
    acceptor: Box<Acceptor>,
    left: usize,
}

impl Reader {
    /// `limit`: bytes that it may have, with the heads of its records.
    pub(crate) fn new(limit: usize) -> Self {
        Self { acceptor: Box::default(), left: limit }
    }

    /// Takes in what came next. Not to be called again once it said something other than [`Hello::More`].
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Hello {
        let mut rest = bytes.get(..self.left).unwrap_or(bytes);
        while !rest.is_empty() {
            let Ok(read @ 1..) = self.acceptor.read_tls(&mut rest) else { return Hello::Refused(Ended::BadHello) };
            self.left -= read;
            match self.acceptor.accept() {
                Ok(Some(accepted)) => return Hello::Of(accepted.client_hello().server_name().map(comparable)),
                Ok(None) => {}
                Err(_) => return Hello::Refused(Ended::BadHello),
            }
        }
        if self.left == 0 { Hello::Refused(Ended::LongHello) } else { Hello::More }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;

    const LIMIT: usize = 16 * 1024;

    /// What a client begins with; with so many protocols of 200 letters each it is longer.
    pub(crate) fn hello(name: &str, protocols: usize) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = vec![vec![b'a'; 200]; protocols];
        let name = name.to_owned().try_into().unwrap();
        let mut bytes = vec![];
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut bytes).unwrap();
        bytes
    }

    /// The handshake message in records of at most so many bytes.
    fn in_records(hello: &[u8], of: usize) -> Vec<u8> {
        let parts = hello[5..].chunks(of);
        parts
            .flat_map(|part| [&[22, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes()[..], part].concat())
            .collect()
    }

    fn of(name: &str) -> Hello {
        Hello::Of(Some(name.to_owned()))
    }

    /// Fed by pieces of at most so many bytes: what it says, and how many bytes it was fed.
    fn fed(bytes: &[u8], by: usize) -> (Hello, usize) {
        let (mut reader, mut count) = (Reader::new(LIMIT), 0);
        for piece in bytes.chunks(by) {
            count += piece.len();
            match reader.take(piece) {
                Hello::More => {}
                said => return (said, count),
            }
        }
        (Hello::More, count)
    }

    #[test]
    fn it_is_read_however_it_is_split() {
        let whole = hello("acme.example.com", 1);
        for records in [whole.clone(), in_records(&whole, 100), in_records(&whole, 1)] {
            for by in [1, 7, 300, LIMIT] {
                assert_eq!(fed(&records, by).0, of("acme.example.com"), "{} bytes by {by}", records.len());
            }
        }
        let last = whole.len() - 1;
        assert_eq!(fed(&whole[..last], 1), (Hello::More, last), "not before its last byte");
    }

    #[test]
    fn it_may_have_sixteen_kib_and_no_byte_more() {
        // Records have a head of five bytes each: as many as are needed to fill what is left.
        let padded = |size: usize| {
            for protocols in (0..90).rev() {
                let one = hello("acme.example.com", protocols);
                let message = one.len() - 5;
                let Some(fill) = size.checked_sub(message).filter(|fill| *fill >= 5) else { continue };
                let heads = fill / 5;
                if fill.is_multiple_of(5) && heads < message {
                    let (tiny, rest) = one[5..].split_at(heads - 1);
                    let record = |part: &[u8]| in_records(&[&[0; 5][..], part].concat(), LIMIT);
                    return [tiny.iter().flat_map(|byte| record(&[*byte])).collect::<Vec<u8>>(), record(rest)].concat();
                }
            }
            panic!("no ClientHello of {size} bytes")
        };
        let (exact, longer) = (padded(LIMIT), padded(LIMIT + 5));
        assert_eq!((exact.len(), longer.len()), (LIMIT, LIMIT + 5));
        for by in [1, 4096, LIMIT * 2] {
            assert_eq!(fed(&exact, by).0, of("acme.example.com"), "by {by}");
            assert_eq!(fed(&longer, by).0, Hello::Refused(Ended::LongHello), "by {by}");
        }
        // One byte less of a limit is one byte more of a ClientHello.
        let mut reader = Reader::new(LIMIT - 1);
        assert_eq!(reader.take(&exact), Hello::Refused(Ended::LongHello));
    }

    #[test]
    fn names_are_of_one_form_and_an_address_is_none() {
        let name = |of: &str, becomes: &str| {
            let mut bytes = hello(of, 0);
            let at = bytes.windows(of.len()).position(|part| part == of.as_bytes()).unwrap();
            bytes[at..at + of.len()].copy_from_slice(becomes.as_bytes());
            fed(&bytes, LIMIT).0
        };
        assert_eq!(name("acme.example.com", "ACME.Example.coM"), of("acme.example.com"));
        assert_eq!(name("acme.example.com", "acme.example.co."), of("acme.example.co"));
        assert_eq!(name("a.bb.example", "192.168.1.10"), Hello::Of(None));
        assert_eq!(name("acme.example.com", "acme/example.com"), Hello::Refused(Ended::BadHello));
        assert_eq!(fed(&hello("192.0.2.1", 0), LIMIT).0, Hello::Of(None), "clients send no address");
    }

    #[test]
    fn what_is_no_hello_is_refused() {
        for garbage in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"SSH-2.0-OpenSSH\r\n", &[0; 64], &[0xff; 64]] {
            for by in [1, LIMIT] {
                assert_eq!(fed(garbage, by).0, Hello::Refused(Ended::BadHello), "{garbage:?} by {by}");
            }
        }
        // A handshake message of another type, and an alert.
        let mut other = hello("acme.example.com", 0);
        other[5] = 2;
        assert_eq!(fed(&other, LIMIT).0, Hello::Refused(Ended::BadHello));
        assert_eq!(fed(&[21, 3, 3, 0, 2, 2, 40], LIMIT).0, Hello::Refused(Ended::BadHello));
        // Records without content never end.
        let empty = [22, 3, 1, 0, 0].repeat(LIMIT);
        assert!(matches!(fed(&empty, LIMIT).0, Hello::Refused(_)));
    }

    #[test]
    fn what_comes_behind_it_does_not_matter() {
        let bytes = [hello("acme.example.com", 0), vec![23, 3, 3, 0, 1, 0], vec![7; 40_000]].concat();
        assert_eq!(fed(&bytes, LIMIT * 4).0, of("acme.example.com"));
    }
}
