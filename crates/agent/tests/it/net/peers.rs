//! A VPC with a client and pods that share a virtual IP, and a watch over who has it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::ifaddrs::getifaddrs;
use serde_json::{Value, json};

use super::namespace::Namespace;

pub(crate) const VIRTUAL_IP: &str = "172.20.0.10";
/// Three intervals, and the skew of the lowest priority here.
const PATIENCE: Duration = Duration::from_millis(3700);
const NAMES: [&str; 3] = ["first", "second", "third"];

/// A bridge with pods.
pub(crate) struct Vpc {
    pub(crate) pods: Vec<Namespace>,
    pub(crate) bridge: Namespace,
}

impl Vpc {
    /// Pods with 172.20.0.2/24 and so on at net1, of which each answers with its name at port 7000.
    pub(crate) fn new(count: usize) -> Self {
        let bridge = Namespace::new("vpc");
        bridge.ip("link add br0 type bridge");
        bridge.ip("link set br0 up");
        bridge.ip("addr add 172.20.0.99/24 dev br0");
        let pods = (0..count).map(|slot| {
            let pod = Namespace::new("pod");
            let port = format!("pod{slot}");
            pod.connect("net1", &bridge, &port);
            bridge.ip(&format!("link set {port} master br0"));
            pod.ip(&format!("addr add {} dev net1", address(slot)));
            pod.listen(7000, NAMES[slot]);
            pod
        });
        Self { pods: pods.collect(), bridge }
    }

    /// Who answers a client at the virtual IP.
    pub(crate) fn answers(&self) -> String {
        let to = format!("{VIRTUAL_IP}:7000").parse().unwrap();
        self.bridge.dial(to).unwrap_or_else(|_| "nobody".to_owned())
    }

    /// This one answers all along, for as long as another one that hears nobody waits before it takes the address. What is on the wire
    /// are whole intervals of a second, so no test can make it shorter.
    pub(crate) fn stays_with(&self, name: &str) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            assert_eq!(self.answers(), name);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Cuts a pod off, or connects it again.
    pub(crate) fn connected(&self, slot: usize, connected: bool) {
        let port = if connected { "master br0" } else { "nomaster" };
        self.bridge.ip(&format!("link set pod{slot} {port}"));
    }

    pub(crate) fn has(&self, slot: usize) -> bool {
        self.pods[slot].enter(has)
    }
}

/// What the operator tells the sidecars.
pub(crate) fn config() -> Value {
    let slots: Vec<_> = (0..3).map(address).collect();
    json!({"interface": "net1", "slots": slots, "virtualIP": VIRTUAL_IP})
}

pub(crate) fn address(slot: usize) -> String {
    format!("172.20.0.{}/24", slot + 2)
}

fn has() -> bool {
    let ip: std::net::Ipv4Addr = VIRTUAL_IP.parse().unwrap();
    let all = getifaddrs().unwrap();
    all.filter_map(|one| one.address?.as_sockaddr_in().map(nix::sys::socket::SockaddrIn::ip)).any(|one| one == ip)
}

/// Looks at all pods, every few milliseconds.
pub(crate) struct Watch {
    ends: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// Since when each has had it without a break.
    since: Vec<Option<Instant>>,
    nobody: Option<Instant>,
    twice: Duration,
    longest: Duration,
}

impl Seen {
    /// `slot` was looked at, after some time.
    fn add(&mut self, slot: usize, has: bool, after: Duration) {
        let before = self.since[slot];
        self.since[slot] = has.then(|| before.unwrap_or_else(Instant::now));
        let all = self.since.iter().filter(|since| since.is_some()).count();
        // Another one may have lost it since it was looked at, but not all the time that this one has had it.
        if before.is_some() && has && all > 1 {
            self.twice += after;
        }
        if all == 0 {
            let nobody = self.nobody.get_or_insert_with(Instant::now).elapsed();
            self.longest = self.longest.max(nobody);
        } else {
            self.nobody = None;
        }
    }
}

impl Watch {
    pub(crate) fn over(vpc: &Vpc) -> Self {
        let seen = Seen { since: vec![None; vpc.pods.len()], ..Seen::default() };
        let (ends, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(seen)));
        let threads = vpc.pods.iter().enumerate().map(|(slot, pod)| {
            let (ends, seen) = (ends.clone(), seen.clone());
            pod.spawn(move || {
                let mut last = Instant::now();
                while !ends.load(Ordering::SeqCst) {
                    // No other one looks meanwhile.
                    let mut seen = seen.lock().unwrap();
                    seen.add(slot, has(), last.elapsed());
                    last = Instant::now();
                    drop(seen);
                    thread::sleep(Duration::from_millis(5));
                }
            })
        });
        let threads = threads.collect();
        Self { ends, seen, threads }
    }

    /// How long two had it, all in all and counted from both.
    pub(crate) fn twice(&self) -> Duration {
        self.seen.lock().unwrap().twice
    }

    /// For how long nobody had it at most, since this was last asked.
    pub(crate) fn longest_without(&self) -> Duration {
        let mut seen = self.seen.lock().unwrap();
        seen.nobody = None;
        std::mem::take(&mut seen.longest)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
