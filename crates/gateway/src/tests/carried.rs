//! What is carried, and where to.

use super::*;
use crate::hello::tests::hello;

#[tokio::test]
async fn two_tenants_reach_their_own() {
    let world = World::start(limits());
    let (mut acme, mut other) = (Server::start("acme").await, Server::start("other").await);
    world.has(&[("acme", &[(acme.address, true)]), ("other", &[(other.address, true)])]);
    for (server, name) in [(&mut acme, "acme"), (&mut other, "other")] {
        let mut tls = server.through(&world, name).await;
        works(&mut tls).await;
        let client = tls.get_ref().0.local_addr().unwrap();
        tls.shutdown().await.unwrap();
        assert_eq!(read(&mut tls, 7).await, "goodbye", "{name}: what comes after the client has ended");
        assert_eq!(tls.read(&mut [0; 1]).await.unwrap(), 0);
        drop(tls);
        let line = world.ended(Ended::Closed).await;
        assert_eq!(line["client"], client.to_string());
        assert_eq!(line["tenant"], format!("team-a/{name}"));
        assert_eq!(line["name"], format!("{name}.example.com"));
        assert_eq!(line["apiServer"], server.address.to_string());
        assert_eq!(line["gateway"], server.peers.recv().await.unwrap().to_string(), "what an audit log has");
        assert!(line["bytesUp"].as_u64().unwrap() > 200 && line["bytesDown"].as_u64().unwrap() > 500, "{line}");
    }
    let rows = world.gateway.live.rows();
    assert!(rows.own.iter().all(|(_, sum)| (sum.open, sum.opened) == (0, 1) && sum.up > 200 && sum.down > 500));
    assert_eq!(world.count(Ended::Closed), 2);
}

#[tokio::test]
async fn many_bytes_arrive_as_they_are_both_ways_at_once() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let tls = acme.through(&world, "acme").await;
    let sent: Vec<u8> =
        (0..6_000_000u32).map(|at| u8::try_from(at.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    let (mut from, mut to) = tokio::io::split(tls);
    let bytes = sent.clone();
    let writes = tokio::spawn(async move {
        to.write_all(&bytes).await.unwrap();
        to.shutdown().await.unwrap();
    });
    // All buffers on the way are full by then.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut got = vec![];
    from.read_to_end(&mut got).await.unwrap();
    writes.await.unwrap();
    assert!(got == [&sent[..], b"goodbye"].concat(), "{} bytes", got.len());
}

#[tokio::test]
async fn a_long_hello_is_carried_byte_by_byte() {
    let world = World::start(Limits { hello_within: SOON, ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    for (hello, by) in [(hello("acme.example.com", 0), 1), (hello("ACME.example.com", 75), 997)] {
        let mut stream = world.connect().await;
        for piece in hello.chunks(by) {
            stream.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [22, 3], "a handshake goes on, {} bytes by {by}", hello.len());
    }
}

#[tokio::test]
async fn connections_go_where_there_are_the_fewest() {
    let world = World::start(limits());
    let (mut one, mut two) = (Server::start("acme").await, Server::start("acme").await);
    world.has(&[("acme", &[(one.address, true), (two.address, true)])]);
    let mut open = vec![];
    for at in 0..4 {
        let server = if at % 2 == 0 { &one } else { &two };
        open.push(server.through(&world, "acme").await);
    }
    let seen = |server: &mut Server| std::iter::from_fn(|| server.peers.try_recv().ok()).count();
    assert_eq!((seen(&mut one), seen(&mut two)), (2, 2));
}

/// One that refuses, and one that does not even do that.
#[tokio::test]
async fn an_api_server_that_takes_no_connection_is_passed_by() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    let refuses = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // The queue of who waits to be accepted is full.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    full.listen(0).unwrap();
    let hangs = full.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = vec![];
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(hangs)).await {
        waiting.push(stream.unwrap());
    }
    world.has(&[("acme", &[(hangs, true), (refuses, true), (acme.address, true)])]);
    let begin = Instant::now();
    let mut tls = acme.through(&world, "acme").await;
    works(&mut tls).await;
    assert!(begin.elapsed() >= limits().dial_within, "the first one was waited for");
    drop(tls);
    assert_eq!(world.line().await["apiServer"], acme.address.to_string());

    world.has(&[("acme", &[(hangs, true), (refuses, true), (acme.address, false)])]);
    let mut stream = world.connect().await;
    stream.write_all(&hello("acme.example.com", 0)).await.unwrap();
    is_reset(&mut stream).await;
    world.ended(Ended::Unreachable).await;
}
