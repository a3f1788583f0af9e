//! How connections end that were carried.

use super::*;

#[tokio::test]
async fn what_happens_to_one_side_is_passed_on_to_the_other() {
    let world = World::start(limits());
    let raw = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.has(&[("acme", &[(raw.local_addr().unwrap(), true)])]);
    let hello = crate::hello::tests::hello("acme.example.com", 0);
    let open = async || {
        let mut client = world.connect().await;
        client.write_all(&hello).await.unwrap();
        let (mut server, _) = raw.accept().await.unwrap();
        let mut begin = vec![0; hello.len()];
        server.read_exact(&mut begin).await.unwrap();
        assert_eq!(begin, hello, "byte for byte");
        (client, server)
    };
    // Either side ends first, and the other goes on.
    for client_first in [true, false] {
        let (client, server) = open().await;
        let (mut first, mut second) = if client_first { (client, server) } else { (server, client) };
        first.shutdown().await.unwrap();
        assert_eq!(second.read(&mut [0; 1]).await.unwrap(), 0);
        second.write_all(b"and this").await.unwrap();
        assert_eq!(read(&mut first, 8).await, "and this");
        second.shutdown().await.unwrap();
        assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0);
        world.ended(Ended::Closed).await;
    }
    let (mut client, server) = open().await;
    socket::reset(&server);
    drop(server);
    is_reset(&mut client).await;
    world.ended(Ended::ApiServerReset).await;
    let (client, mut server) = open().await;
    socket::reset(&client);
    drop(client);
    is_reset(&mut server).await;
    world.ended(Ended::ClientReset).await;
}

/// Otherwise whoever says nothing more would count as one of the tenant's connections for ever.
#[tokio::test]
async fn a_client_that_stays_when_the_api_server_has_ended_is_reset() {
    let world = World::start(Limits { stays: Duration::from_millis(200), ..limits() });
    let raw = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.has(&[("acme", &[(raw.local_addr().unwrap(), true)])]);
    let mut client = world.connect().await;
    let hello = crate::hello::tests::hello("acme.example.com", 0);
    client.write_all(&hello).await.unwrap();
    let (mut server, _) = raw.accept().await.unwrap();
    server.read_exact(&mut vec![0; hello.len()]).await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    world.ended(Ended::ClientReset).await;
    is_reset(&mut server).await;
    assert_eq!(world.gateway.live.rows().own[0].1.open, 0);
}

#[tokio::test]
async fn an_api_server_that_is_unready_keeps_its_connections_and_one_that_is_gone_does_not() {
    let world = World::start(limits());
    let (one, two) = (Server::start("acme").await, Server::start("acme").await);
    world.has(&[("acme", &[(one.address, true)])]);
    let mut early = one.through(&world, "acme").await;
    world.has(&[("acme", &[(one.address, false), (two.address, true)])]);
    let mut late = two.through(&world, "acme").await;
    works(&mut early).await;
    world.has(&[("acme", &[(two.address, true)])]);
    is_reset_tls(&mut early).await;
    assert_eq!(world.ended(Ended::ApiServerGone).await["apiServer"], one.address.to_string());
    works(&mut late).await;
    world.has(&[]);
    is_reset_tls(&mut late).await;
    world.ended(Ended::ApiServerGone).await;
}

#[tokio::test]
async fn one_that_ends_lets_nobody_in_and_sends_those_away_who_are_in_one_by_one() {
    let drain = Duration::from_secs(2);
    let world = World::start(Limits { drain, ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut open = vec![];
    for _ in 0..10 {
        open.push(acme.through(&world, "acme").await);
    }
    let begin = Instant::now();
    world.gateway.stop.cancel();
    let ends = open.into_iter().map(|mut tls| {
        tokio::spawn(async move {
            // An end without TLS' own, which only the API server could send.
            let read = tls.read(&mut [0; 1]).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            begin.elapsed()
        })
    });
    let ends: Vec<_> = ends.collect();
    world.gateway.drained().await;
    let took = begin.elapsed();
    assert!(took <= drain + Duration::from_secs(1), "{took:?}");
    let mut after = vec![];
    for end in ends {
        after.push(end.await.unwrap());
    }
    after.sort();
    assert!(after[9].abs_diff(after[0]) > drain / 2, "{after:?}");
    assert!(after.windows(2).all(|two| two[1].abs_diff(two[0]) < drain / 2), "{after:?}");
    for _ in 0..10 {
        world.ended(Ended::Drained).await;
    }
    let refused = TcpStream::connect(world.address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

/// It does not wait for a time at which there is nobody left.
#[tokio::test]
async fn one_that_ends_does_so_once_all_have_left() {
    let world = World::start(Limits { drain: Duration::from_hours(1), ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    // The first of all numbers leaves at once.
    drop(acme.through(&world, "acme").await);
    world.line().await;
    let mut tls = acme.through(&world, "acme").await;
    world.gateway.stop.cancel();
    works(&mut tls).await;
    drop(tls);
    tokio::time::timeout(SOON, world.gateway.drained()).await.unwrap();
}
