//! Debian's keepalived as a peer: it understands what the sidecar sends, and the other way round.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use super::{
    peers::{Vpc, Watch, address, config},
    server::Server,
    sidecar::Sidecar,
};

const CONFIGURATION: &str = "
global_defs {
    vrrp_version 3
}
vrrp_instance berth {
    state BACKUP
    nopreempt
    interface net1
    virtual_router_id 10
    priority 100
    advert_int 1
    unicast_src_ip 172.20.0.3
    unicast_peer {
        172.20.0.2
    }
    virtual_ipaddress {
        172.20.0.10/32 dev net1
    }
}
";

struct Keepalived {
    child: Child,
    dir: TempDir,
}

impl Keepalived {
    fn start(vpc: &Vpc, slot: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        fs::write(file("conf"), CONFIGURATION).unwrap();
        let log = File::create(file("log")).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", vpc.pods[slot].name(), "keepalived", "--dont-fork", "--log-console", "--no-syslog"])
            .args(["--log-detail", "--vrrp", "--use-file"])
            .arg(file("conf"))
            .arg("--pid")
            .arg(file("pid"))
            .arg("--vrrp_pid")
            .arg(file("vrrp-pid"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("keepalived is missing: `devcluster deps --install` installs it");
        Self { child, dir }
    }

    fn says(&self, text: &str) {
        let start = Instant::now();
        while !Self::log(self.dir.path()).contains(text) {
            assert!(start.elapsed() < Duration::from_secs(20), "it does not say {text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }

    fn log(dir: &Path) -> String {
        fs::read_to_string(dir.join("log")).unwrap_or_default()
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        self.stop();
        if thread::panicking() {
            eprintln!("log of keepalived:\n{}", Self::log(self.dir.path()));
        }
    }
}

fn moves_to(vpc: &Vpc, name: &str, within: Duration) {
    let start = Instant::now();
    while vpc.answers() != name {
        assert!(start.elapsed() < within, "{name} does not answer after {within:?}");
        thread::sleep(Duration::from_millis(10));
    }
    println!("{name}: {:?}", start.elapsed());
}

#[test]
fn it_and_the_sidecar_hand_the_address_over_to_each_other() {
    let vpc = Vpc::new(2);
    let _server = Server::start(&vpc.pods[0]);
    let watch = Watch::over(&vpc);
    let mut keepalived = Keepalived::start(&vpc, 1);
    moves_to(&vpc, "second", Duration::from_secs(8));

    let mut sidecar = Sidecar::new(&vpc.pods[0], &config(), &["--slot", "0", "--address", &address(0)]);
    sidecar.start_and_wait();
    sidecar.takes_part(1);
    // The sidecar hears it.
    vpc.stays_with("second");
    keepalived.stop();
    moves_to(&vpc, "first", Duration::from_secs(2));

    let keepalived = Keepalived::start(&vpc, 1);
    keepalived.says("Entering BACKUP STATE");
    // It hears the sidecar.
    vpc.stays_with("first");
    sidecar.signal(Signal::SIGTERM);
    moves_to(&vpc, "second", Duration::from_secs(2));
    assert_eq!(watch.twice(), Duration::ZERO, "two had it");
    drop(keepalived);
}

#[test]
fn one_that_joins_is_answered_as_it_speaks() {
    let vpc = Vpc::new(2);
    let _server = Server::start(&vpc.pods[0]);
    let mut sidecar = Sidecar::new(&vpc.pods[0], &config(), &["--slot", "0", "--address", &address(0)]);
    sidecar.start_and_wait();
    moves_to(&vpc, "first", Duration::from_secs(8));
    let keepalived = Keepalived::start(&vpc, 1);
    // It understands what it hears once the sidecar has heard it: its checksum is that of an earlier standard.
    keepalived.says("Entering MASTER STATE");
    let took = Instant::now();
    while vpc.has(1) {
        assert!(took.elapsed() < Duration::from_secs(5), "it does not give it up");
        thread::sleep(Duration::from_millis(10));
    }
    // It had told the network that the address is there.
    moves_to(&vpc, "first", Duration::from_secs(5));
    vpc.stays_with("first");
    assert!(!vpc.has(1), "it gave it up");
}
