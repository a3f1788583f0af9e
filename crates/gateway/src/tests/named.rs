//! Who comes by a name in a PROXY header, as `berth-api-proxy` does for pods.

use super::*;
use crate::proxy::tests::{authority_of, named_header, version_2};

/// What it begins with for that tenant.
fn header(name: &str) -> Vec<u8> {
    named_header(None, &[authority_of(&format!("{name}.example.com"))])
}

/// It is reset, and the log says why.
async fn refused(world: &World, bytes: &[u8], why: Ended) -> Value {
    let mut stream = world.connect().await;
    stream.write_all(bytes).await.unwrap();
    is_reset(&mut stream).await;
    world.ended(why).await
}

#[tokio::test]
async fn a_pod_reaches_its_tenant_though_it_sends_no_name_in_tls() {
    let world = World::named(limits());
    let (acme, other) = (Server::start("acme").await, Server::start("other").await);
    world.has(&[("acme", &[(acme.address, true)]), ("other", &[(other.address, true)])]);
    for (server, name) in [(&acme, "acme"), (&other, "other")] {
        let mut stream = world.connect().await;
        let client = stream.local_addr().unwrap();
        // Byte by byte, and a client of its own that nobody believes.
        let header = named_header(Some("203.0.113.7:1"), &[authority_of(&format!("{name}.example.com"))]);
        for byte in header {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        // As pods do, which dial an address.
        let mut tls = server.nameless(stream).await;
        assert_eq!(read(&mut tls, name.len() + 1).await, format!("{name}\n"));
        works(&mut tls).await;
        tls.shutdown().await.unwrap();
        assert_eq!(read(&mut tls, 7).await, "goodbye");
        drop(tls);
        let line = world.ended(Ended::Closed).await;
        assert_eq!((&line["client"], &line["tenant"]), (&json!(client.to_string()), &json!(format!("team-a/{name}"))));
        assert_eq!(line["name"], format!("{name}.example.com"));
    }
}

#[tokio::test]
async fn bytes_behind_the_header_are_passed_on_as_they_are() {
    let world = World::named(limits());
    let raw = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.has(&[("acme", &[(raw.local_addr().unwrap(), true)])]);
    let mut client = world.connect().await;
    client.write_all(&[&header("acme")[..], b"\0no TLS"].concat()).await.unwrap();
    let (mut server, _) = raw.accept().await.unwrap();
    assert_eq!(read(&mut server, 7).await, "\0no TLS");
    // One who says nothing after the header has its connection all the same.
    let mut silent = world.connect().await;
    silent.write_all(&header("acme")).await.unwrap();
    let (mut server, _) = raw.accept().await.unwrap();
    server.write_all(b"hello").await.unwrap();
    assert_eq!(read(&mut silent, 5).await, "hello");
}

#[tokio::test]
async fn ranges_and_limits_are_of_the_node_and_never_of_what_the_header_says() {
    let balanced = World::named(Limits { proxy_from: vec!["127.0.0.0/8".parse().unwrap()], ..limits() });
    let direct = World::named(limits());
    let acme = Server::start("acme").await;
    let mut route = leads("acme", &[(acme.address, true)]);
    route.source_ranges = Some(vec!["203.0.113.0/24".parse().unwrap()]);
    balanced.has_routes(vec![route.clone()]);
    direct.has_routes(vec![route]);
    let forged = named_header(Some("203.0.113.7:1"), &[authority_of("acme.example.com")]);
    refused(&direct, &forged, Ended::SourceRefused).await;
    let mut stream = balanced.connect().await;
    stream.write_all(&[version_2(Some("203.0.113.7:40000")), header("acme")].concat()).await.unwrap();
    let mut tls = acme.nameless(stream).await;
    works_after_greeting(&mut tls).await;
    drop(tls);
    assert_eq!(balanced.line().await["client"], "203.0.113.7:40000");
    let elsewhere = [version_2(Some("198.51.100.1:1")), forged.clone()].concat();
    assert_eq!(refused(&balanced, &elsewhere, Ended::SourceRefused).await["client"], "198.51.100.1:1");
    // Without the load balancer's header that of the proxy counts as such, and then there is none with a name.
    let own = [&forged[..], &[22, 3, 1, 2]].concat();
    refused(&balanced, &own, Ended::BadProxyHeader).await;
}

#[tokio::test]
async fn what_names_nobody_is_reset() {
    let world = World::named(limits());
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)]), ("none", &[])]);
    let hello = crate::hello::tests::hello("acme.example.com", 0);
    refused(&world, &hello, Ended::BadProxyHeader).await;
    refused(&world, b"PROXY TCP4 203.0.113.9 192.0.2.1 40001 443\r\n", Ended::BadProxyHeader).await;
    refused(&world, &[&header("nobody")[..], &hello].concat(), Ended::UnknownName).await;
    refused(&world, &[&version_2(None)[..], &hello].concat(), Ended::NoName).await;
    refused(&world, &[&header("none")[..], &hello].concat(), Ended::NoApiServer).await;
    // An endless one, and one that does not come to its end in time.
    let mut endless = header("acme");
    endless[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    endless.resize(4096, 0);
    refused(&world, &endless, Ended::BadProxyHeader).await;
    refused(&world, &header("acme")[..20], Ended::SlowHello).await;
    // A load balancer that looks whether somebody listens writes no line.
    drop(world.connect().await);
    refused(&world, &hello, Ended::BadProxyHeader).await;
}

#[tokio::test]
async fn who_has_not_named_a_tenant_yet_has_few_places() {
    let source = Most { open: None, opening: 2.try_into().unwrap(), rate: None };
    let world = World::named(Limits { source, hello_within: SOON, ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut named = world.connect().await;
    named.write_all(&header("acme")).await.unwrap();
    let mut tls = acme.nameless(named).await;
    works_after_greeting(&mut tls).await;
    let (_one, _two) = (world.connect().await, world.connect().await);
    let mut third = world.connect().await;
    is_reset(&mut third).await;
    world.ended(Ended::TooManyFromSource).await;
    works(&mut tls).await;
}

async fn works_after_greeting(tls: &mut TlsStream<TcpStream>) {
    assert_eq!(read(tls, 5).await, "acme\n");
    works(tls).await;
}
