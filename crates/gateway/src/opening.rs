//! What a client says before it is known whom it wants: a load balancer's PROXY header where there has to be one, then what has the name.

use std::net::SocketAddr;

use crate::ended::Ended;
use crate::hello::{Hello, Reader};
use crate::proxy::{self, Header, Named};

/// Where a client says whom it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// In its ClientHello, which is passed on.
    ServerName,
    /// In a PROXY header of `berth-api-proxy`, which is taken off: it comes for pods, which send no server name. Nothing behind it is read.
    Header,
}

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
    /// All that came, without headers.
    pub(crate) bytes: Vec<u8>,
    /// None: a header has the name.
    hello: Option<Reader>,
}

impl Opening {
    /// `awaits_header`: the peer is a load balancer. `limit`: bytes of a ClientHello.
    pub(crate) fn new(peer: SocketAddr, awaits_header: bool, by: By, limit: usize) -> Self {
        let hello = (by == By::ServerName).then(|| Reader::new(limit));
        Self { client: peer, awaits_header, bytes: vec![], hello }
    }

    /// A load balancer's header is still to come: it is not known whose connection it is.
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
        let Some(hello) = &mut self.hello else { return self.named() };
        match hello.take(&self.bytes[begin..]) {
            Hello::More => Step::More,
            Hello::Of(name) => Step::Name(name),
            Hello::Refused(_) if proxy::is_header(&self.bytes) => Step::Refuse(Ended::ForgedProxyHeader),
            Hello::Refused(why) => Step::Refuse(why),
        }
    }

    /// Reads the header that has the name, as far as it is there.
    fn named(&mut self) -> Step {
        match proxy::named(&self.bytes) {
            Named::More => Step::More,
            Named::Bad => Step::Refuse(Ended::BadProxyHeader),
            Named::Of { name, length } => {
                self.bytes.drain(..length);
                Step::Name(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::tests::hello;
    use crate::proxy::tests::{authority_of, named_header, version_2};

    const PEER: &str = "192.0.2.9:5000";
    const V1: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 40000 443\r\n";

    /// The last step, whose connection it is, and what is passed on.
    fn opened(awaits_header: bool, bytes: &[u8], by: usize) -> (Step, String, Vec<u8>) {
        opened_by(By::ServerName, awaits_header, bytes, by)
    }

    fn opened_by(whom: By, awaits_header: bool, bytes: &[u8], by: usize) -> (Step, String, Vec<u8>) {
        let mut opening = Opening::new(PEER.parse().unwrap(), awaits_header, whom, 16 * 1024);
        let mut step = Step::More;
        let mut pieces = bytes.chunks(by);
        for piece in &mut pieces {
            step = opening.take(piece);
            if step != Step::More {
                break;
            }
        }
        // What comes later is copied as it is.
        opening.bytes.extend(pieces.flatten());
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

    /// By a name in a header, nothing is looked at behind it, and the client that it tells is not believed.
    #[test]
    fn the_header_with_the_name_comes_after_the_load_balancers_and_both_are_taken_off() {
        let name = Step::Name(Some("acme.example.com".to_owned()));
        for by in [1, 7, 20, 10_000] {
            for (own, behind) in [
                (named_header(None, &[authority_of("acme.example.com")]), &b"no TLS at all"[..]),
                (named_header(Some("198.51.100.1:1"), &[authority_of("ACME.example.com")]), V1),
            ] {
                let all = [&own, behind].concat();
                let wanted = (name.clone(), PEER.to_owned(), behind.to_vec());
                assert_eq!(opened_by(By::Header, false, &all, by), wanted, "by {by}");
                for balancer in [V1.to_vec(), version_2(Some("203.0.113.7:40000"))] {
                    let all = [&balancer, &all[..]].concat();
                    let wanted = (name.clone(), "203.0.113.7:40000".to_owned(), behind.to_vec());
                    assert_eq!(opened_by(By::Header, true, &all, by), wanted, "by {by}");
                }
            }
        }
    }

    #[test]
    fn what_names_nobody_in_a_header_is_refused() {
        let hello = hello("acme.example.com", 0);
        let own = named_header(None, &[authority_of("acme.example.com")]);
        for (awaits_header, bytes, step) in [
            (false, hello.clone(), Step::Refuse(Ended::BadProxyHeader)),
            (true, [&own[..], &hello].concat(), Step::Refuse(Ended::BadProxyHeader)),
            (false, [&version_2(None)[..], &own].concat(), Step::Name(None)),
            (true, [V1, &hello].concat(), Step::Refuse(Ended::BadProxyHeader)),
            (true, [V1, V1, &own].concat(), Step::Refuse(Ended::BadProxyHeader)),
            (false, own[..own.len() - 1].to_vec(), Step::More),
        ] {
            assert_eq!(opened_by(By::Header, awaits_header, &bytes, 10_000).0, step, "{awaits_header} {bytes:?}");
        }
    }
}
