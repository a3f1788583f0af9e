//! Connections that live long.

use super::*;
use berth_testkit::fixtures::until;

/// By the clock of all timers here; that of the kernel goes on as ever.
const HOURS: Duration = Duration::from_hours(30);

/// A watch that has nothing to say is one of these.
#[tokio::test]
async fn a_connection_that_says_nothing_for_a_day_is_still_there() {
    let world = World::start(limits());
    let mut acme = Server::start("acme").await;
    world.has(&[("acme", &[(acme.address, true)])]);
    let mut tls = acme.through(&world, "acme").await;
    tokio::time::pause();
    // Each in its turn: a timer that begins anew is waited for, too.
    for _ in 0..30 {
        tokio::time::advance(HOURS / 30).await;
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    works(&mut tls).await;
    assert!(world.lines.try_recv().is_err(), "it has not ended");
    assert_eq!(world.gateway.live.rows().own[0].1.open, 1);

    // The kernel of either side asks for itself whether the other is there: what is between forgets connections on which nothing happens.
    let client = tls.get_ref().0.local_addr().unwrap();
    let server = acme.peers.recv().await.unwrap();
    for (own, other) in [(world.address, client), (server, acme.address)] {
        // First it waits for what it has sent to be answered.
        until(SOON, &format!("keepalive from {own} to {other}"), async || is_kept_alive(own, other)).await;
    }
    assert!(!is_kept_alive(client, world.address), "nobody has asked for it here");
}

/// Whether the kernel is to ask within 30 s whether the other end is still there.
fn is_kept_alive(own: SocketAddr, other: SocketAddr) -> bool {
    const KEEPALIVE: &str = "02";
    let own = [own, other].map(|at| match at.ip() {
        std::net::IpAddr::V4(ip) => format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), at.port()),
        std::net::IpAddr::V6(_) => panic!("{at}"),
    });
    let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // Number, both addresses, state, queues, and then which timer runs, and for how long in ticks of 10 ms.
    let mut rows = all.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[1..3] == own).unwrap_or_else(|| panic!("no connection {own:?}\n{all}"));
    let (timer, left) = row[5].split_once(':').unwrap();
    timer == KEEPALIVE && u32::from_str_radix(left, 16).unwrap() <= 3000
}
