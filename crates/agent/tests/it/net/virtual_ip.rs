//! Who has the virtual IP, and for how long nobody has.

use berth_testkit::patience::patience;
use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::json;

use super::{
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
        // The first has it before there is another one: whoever is quicker on a busy machine would keep it.
        sidecars[0].start();
        let mut tenant = Self { watch, sidecars, servers, vpc };
        tenant.moves_to("first", Duration::from_secs(8));
        for sidecar in &mut tenant.sidecars[1..] {
            sidecar.start();
        }
        tenant.sidecars[1..].iter().for_each(|sidecar| sidecar.takes_part(1));
        tenant
    }

    /// Waits until a server was asked so often.
    fn asked(&self, server: usize, requests: usize) {
        let start = Instant::now();
        while self.servers[server].counts()[1] < requests {
            assert!(start.elapsed() < patience(Duration::from_secs(10)), "it asks once a second");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until this one answers at the address. Returns how long that took.
    fn moves_to(&self, name: &str, within: Duration) -> Duration {
        let start = Instant::now();
        while self.vpc.answers() != name {
            let logs: Vec<_> = self.sidecars.iter().map(Sidecar::log).collect();
            let within = patience(within);
            assert!(
                start.elapsed() < within,
                "LATE: {name} does not answer after {within:?}:\n{}",
                logs.join("\n---\n")
            );
            thread::sleep(Duration::from_millis(10));
        }
        start.elapsed()
    }
}

#[test]
fn it_moves_once_and_at_once_when_an_api_server_drains_or_its_sidecar_ends() {
    let mut tenant = Tenant::new();
    tenant.watch.longest_without();
    tenant.servers[0].is(Mode::Drains);
    let took = tenant.moves_to("second", Duration::from_secs(3));
    let without = tenant.watch.longest_without();
    println!("drained: {took:?}, of which up to a second until it is asked; nobody had it for {without:?}");
    assert!(without < Duration::from_secs(1), "{without:?}");
    // It is well again, and does not take the address back.
    tenant.servers[0].is(Mode::Serves);
    tenant.sidecars[0].takes_part(2);
    tenant.vpc.stays_with("second");

    tenant.sidecars[1].signal(Signal::SIGTERM);
    let took = tenant.moves_to("first", Duration::from_secs(2));
    let without = tenant.watch.longest_without();
    println!("ended: {took:?}; nobody had it for {without:?}");
    assert!(without < Duration::from_secs(1), "{without:?}");
    assert_eq!(tenant.sidecars[1].ended(Duration::from_secs(1)), Some(0));
    assert!(!tenant.vpc.has(1));
    assert_eq!(tenant.watch.twice(), Duration::ZERO, "two had it");

    // A tenant that forbids anonymous requests has an API server, too.
    tenant.servers[0].is(Mode::Forbids);
    let before = tenant.servers[0].counts()[1];
    tenant.asked(0, before + 3);
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
    tenant.sidecars[0].takes_part(2);
    tenant.sidecars[2].signal(Signal::SIGSTOP);
    tenant.moves_to("first", Duration::from_secs(5));
    let moved = Instant::now();
    while tenant.vpc.has(2) {
        assert!(moved.elapsed() < Duration::from_secs(5), "the kernel keeps it");
        thread::sleep(Duration::from_millis(10));
    }
    // The watch hears of it a few milliseconds after this thread has seen it.
    thread::sleep(Duration::from_millis(200));
    let before = tenant.watch.twice();
    tenant.sidecars[2].signal(Signal::SIGCONT);
    tenant.vpc.stays_with("first");
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
    // The watch hears of it a few milliseconds after this thread has seen it.
    thread::sleep(Duration::from_millis(200));
    let twice = tenant.watch.twice();
    tenant.moves_to("first", Duration::from_secs(1));
    tenant.vpc.stays_with("first");
    assert_eq!(tenant.watch.twice(), twice);
}

#[test]
fn it_starts_again_with_an_interface_that_was_made_anew() {
    let mut tenant = Tenant::new();
    let (vpc, pod) = (&tenant.vpc, &tenant.vpc.pods[0]);
    pod.ip("link del net1");
    pod.connect("net1", &vpc.bridge, "pod0");
    vpc.bridge.ip("link set pod0 master br0");
    pod.ip(&format!("addr add {} dev net1", address(0)));
    tenant.moves_to("second", Duration::from_secs(8));
    // As the container runtime does.
    let log = tenant.sidecars[0].log();
    assert_eq!(tenant.sidecars[0].ended(Duration::from_secs(8)), Some(1), "{log}");
    assert!(tenant.sidecars[0].log().contains("net1 was made anew"), "{log}");
    tenant.sidecars[0].start_and_wait();
    // It hears the one that has it, and takes part again.
    tenant.sidecars[0].takes_part(2);
    tenant.vpc.stays_with("second");
    assert_eq!(tenant.watch.twice(), Duration::ZERO, "two had it");
    tenant.servers[1].is(Mode::Drains);
    tenant.moves_to("first", Duration::from_secs(5));
}

/// As a whole it may take 5 MiB and 2 ms/s; this is a debug build, and half of it is the program itself.
#[test]
fn at_rest_it_costs_next_to_nothing() {
    let vpc = Vpc::new(1);
    let server = Server::start(&vpc.pods[0]);
    let mut net = config();
    net["closed"] = json!(["10.96.0.0/12", "10.244.0.0/16", "192.168.100.0/24", "fd10::/16"]);
    net["open"] = json!([{"to": "10.96.1.2/32", "port": 2379}, {"to": "10.96.0.10/32", "port": 53, "protocol": "UDP"}]);
    let mut sidecar = Sidecar::new(&vpc.pods[0], &net, &["--slot", "0", "--address", &address(0)]);
    sidecar.start_and_wait();
    sidecar.wait_until("it has the virtual IP", |_| vpc.has(0));
    let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", sidecar.pid())).unwrap();
    // Of all its threads, in microseconds; `stat` would count in hundredths of a second.
    let time = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", sidecar.pid())).unwrap();
        let one = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).unwrap();
        tasks.map(|task| one(task.unwrap()).split(' ').next().unwrap().parse::<u64>().unwrap() / 1000).sum::<u64>()
    };
    let (before, log) = (time(), sidecar.log());
    let (began, [_, requests]) = (Instant::now(), server.counts());
    while server.counts()[1] < requests + 5 {
        assert!(began.elapsed() < Duration::from_secs(10), "it asks once a second");
        thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    let used = (time() - before) / u64::try_from(took.as_millis()).unwrap();
    let status = read("status");
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap().trim().to_owned();
    println!("{used} ms/s, {own} of its own");
    assert!(used <= 5, "{used} ms/s");
    assert!(own.trim_end_matches(" kB").parse::<u64>().unwrap() <= 2048, "{own}");
    assert_eq!(sidecar.log(), log, "it finds nothing to do");
    assert!(took > Duration::from_secs(4), "it asks five times in {took:?}");
}
