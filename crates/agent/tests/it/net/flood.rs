//! A machine in the VPC that sends what peers send, as fast as it can.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

use super::{
    peers::{Vpc, address, config},
    server::Server,
    sidecar::Sidecar,
};

/// From the second slot to the first, which has given the virtual IP away: IPv4's header, and the advertisement.
fn forged() -> Vec<u8> {
    let mut message = [0x31, 10, 0, 1, 0, 100, 0, 0, 172, 20, 0, 10];
    let sum: u32 = message.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    message[6..8].copy_from_slice(&(!sum).to_be_bytes());
    let header = [0x45, 0xc0, 0, 32, 0, 1, 0, 0, 255, 112, 0, 0, 172, 20, 0, 3, 172, 20, 0, 2];
    [&header[..], &message].concat()
}

#[test]
fn rules_follow_the_file_and_it_ends_when_told_while_peers_are_forged() {
    let vpc = Vpc::new(1);
    let _server = Server::start(&vpc.pods[0]);
    let mut sidecar = Sidecar::new(&vpc.pods[0], &config(), &["--slot", "0", "--address", &address(0)]);
    sidecar.start_and_wait();
    sidecar.wait_until("it has the virtual IP", |_| vpc.has(0));
    let ends = Arc::new(AtomicBool::new(false));
    let until = ends.clone();
    let flood = vpc.bridge.spawn(move || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
        socket.set_header_included_v4(true).unwrap();
        let (packet, to) = (forged(), SocketAddr::from(([172, 20, 0, 2], 0)).into());
        let mut sent = 0_u64;
        while !until.load(Ordering::SeqCst) {
            sent += u64::from(socket.send_to(&packet, &to).is_ok());
        }
        sent
    });
    // It is one that counts.
    std::thread::sleep(Duration::from_secs(1));
    let mut net = config();
    net["closed"] = json!(["10.97.0.0/16"]);
    sidecar.write(&net.to_string());
    sidecar.wait_until("the new range is closed", |_| vpc.pods[0].ip("rule").contains("10.97.0.0/16"));
    assert!(vpc.has(0));
    sidecar.signal(Signal::SIGTERM);
    let ended = sidecar.ended(Duration::from_secs(3));
    ends.store(true, Ordering::SeqCst);
    let sent = flood.join().unwrap();
    println!("{sent} forged advertisements");
    assert_eq!(ended, Some(0));
    assert!(sent > 10_000, "{sent}");
}
