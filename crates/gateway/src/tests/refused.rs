//! Who is not let in, and how each is told.

use super::*;
use crate::hello::tests::hello;
use crate::proxy::tests::version_2;

/// What comes until the end.
async fn answer(world: &World, bytes: &[u8]) -> Vec<u8> {
    let mut stream = world.connect().await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = vec![];
    tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    answer
}

/// It is reset, and the log says why.
async fn refused(world: &World, bytes: &[u8], why: Ended) -> Value {
    let mut stream = world.connect().await;
    stream.write_all(bytes).await.unwrap();
    is_reset(&mut stream).await;
    let line = world.ended(why).await;
    assert_eq!(world.count(why), 1);
    line
}

#[tokio::test]
async fn a_name_that_nobody_has_is_told_by_an_alert() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    for (name, why) in [
        ("acme.example.org", Ended::UnknownName),
        ("acme", Ended::UnknownName),
        ("x.acme.example.com", Ended::UnknownName),
        ("192.0.2.1", Ended::NoName),
    ] {
        let error = acme.client(world.connect().await, name).await.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("UnrecognisedName") || text.contains("UnrecognizedName"), "{name}: {text}");
        let line = world.ended(why).await;
        assert_eq!((line.get("tenant"), line.get("apiServer")), (None, None));
    }
    assert_eq!(answer(&world, &hello("other.example.com", 0)).await, [21, 3, 3, 0, 2, 2, 112]);
    assert_eq!(world.gateway.live.rows().own[0].1.opened, 0);
}

#[tokio::test]
async fn what_is_no_hello_is_reset() {
    let world = World::start(limits());
    refused(&world, b"GET / HTTP/1.1\r\nHost: acme.example.com\r\n\r\n", Ended::BadHello).await;
    let long =
        [22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff].into_iter().chain(std::iter::repeat_n(0, 16 * 1024)).collect::<Vec<u8>>();
    refused(&world, &long, Ended::LongHello).await;
    // One who only looks is counted, and no line is written.
    drop(world.connect().await);
    let half = hello("acme.example.com", 0);
    let mut stream = world.connect().await;
    stream.write_all(&half[..50]).await.unwrap();
    drop(stream);
    let line = world.ended(Ended::Left).await;
    assert_eq!(line.get("name"), None);
}

#[tokio::test]
async fn one_who_says_nothing_is_reset_in_time_and_disturbs_nobody() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut silent = vec![];
    for _ in 0..50 {
        silent.push(world.connect().await);
    }
    let begin = Instant::now();
    let mut tls = acme.through(&world, "acme").await;
    works(&mut tls).await;
    for stream in &mut silent {
        is_reset(stream).await;
        world.ended(Ended::SlowHello).await;
    }
    assert!(begin.elapsed() < SOON);
    works(&mut tls).await;
    assert_eq!(world.count(Ended::SlowHello), 50);
}

#[tokio::test]
async fn a_tenant_without_a_place_or_an_api_server_resets() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    let mut route = leads("acme", &[(acme.address, true)]);
    route.max_connections = Some(1);
    world.has_routes(vec![route, leads("none", &[]), leads("unready", &[(acme.address, false)])]);
    let first = acme.through(&world, "acme").await;
    refused(&world, &hello("acme.example.com", 0), Ended::TooMany).await;
    drop(first);
    world.line().await;
    drop(acme.through(&world, "acme").await);
    world.line().await;
    assert_eq!(refused(&world, &hello("none.example.com", 0), Ended::NoApiServer).await["tenant"], "team-a/none");
    let mut stream = world.connect().await;
    stream.write_all(&hello("unready.example.com", 0)).await.unwrap();
    is_reset(&mut stream).await;
    world.ended(Ended::NoApiServer).await;
}

#[tokio::test]
async fn ranges_are_judged_by_the_client_that_a_load_balancer_names() {
    let behind = World::start(Limits { proxy_from: vec!["127.0.0.0/8".parse().unwrap()], ..limits() });
    let open = World::start(limits());
    let acme = Server::start("acme").await;
    let with = |ranges: &[&str]| {
        let mut route = leads("acme", &[(acme.address, true)]);
        route.source_ranges = Some(ranges.iter().map(|range| range.parse().unwrap()).collect());
        vec![route]
    };
    behind.has_routes(with(&["203.0.113.0/24", "2001:db8::/32"]));
    let v1 = b"PROXY TCP4 203.0.113.9 192.0.2.1 40001 443\r\n".to_vec();
    for (header, client) in [
        (version_2(Some("203.0.113.7:40000")), "203.0.113.7:40000"),
        (version_2(Some("[2001:db8::7]:40000")), "[2001:db8::7]:40000"),
        (v1.clone(), "203.0.113.9:40001"),
    ] {
        let mut stream = behind.connect().await;
        stream.write_all(&header).await.unwrap();
        let mut tls = acme.client(stream, "acme.example.com").await.unwrap();
        assert_eq!(read(&mut tls, 5).await, "acme\n");
        drop(tls);
        assert_eq!(behind.line().await["client"], client);
    }
    let own = hello("acme.example.com", 0);
    let line = refused(&behind, &[version_2(Some("198.51.100.1:1")), own.clone()].concat(), Ended::SourceRefused).await;
    assert_eq!(line["client"], "198.51.100.1:1");
    assert_eq!(line["tenant"], "team-a/acme");
    refused(&behind, &own, Ended::BadProxyHeader).await;
    // The load balancer itself has an address, too, which is not among the ranges here, and then is.
    let local = [version_2(None), own.clone()].concat();
    let mut stream = behind.connect().await;
    stream.write_all(&local).await.unwrap();
    is_reset(&mut stream).await;
    behind.ended(Ended::SourceRefused).await;
    behind.has_routes(with(&["127.0.0.0/8"]));
    let mut stream = behind.connect().await;
    stream.write_all(&version_2(None)).await.unwrap();
    drop(acme.client(stream, "acme.example.com").await.unwrap());

    open.has_routes(with(&["203.0.113.0/24", "127.0.0.1/32"]));
    drop(acme.through(&open, "acme").await);
    open.line().await;
    refused(&open, &[v1, own.clone()].concat(), Ended::ForgedProxyHeader).await;
    open.has_routes(with(&["203.0.113.0/24"]));
    refused(&open, &own, Ended::SourceRefused).await;
}

