//! The virtual IP: one of the slots has it, as [`machine`] decides.

mod health;
mod machine;
mod packet;

use std::{
    collections::BTreeSet,
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use berth_contract::vpc::{Cidr, Net};
use socket2::{Domain, Protocol, Socket, Type};

use self::{
    health::Health,
    machine::{Action, Event, INTERVAL, LIFETIME, Machine, priority},
    packet::{Checksum, PROTOCOL, Packet, TTL, router},
};
use super::{
    Log,
    arp::{Arp, Hears},
    netlink::{Address, Netlink},
};

/// As routers mark what keeps a network alive.
const TOS_INTERNET_CONTROL: u32 = 0xc0;

/// So many packets are looked at in a row. Peers send one a second each.
const MANY: usize = 16;
/// After so many, the others have the processor.
const STORM: Duration = Duration::from_millis(10);

/// One that may have the address.
#[derive(Debug)]
pub(super) struct VirtualIp {
    own: Ipv4Addr,
    ip: Ipv4Addr,
    interface: u32,
    peers: Vec<Ipv4Addr>,
    /// Peers whose checksum has addresses in it.
    with_addresses: BTreeSet<Ipv4Addr>,
    machine: Machine,
    start: Instant,
    socket: Socket,
    arp: Arp,
    health: Health,
    serves: bool,
    log: Log,
}

impl VirtualIp {
    /// None: there is no virtual IP. `own` is this slot's address at the interface with this index.
    pub(super) fn start(
        net: &Net,
        own: Cidr,
        slot: Option<usize>,
        interface: u32,
        netlink: &mut Netlink,
    ) -> anyhow::Result<Option<Self>> {
        let (IpAddr::V4(own), Some(IpAddr::V4(ip))) = (own.address, net.virtual_ip) else { return Ok(None) };
        let slot = slot.or_else(|| net.slots.iter().position(|one| one.address == own));
        let slot = slot.context("virtualIP: no slot has the address of this pod")?;
        ensure!(own != ip, "virtualIP: {ip} is the address of this slot");
        let addresses = netlink.addresses().context("cannot list addresses")?;
        let mut virtual_ip = Self {
            own,
            ip,
            interface,
            peers: vec![],
            with_addresses: BTreeSet::new(),
            machine: Machine::new(own, priority(slot)),
            start: Instant::now(),
            socket: socket(&net.interface, own).context("cannot listen for VRRP")?,
            arp: Arp::open(&net.interface, Hears::Nothing).context("cannot send ARP")?,
            health: Health::watch().context("cannot watch the API server")?,
            serves: false,
            log: Log::default(),
        };
        virtual_ip.update(net);
        if addresses.contains(&virtual_ip.address()) {
            // Left over from before this process was killed. Whoever takes it now need not wait.
            virtual_ip.act(&[Action::Drop, Action::Send(0)], netlink);
        }
        Ok(Some(virtual_ip))
    }

    /// Takes over who the other slots are.
    pub(super) fn update(&mut self, net: &Net) {
        let slots = net.slots.iter().filter_map(|slot| match slot.address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        });
        self.peers = slots.filter(|slot| *slot != self.own).collect();
    }

    /// What has to be looked at as soon as there is something to be read.
    pub(super) fn wakes(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.health.as_fd()]
    }

    /// How long [`Self::turn`] can wait.
    pub(super) fn rest(&self) -> Duration {
        self.machine.next().map_or(INTERVAL, |next| next.saturating_sub(self.start.elapsed()))
    }

    /// Does what is due.
    pub(super) fn turn(&mut self, netlink: &mut Netlink) {
        // What was heard counts before the time does. But anybody in the VPC can send as a peer, and as much as they like.
        let mut heard = 0;
        while heard < MANY
            && let Some(event) = self.hear()
        {
            self.on(event, netlink);
            heard += 1;
        }
        if heard == MANY {
            thread::sleep(STORM);
        }
        let serves = self.health.serves();
        if serves != self.serves {
            self.serves = serves;
            println!("the API server {}", if serves { "serves" } else { "does not serve" });
        }
        self.on(Event::Serves(serves), netlink);
        self.on(Event::Tick, netlink);
    }

    /// Gives the address away.
    pub(super) fn stop(&mut self, netlink: &mut Netlink) {
        self.on(Event::Stop, netlink);
    }

    fn on(&mut self, event: Event, netlink: &mut Netlink) {
        let before = self.machine.is_active();
        let actions = self.machine.on(event, self.start.elapsed());
        self.act(&actions, netlink);
        match (before, self.machine.is_active()) {
            (false, true) => println!("{} is here now", self.ip),
            (true, false) => println!("{} is given away: {event:?}", self.ip),
            _ => {}
        }
    }

    fn act(&mut self, actions: &[Action], netlink: &mut Netlink) {
        for action in actions {
            let done = match action {
                Action::Send(priority) => self.send(*priority),
                Action::Hold => netlink.put_address(self.address(), u32::try_from(LIFETIME.as_secs()).unwrap_or(1)),
                Action::Drop => netlink.delete_address(self.address()),
                Action::Announce => (0..2).try_for_each(|_| self.arp.announce(self.ip)),
            };
            if let Err(error) = done {
                self.log.say(&format!("{action:?} of {}: {error}", self.ip));
            }
        }
    }

    fn address(&self) -> Address {
        Address { interface: self.interface, address: Cidr { address: self.ip.into(), prefix: 32 } }
    }

    fn send(&self, priority: u8) -> io::Result<()> {
        let centiseconds = u16::try_from(INTERVAL.as_millis() / 10).unwrap_or(100);
        let mut failed = Ok(());
        for to in self.peers.iter().copied() {
            let packet =
                Packet { from: self.own, to, router: router(self.ip), priority, centiseconds, address: self.ip };
            let with_addresses = self.with_addresses.contains(&to);
            let checksum = if with_addresses { Checksum::WithAddresses } else { Checksum::Message };
            match self.socket.send_to(&packet.encode(checksum), &SocketAddr::from((to, 0)).into()) {
                // A peer that is not there is no error of this one.
                Err(error) if matches!(error.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::WouldBlock) => {}
                done => failed = done.map(|_| ()),
            }
        }
        failed
    }

    /// The next advertisement of a peer; none if there is none among the next packets.
    fn hear(&mut self) -> Option<Event> {
        let mut bytes = [0; 256];
        for _ in 0..MANY {
            let read = self.socket.read(&mut bytes).ok()?;
            let Some((packet, checksum)) = bytes.get(..read).and_then(Packet::decode) else { continue };
            let is_ours = packet.address == self.ip && packet.router == router(self.ip) && packet.to == self.own;
            if !is_ours || !self.peers.contains(&packet.from) {
                continue;
            }
            if checksum == Checksum::WithAddresses {
                self.with_addresses.insert(packet.from);
            } else {
                self.with_addresses.remove(&packet.from);
            }
            return Some(Event::Heard { from: packet.from, priority: packet.priority, interval: packet.interval() });
        }
        None
    }
}

fn socket(interface: &str, own: Ipv4Addr) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::IPV4, Type::RAW.cloexec().nonblocking(), Some(Protocol::from(i32::from(PROTOCOL))))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.bind(&SocketAddr::from((own, 0)).into())?;
    socket.set_ttl_v4(u32::from(TTL))?;
    socket.set_tos_v4(TOS_INTERNET_CONTROL)?;
    Ok(socket)
}
