//! What a client says before it is known whom it wants: a PROXY header where there has to be one, then the ClientHello.

use std::net::SocketAddr;

use crate::ended::Ended;
use crate::hello::{Hello, Reader};
use crate::proxy::{self, Header};

/// What is to be done after some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read on.
    More,
    /// The client wants that name, if any.
    Name(Option<String>),
    /// End the connection.
    Refuse(Ended),
}

/// One that goes on.
pub(crate) struct Opening {
    /// Whose connection it is: the peer, until a header says another.
    pub(crate) client: SocketAddr,
    awaits_header: bool,
    /// All that came, without the header.
    pub(crate) bytes: Vec<u8>,
    hello: Reader,
}

impl Opening {
    /// `awaits_header`: the peer is a load balancer. `limit`: bytes of a ClientHello.
    pub(crate) fn new(peer: SocketAddr, awaits_header: bool, limit: usize) -> Self {
        Self { client: peer, awaits_header, bytes: vec![], hello: Reader::new(limit) }
    }

    /// A header is still to come: it is not known whose connection it is.
    pub(crate) fn awaits_header(&self) -> bool {
        self.awaits_header
    }

    /// Takes in what came next.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Step {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if self.awaits_header {
            return match proxy::header(&self.bytes) {
                Header::More => Step::More,
                Header::Bad => Step::Refuse(Ended::BadProxyHeader),
                Header::Of { client, length } => {
                    self.awaits_header = false;
                    self.client = client.unwrap_or(self.client);
                    self.bytes.drain(..length);
                    self.read(0)
                }
            };
        }
        self.read(begin)
    }

    /// Reads on from there.
    fn read(&mut self, begin: usize) -> Step {
        match self.hello.take(&self.bytes[begin..]) {
            Hello::More => Step::More,
            Hello::Of(name) => Step::Name(name),
            Hello::Refused(_) if proxy::is_header(&self.bytes) => Step::Refuse(Ended::ForgedProxyHeader),
            Hello::Refused(why) => Step::Refuse(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::tests::hello;
    use crate::proxy::tests::version_2;

    const PEER: &str = "192.0.2.9:5000";
    const V1: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 40000 443\r\n";

    /// The last step, whose connection it is, and what is passed on.
    fn opened(awaits_header: bool, bytes: &[u8], by: usize) -> (Step, String, Vec<u8>) {
        let mut opening = Opening::new(PEER.parse().unwrap(), awaits_header, 16 * 1024);
        let mut step = Step::More;
        for piece in bytes.chunks(by) {
            assert_eq!(step, Step::More);
            step = opening.take(piece);
            if matches!(step, Step::Refuse(_)) {
                break;
            }
        }
        (step, opening.client.to_string(), opening.bytes)
    }

    #[test]
    fn the_header_is_taken_off_and_all_else_is_passed_on() {
        let hello = hello("acme.example.com", 0);
        let name = Step::Name(Some("acme.example.com".to_owned()));
        for by in [1, 20, 10_000] {
            for header in [V1.to_vec(), version_2(Some("203.0.113.7:40000"))] {
                let all = [header, hello.clone()].concat();
                assert_eq!(opened(true, &all, by), (name.clone(), "203.0.113.7:40000".to_owned(), hello.clone()));
            }
            let own = [version_2(None), hello.clone()].concat();
            assert_eq!(opened(true, &own, by), (name.clone(), PEER.to_owned(), hello.clone()));
            assert_eq!(opened(false, &hello, by), (name.clone(), PEER.to_owned(), hello.clone()));
        }
        let more = [&hello[..], b"and more"].concat();
        assert_eq!(opened(false, &more, 10_000).2, more);
    }

    #[test]
    fn a_header_counts_where_it_has_to_be_and_nowhere_else() {
        let hello = hello("acme.example.com", 0);
        assert_eq!(opened(true, &hello, 10_000).0, Step::Refuse(Ended::BadProxyHeader));
        for header in [V1.to_vec(), version_2(Some("203.0.113.7:40000")), version_2(None)] {
            let all = [&header[..], &hello].concat();
            assert_eq!(opened(false, &all, 10_000).0, Step::Refuse(Ended::ForgedProxyHeader));
            let twice = [&header[..], &header, &hello].concat();
            assert_eq!(opened(true, &twice, 10_000).0, Step::Refuse(Ended::ForgedProxyHeader));
            assert!(matches!(opened(false, &all, 1).0, Step::Refuse(_)));
        }
        assert_eq!(opened(false, b"GET / HTTP/1.1\r\n\r\n", 10_000).0, Step::Refuse(Ended::BadHello));
    }
}