#[tokio::test]
async fn a_place_that_has_its_share_is_reset_and_comes_again_when_one_has_left() {
    let source = Most { open: 3.try_into().ok(), opening: 2.try_into().unwrap(), rate: None };
    let world = World::start(Limits { source, hello_within: SOON, ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let silent = (world.connect().await, world.connect().await);
    is_reset(&mut world.connect().await).await;
    world.ended(Ended::TooManyFromSource).await;
    drop(silent);
    while world.count(Ended::Left) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut open = vec![];
    for _ in 0..3 {
        open.push(acme.through(&world, "acme").await);
    }
    is_reset(&mut world.connect().await).await;
    world.ended(Ended::TooManyFromSource).await;
    drop(open.pop());
    world.line().await;
    drop(acme.through(&world, "acme").await);
}

#[tokio::test]
async fn behind_a_load_balancer_its_clients_are_counted_and_not_itself() {
    let source = Most { open: 1.try_into().ok(), opening: 1.try_into().unwrap(), rate: None };
    let proxy_from = vec!["127.0.0.0/8".parse().unwrap()];
    let world = World::start(Limits { source, proxy_from, hello_within: SOON, ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut open = vec![];
    let from = async |client: &str| {
        let mut stream = world.connect().await;
        stream.write_all(&version_2(Some(client))).await.unwrap();
        stream
    };
    for client in ["203.0.113.7:1", "203.0.113.8:1"] {
        let mut tls = acme.client(from(client).await, "acme.example.com").await.unwrap();
        assert_eq!(read(&mut tls, 5).await, "acme\n");
        open.push(tls);
    }
    let mut again = from("203.0.113.7:2").await;
    again.write_all(&hello("acme.example.com", 0)).await.unwrap();
    is_reset(&mut again).await;
    world.ended(Ended::TooManyFromSource).await;
    works(&mut open[0]).await;
}

#[tokio::test]
async fn when_it_is_full_nobody_is_let_in_and_nothing_is_written() {
    let world = World::start(Limits { in_all: 1, ..limits() });
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut first = acme.through(&world, "acme").await;
    is_reset(&mut world.connect().await).await;
    assert_eq!(world.count(Ended::TooManyInAll), 1);
    works(&mut first).await;
    drop(first);
    world.line().await;
    drop(acme.through(&world, "acme").await);
    let fast = World::start(Limits { rate_in_all: 1.try_into().ok(), ..limits() });
    fast.has(&[("acme", &[(acme.address, true)])]);
    for _ in 0..2 {
        drop(acme.through(&fast, "acme").await);
    }
    is_reset(&mut fast.connect().await).await;
    assert_eq!(fast.count(Ended::TooFastInAll), 1);
}

#[tokio::test]
async fn one_tenants_flood_and_silence_cost_no_other_a_call() {
    let world = World::start(Limits { connections: 50, ..limits() });
    let acme = Server::start("acme").await;
    // Nothing answers there: documentation has this address.
    let silent = "192.0.2.1:6443".parse().unwrap();
    world.has(&[("acme", &[(acme.address, true)]), ("flood", &[(silent, true)])]);
    let mut flood = vec![];
    for _ in 0..200 {
        let mut stream = world.connect().await;
        stream.write_all(&hello("flood.example.com", 0)).await.unwrap();
        flood.push(stream);
    }
    let mut tls = acme.through(&world, "acme").await;
    works(&mut tls).await;
    for stream in &mut flood {
        is_reset(stream).await;
    }
    for _ in 0..200 {
        assert_eq!(world.line().await["tenant"], "team-a/flood");
    }
    let rows = world.gateway.live.rows();
    let of = |name: &str| rows.own.iter().find(|(cluster, _)| cluster.name == name).unwrap().1.refused;
    assert_eq!((of("acme").iter().sum::<u64>(), of("flood").iter().sum::<u64>()), (0, 200));
    let open: Vec<_> = rows.own.iter().map(|(cluster, sum)| (cluster.name.as_str(), sum.open)).collect();
    assert_eq!(open, [("acme", 1), ("flood", 0)], "who led nowhere does not count any more");
    works(&mut tls).await;
}

#[tokio::test]
async fn who_is_in_goes_when_its_range_does() {
    let world = World::start(limits());
    let acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut tls = acme.through(&world, "acme").await;
    let mut route = leads("acme", &[(acme.address, true)]);
    route.source_ranges = Some(vec!["127.0.0.0/8".parse().unwrap()]);
    world.has_routes(vec![route.clone()]);
    works(&mut tls).await;
    route.source_ranges = Some(vec!["203.0.113.0/24".parse().unwrap()]);
    world.has_routes(vec![route]);
    is_reset_tls(&mut tls).await;
    world.ended(Ended::SourceRefused).await;
}
