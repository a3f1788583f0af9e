//! Connections to tenants that sleep.

use super::*;
use crate::hello::tests::hello;
use crate::proxy::tests::{authority_of, named_header};
use berth_contract::gateway::Hibernates;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Asleep, and a connection wakes it.
fn sleeps(name: &str, from: Option<&str>) -> Route {
    let from = from.map(|range| vec![range.parse().unwrap()]);
    Route { hibernation: Some(Hibernates { wakes: true, from, closed: false }), ..leads(name, &[]) }
}

fn awake(server: &Server) -> Route {
    Route {
        hibernation: Some(Hibernates { wakes: true, ..Hibernates::default() }),
        ..leads(server.name, &[(server.address, true)])
    }
}

/// Comes to it, and says whom it wants.
async fn calls(world: &World, name: &str) -> TcpStream {
    let mut stream = world.connect().await;
    stream.write_all(&hello(&format!("{name}.example.com"), 0)).await.unwrap();
    stream
}

async fn held(world: &World, count: usize) {
    let begin = Instant::now();
    while world.gateway.held.len() != count {
        assert!(begin.elapsed() < SOON, "{} are held", world.gateway.held.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn uses(world: &World) -> Vec<bool> {
    world.gateway.live.uses().iter().map(|(_, used)| used.last.is_some()).collect()
}

fn longer(how_long: Duration) -> Limits {
    Limits { held: MostHeld { how_long, ..limits().held }, ..limits() }
}

#[tokio::test]
async fn a_connection_waits_until_the_tenant_is_awake_and_then_it_is_as_any_other() {
    let world = World::start(longer(SOON));
    let acme = Server::start("acme").await;
    world.has_routes(vec![sleeps("acme", None)]);
    let mut news = world.gateway.held.news();
    let stream = world.connect().await;
    let client = tokio::spawn(async move {
        let mut tls = acme.client(stream, "acme.example.com").await.unwrap();
        assert_eq!(read(&mut tls, 5).await, "acme\n");
        (tls, acme)
    });
    assert_eq!(news.recv().await.unwrap().name, "acme");
    held(&world, 1).await;
    // It is listed before it is ready.
    world.has_routes(vec![Route { endpoints: vec![], ..sleeps("acme", None) }]);
    held(&world, 1).await;
    assert_eq!(uses(&world), [false]);
    client.abort();
    let _ = client.await;
    held(&world, 0).await;
    world.ended(Ended::ClientReset).await;

    let acme = Server::start("acme").await;
    let (stream, route) = (world.connect().await, awake(&acme));
    let told = world.gateway.clone();
    tokio::spawn(async move {
        while told.held.len() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        told.live.update(Table { routes: vec![route], ..Table::default() });
    });
    let mut tls = acme.client(stream, "acme.example.com").await.unwrap();
    assert_eq!(read(&mut tls, 5).await, "acme\n");
    works(&mut tls).await;
    assert_eq!((world.gateway.held.len(), uses(&world)), (0, vec![true]));
    drop(tls);
    assert!(world.line().await["heldSeconds"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn one_that_is_ready_and_closed_is_waited_for_by_those_who_wake_it() {
    let world = World::start(longer(SOON));
    let acme = Server::start("acme").await;
    let closed = |wakes| Route {
        hibernation: Some(Hibernates { wakes, closed: true, from: None }),
        ..leads("acme", &[(acme.address, true)])
    };
    world.has_routes(vec![closed(false)]);
    is_reset(&mut calls(&world, "acme").await).await;
    world.ended(Ended::NoApiServer).await;
    world.has_routes(vec![closed(true)]);
    let (stream, told, route) = (world.connect().await, world.gateway.clone(), awake(&acme));
    tokio::spawn(async move {
        while told.held.len() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        told.live.update(Table { routes: vec![route], ..Table::default() });
    });
    let mut tls = acme.client(stream, "acme.example.com").await.unwrap();
    assert_eq!(read(&mut tls, 5).await, "acme\n");
    works(&mut tls).await;
    drop(tls);
    assert!(world.line().await["heldSeconds"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn who_waits_for_one_that_does_not_wake_is_closed_before_clients_give_up() {
    let world = World::start(limits());
    world.has_routes(vec![sleeps("acme", None)]);
    let begin = Instant::now();
    is_reset(&mut calls(&world, "acme").await).await;
    assert!(begin.elapsed() >= limits().held.how_long, "{:?}", begin.elapsed());
    world.ended(Ended::StillAsleep).await;
    let rows = world.gateway.live.rows();
    assert_eq!((world.gateway.held.len(), rows.own[0].1.open, uses(&world)), (0, 0, vec![false]));
}

#[tokio::test]
async fn whoever_does_not_wake_it_fails_at_once() {
    let world = World::start(longer(SOON));
    let never = Route { hibernation: Some(Hibernates::default()), ..leads("never", &[]) };
    world.has_routes(vec![sleeps("acme", Some("203.0.113.0/24")), never, leads("awake", &[])]);
    for name in ["acme", "never", "awake"] {
        is_reset(&mut calls(&world, name).await).await;
        world.ended(Ended::NoApiServer).await;
    }
    assert!(world.gateway.held.called().is_empty());
    // Once it does no more, who waits goes, too.
    world.has_routes(vec![sleeps("acme", None)]);
    let mut stream = calls(&world, "acme").await;
    held(&world, 1).await;
    world.has_routes(vec![leads("acme", &[])]);
    is_reset(&mut stream).await;
    world.ended(Ended::NoApiServer).await;
    world.has_routes(vec![sleeps("acme", None)]);
    let mut stream = calls(&world, "acme").await;
    held(&world, 1).await;
    world.has_routes(vec![]);
    is_reset(&mut stream).await;
    world.ended(Ended::NoApiServer).await;
}

#[tokio::test]
async fn so_many_wait_and_no_more_and_awake_ones_are_served() {
    let most = MostHeld { in_all: 3, of_tenant: 2, how_long: SOON };
    let world = World::start(Limits { held: most, ..limits() });
    let acme = Server::start("acme").await;
    world.has_routes(vec![sleeps("flood", None), sleeps("other", None), awake(&acme)]);
    let mut flood = vec![];
    for _ in 0..2 {
        flood.push(calls(&world, "flood").await);
    }
    held(&world, 2).await;
    for _ in 0..20 {
        is_reset(&mut calls(&world, "flood").await).await;
        world.ended(Ended::TooManyHeld).await;
    }
    let _other = calls(&world, "other").await;
    held(&world, 3).await;
    is_reset(&mut calls(&world, "other").await).await;
    world.ended(Ended::TooManyHeld).await;
    works(&mut acme.through(&world, "acme").await).await;
    assert_eq!(world.count(Ended::TooManyHeld), 21);
    drop(flood);
    held(&world, 1).await;
}

/// The proxy of Berth's own on nodes, and whoever only looks whether somebody answers.
#[tokio::test]
async fn nothing_of_berths_own_and_no_look_counts_as_use_or_wakes() {
    let (named, world) = (World::named(longer(SOON)), World::start(longer(SOON)));
    let acme = Server::start("acme").await;
    let header = named_header(None, &[authority_of("acme.example.com")]);
    named.has_routes(vec![sleeps("acme", None)]);
    let mut stream = named.connect().await;
    stream.write_all(&header).await.unwrap();
    is_reset(&mut stream).await;
    named.ended(Ended::NoApiServer).await;
    named.has_routes(vec![awake(&acme)]);
    let mut stream = named.connect().await;
    stream.write_all(&header).await.unwrap();
    let mut tls = acme.nameless(stream).await;
    assert_eq!(read(&mut tls, 5).await, "acme\n");
    works(&mut tls).await;
    drop(tls);
    named.line().await;
    assert_eq!(uses(&named), [false]);

    world.has_routes(vec![awake(&acme)]);
    let mut look = calls(&world, "acme").await;
    let _ = look.read(&mut [0; 1]).await;
    drop(look);
    world.line().await;
    assert_eq!(uses(&world), [false]);
    let mut tls = acme.through(&world, "acme").await;
    works(&mut tls).await;
    assert_eq!(uses(&world), [true]);
}

#[tokio::test]
async fn a_gateway_that_ends_holds_nobody() {
    let world = World::start(longer(SOON));
    world.has_routes(vec![sleeps("acme", None)]);
    let mut stream = calls(&world, "acme").await;
    held(&world, 1).await;
    world.gateway.stop.cancel();
    assert_eq!(tokio::time::timeout(SOON, stream.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    world.ended(Ended::Drained).await;
}

/// A stand-in that is asked how it is; before it is told so, it answers what an API server answers whose hooks are under way.
async fn says_ready(server: &Server, is_ready: Arc<AtomicBool>) -> (SocketAddr, Arc<AtomicUsize>) {
    let (listener, asked) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::new(AtomicUsize::default()));
    let (address, behind, count) = (listener.local_addr().unwrap(), server.address, asked.clone());
    let own = rcgen::generate_simple_self_signed(vec!["any.example.com".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (is_ready, count, acceptor) = (is_ready.clone(), count.clone(), acceptor.clone());
            tokio::spawn(async move {
                // Whose ClientHello has no name asks how it is.
                let mut first = [0; 2048];
                let read = stream.peek(&mut first).await?;
                if String::from_utf8_lossy(&first[..read]).contains("example.com") {
                    let mut server = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut server).await?;
                    return Ok(());
                }
                let mut tls = acceptor.accept(stream).await?;
                let mut question = vec![0; 256];
                let read = tls.read(&mut question).await?;
                let question = String::from_utf8_lossy(&question[..read]).into_owned();
                assert!(question.starts_with("GET /readyz?exclude=poststarthook/rbac/bootstrap-roles HTTP/1.1\r\n"));
                count.fetch_add(1, Relaxed);
                let code = if is_ready.load(Relaxed) { "200 OK" } else { "500 Internal Server Error" };
                tls.write_all(format!("HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await?;
                tls.shutdown().await
            });
        }
    });
    (address, asked)
}

#[tokio::test]
async fn an_api_server_that_starts_is_asked_how_it_is_and_used_before_it_is_listed_as_ready() {
    let world = World::start(longer(SOON));
    let (acme, is_ready) = (Server::start("acme").await, Arc::new(AtomicBool::default()));
    let (address, asked) = says_ready(&acme, is_ready.clone()).await;
    let starts = Route { endpoints: leads("acme", &[(address, false)]).endpoints, ..sleeps("acme", None) };
    world.has_routes(vec![starts.clone()]);
    let stream = world.connect().await;
    let told = asked.clone();
    tokio::spawn(async move {
        while told.load(Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        is_ready.store(true, Relaxed);
    });
    let mut tls = acme.client(stream, "acme.example.com").await.unwrap();
    assert_eq!(read(&mut tls, 5).await, "acme\n");
    works(&mut tls).await;
    // Nobody waits: nobody asks, and who comes meanwhile is served.
    let before = asked.load(Relaxed);
    works(&mut acme.through(&world, "acme").await).await;
    assert_eq!(asked.load(Relaxed), before);
    // One that is to end is not asked.
    let mut ends = starts.clone();
    ends.endpoints[0].ends = true;
    world.has_routes(vec![ends]);
    let _waits = calls(&world, "acme").await;
    held(&world, 1).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(asked.load(Relaxed), before);
}
