//! Who has the virtual IP, and for how long nobody has.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{
    peers::{Vpc, Watch, address, config},
    server::{Mode, Server},
    sidecar::Sidecar,
};

struct Tenant {
    watch: Watch,
    sidecars: Vec<Sidecar>,
    servers: Vec<Server>,
    vpc: Vpc,
}

impl Tenant {
    /// Three API servers of which the first has the address.
    fn new() -> Self {
        let vpc = Vpc::new(3);
        let servers: Vec<_> = vpc.pods.iter().map(Server::start).collect();
        let new = |slot: usize| {
            let (number, address) = (slot.to_string(), address(slot));
            Sidecar::new(&vpc.pods[slot], &config(), &["--slot", &number, "--address", &address])
        };
        let mut sidecars: Vec<_> = (0..3).map(new).collect();
        let watch = Watch::over(&vpc);
        for sidecar in &mut sidecars {
            sidecar.start();
        }
        let tenant = Self { watch, sidecars, servers, vpc };
        tenant.moves_to("first", Duration::from_secs(8));
        tenant
    }

    /// Waits until this one answers at the address. Returns how long that took.
    fn moves_to(&self, name: &str, within: Duration) -> Duration {
        let start = Instant::now();
        while self.vpc.answers() != name {
            let logs: Vec<_> = self.sidecars.iter().map(Sidecar::log).collect();
            assert!(start.elapsed() < within, "{name} does not answer after {within:?}:\n{}", logs.join("\n---\n"));
            thread::sleep(Duration::from_millis(10));
        }
        start.elapsed()
    }
}

#[test]
fn it_moves_once_and_at_once_when_an_api_server_drains_or_its_sidecar_ends() {
    let mut tenant = Tenant::new();
    tenant.servers[0].is(Mode::Drains);
    let took = tenant.moves_to("second", Duration::from_secs(3));
    println!("drained: {took:?}, of which up to a second until it is asked");
    // It is well again, and does not take the address back.
    tenant.servers[0].is(Mode::Serves);
    thread::sleep(Duration::from_secs(5));
    assert_eq!(tenant.vpc.answers(), "second");

    tenant.sidecars[1].signal(Signal::SIGTERM);
    let took = tenant.moves_to("first", Duration::from_secs(1));
    println!("ended: {took:?}");
    assert_eq!(tenant.sidecars[1].ended(Duration::from_secs(1)), Some(0));
    assert!(!tenant.vpc.has(1));
    assert_eq!(tenant.watch.twice(), Duration::ZERO, "two had it");

    // A tenant that forbids anonymous requests has an API server, too.
    tenant.servers[0].is(Mode::Forbids);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(tenant.vpc.answers(), "first");
    let [connections, requests] = tenant.servers[0].counts();
    assert!(connections == 1 && requests > 8, "{requests} requests over {connections} connections");
}

#[test]
fn it_is_back_within_five_seconds_when_an_api_server_hangs_or_a_sidecar_is_killed() {
    let mut tenant = Tenant::new();
    tenant.servers[0].is(Mode::Hangs);
    let took = tenant.moves_to("second", Duration::from_secs(5));
    println!("hangs: {took:?}");
    assert_eq!(tenant.watch.twice(), Duration::ZERO, "two had it");

    tenant.sidecars[1].kill();
    let killed = Instant::now();
    let took = tenant.moves_to("third", Duration::from_secs(5));
    println!("killed: {took:?}");
    while tenant.vpc.has(1) {
        assert!(killed.elapsed() < Duration::from_secs(5), "the kernel keeps it");
        thread::sleep(Duration::from_millis(10));
    }
    println!("the kernel dropped it after {:?}; two had it for {:?}", killed.elapsed(), tenant.watch.twice());

    // Paused for longer than the address lives: it lets go as soon as it goes on.
    tenant.servers[0].is(Mode::Serves);
    thread::sleep(Duration::from_secs(2));
    tenant.sidecars[2].signal(Signal::SIGSTOP);
    tenant.moves_to("first", Duration::from_secs(5));
    thread::sleep(Duration::from_secs(1));
    let before = tenant.watch.twice();
    tenant.sidecars[2].signal(Signal::SIGCONT);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(tenant.vpc.answers(), "first");
    assert_eq!(tenant.watch.twice(), before, "it came back with the address");
}

#[test]
fn one_that_was_cut_off_gives_it_up_when_it_hears_another() {
    let tenant = Tenant::new();
    tenant.vpc.connected(0, false);
    tenant.moves_to("second", Duration::from_secs(5));
    assert!(tenant.vpc.has(0) && tenant.vpc.has(1), "they do not hear each other");
    tenant.vpc.connected(0, true);
    let joined = Instant::now();
    while tenant.vpc.has(0) && tenant.vpc.has(1) {
        assert!(joined.elapsed() < Duration::from_secs(2), "both keep it");
        thread::sleep(Duration::from_millis(10));
    }
    println!("one has it {:?} later", joined.elapsed());
    let twice = tenant.watch.twice();
    tenant.moves_to("first", Duration::from_secs(1));
    thread::sleep(Duration::from_secs(4));
    assert_eq!(tenant.vpc.answers(), "first");
    assert_eq!(tenant.watch.twice(), twice);
}
