//! The program in a network namespace, as on a node: its address, whom it dials, and how it ends. These tests make namespaces and need root. They
//! fail unless BERTH_REAL=1, rather than pass as if they had run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod node;

use nix::sys::signal::Signal;
use node::{Node, OWN, answer, read, take, until};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

/// The name that a gateway is told, and by whom, for whom.
fn told(header: &[u8]) -> (Option<String>, proxy_header::ProxiedAddress) {
    let (read, length) = proxy_header::ProxyHeader::parse(header, proxy_header::ParseConfig::default()).unwrap();
    assert_eq!(length, header.len());
    (read.authority().map(str::to_owned), read.proxied_address().unwrap().clone())
}

#[test]
fn what_a_pod_says_is_carried_behind_a_header_and_ends_are_passed_on() {
    let node = Node::new();
    let gateway = node.listen("127.0.0.1:6444");
    // Two addresses: nobody listens on the one of IPv6.
    let proxy = node.start(&["--to=localhost:6444", "--name=acme.api.example.com"]);
    let own = OWN.parse().unwrap();
    let (name, asks) = told(&answer(&gateway));
    assert_eq!((name.as_deref(), asks.source, asks.destination), (Some("acme.api.example.com"), own, own));
    until("ready", || node.get("/readyz") == Some(200));

    let mut pod = node.dial(OWN).unwrap();
    pod.write_all(b"a ClientHello").unwrap();
    let (bytes, mut api) = take(&gateway, b"a ClientHello");
    let (name, of_pod) = told(bytes.strip_suffix(b"a ClientHello").unwrap());
    assert_eq!(name.as_deref(), Some("acme.api.example.com"));
    assert_eq!((of_pod.source, of_pod.destination), (pod.local_addr().unwrap(), own));

    // Either side ends, and the other goes on.
    pod.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&mut api), b"");
    api.write_all(b"goodbye").unwrap();
    drop(api);
    assert_eq!(read(&mut pod), b"goodbye");

    // A reset is one to the other side, too.
    let pod = node.dial(OWN).unwrap();
    let (mut api, _) = gateway.accept().unwrap();
    socket2::SockRef::from(&pod).set_linger(Some(Duration::ZERO)).unwrap();
    drop(pod);
    let mut all = vec![];
    assert_eq!(api.read_to_end(&mut all).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    drop(proxy);
}

#[test]
fn it_ends_when_it_is_told_to_and_its_address_stays_for_the_next_one() {
    let node = Node::new();
    let api = node.listen("127.0.0.1:6443");
    let mut proxy = node.start(&["--to=127.0.0.1:6443", "--drain=200ms"]);
    // Without a name there is no header.
    assert_eq!(answer(&api), b"");
    let mut pod = node.dial(OWN).unwrap();
    pod.write_all(b"hello").unwrap();
    let (mut carried, _) = api.accept().unwrap();
    let mut begin = [0; 5];
    carried.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"hello");
    let lo = node.ip("-4 addr show dev lo");
    assert!(lo.contains("inet 240.0.0.1/32 scope host") && lo.contains("valid_lft"), "{lo}");

    proxy.signal(Signal::SIGTERM);
    assert!(proxy.ended(), "with success");
    // The one that was open has ended with it.
    assert!(carried.read(&mut begin).is_ok_and(|count| count == 0) || carried.read(&mut begin).is_err());
    assert!(
        node.ip("-4 addr show dev lo").contains("inet 240.0.0.1/32"),
        "who comes meanwhile is refused, and not lost"
    );
    assert_eq!(node.dial(OWN).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    let _next = node.start(&["--to=127.0.0.1:6443"]);
    answer(&api);
    until("ready", || node.get("/readyz") == Some(200));
}

#[test]
fn while_nobody_answers_it_lives_is_not_ready_and_resets() {
    let node = Node::new();
    let proxy = node.start(&["--to=127.0.0.1:6443", "--dial-timeout=300ms"]);
    until("a word about it", || {
        proxy.log().contains("cannot connect to 127.0.0.1:6443: 127.0.0.1:6443: Connection refused")
    });
    assert_eq!((node.get("/healthz"), node.get("/readyz")), (Some(200), Some(503)));
    for _ in 0..3 {
        let mut pod = node.dial(OWN).unwrap();
        let mut all = vec![];
        assert_eq!(pod.read_to_end(&mut all).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
    let api = node.listen("127.0.0.1:6443");
    answer(&api);
    until("ready", || node.get("/readyz") == Some(200));
    assert_eq!(proxy.log().matches("cannot connect").count(), 1, "{}", proxy.log());
    assert!(proxy.log().contains("127.0.0.1:6443 answers again"), "{}", proxy.log());
}

/// As a load balancer, or a gateway that does not know the name.
#[test]
fn who_takes_connections_and_ends_them_is_no_api() {
    let node = Node::new();
    let gateway = node.listen("127.0.0.1:6444");
    let proxy = node.start(&["--to=127.0.0.1:6444", "--name=acme.api.example.com"]);
    let (stream, _) = gateway.accept().unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    until("a word about it", || {
        proxy.log().contains("cannot connect to 127.0.0.1:6444: it takes connections, and does not answer")
    });
    assert_eq!(node.get("/readyz"), Some(503));
    // That a pod's connection is taken says nothing either.
    let _pod = node.dial(OWN).unwrap();
    let _taken = gateway.accept().unwrap();
    assert_eq!(node.get("/readyz"), Some(503));
    answer(&gateway);
    until("ready", || node.get("/readyz") == Some(200));
}

/// Such as where its address is the load balancer's.
#[test]
fn a_host_that_leads_to_itself_is_no_circle() {
    let node = Node::new();
    let proxy = node.start(&["--to=240.0.0.1:6443"]);
    until("a word about it", || {
        proxy.log().contains("cannot connect to 240.0.0.1:6443: it has the address of this program")
    });
    let read = node.dial(OWN).and_then(|mut pod| pod.read(&mut [0; 1]));
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn more_connections_than_it_may_have_are_reset_and_ipv6_works_as_well() {
    let node = Node::new();
    let api = node.listen("[::1]:6443");
    let own = "[fd00:240::1]:6443";
    let _proxy = node.start_at(own, &["--to=[::1]:6443", "--max-connections=1"]);
    answer(&api);
    let mut first = node.dial(own).unwrap();
    let (mut carried, _) = api.accept().unwrap();
    // As early as it is dialled.
    let second = node.dial(own).and_then(|mut second| second.read(&mut [0; 1]));
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    first.write_all(b"still").unwrap();
    carried.read_exact(&mut [0; 5]).unwrap();
}
