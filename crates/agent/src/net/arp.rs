//! Whether somebody else in the VPC has an address (RFC 5227), and telling all that an address is here now.

use std::{
    fmt,
    io::{self, Read, Write},
    net::Ipv4Addr,
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use nix::{ifaddrs::getifaddrs, libc, sys::socket};
use socket2::{Domain, Protocol, Socket, Type};

/// Number of probes, and the time that each is given. RFC 5227 has 1 to 2 s for each, for all kinds of links; these are for networks
/// of one data centre, and the API server waits meanwhile.
const PROBES: u32 = 3;
const EACH: Duration = Duration::from_millis(250);

const ETHERTYPE: u16 = 0x0806;
const LENGTH: usize = 42;
const BROADCAST: Mac = Mac([0xff; 6]);

/// Address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mac(pub(super) [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if n == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

/// Who says that it has which address, or asks for which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    sender: Mac,
    /// 0.0.0.0 in a probe.
    sender_ip: Ipv4Addr,
    target_ip: Ipv4Addr,
}

impl Packet {
    /// A request, to all.
    fn encode(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let mut at = 0;
        // Ethernet: to, from, type. ARP: Ethernet, IPv4, their lengths, request.
        let target = [0; 6];
        let parts: [&[u8]; 8] = [
            &BROADCAST.0,
            &self.sender.0,
            &ETHERTYPE.to_be_bytes(),
            &[0, 1, 8, 0, 6, 4, 0, 1],
            &self.sender.0,
            &self.sender_ip.octets(),
            &target,
            &self.target_ip.octets(),
        ];
        for part in parts {
            if let Some(place) = out.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        }
        out
    }

    fn decode(frame: &[u8]) -> Option<Self> {
        let (is_arp, kind) = (frame.get(12..14)? == ETHERTYPE.to_be_bytes(), frame.get(14..20)?);
        let ip = |at| Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?));
        let packet = Self { sender: Mac(frame.get(22..28)?.try_into().ok()?), sender_ip: ip(28)?, target_ip: ip(38)? };
        (is_arp && kind == [0, 1, 8, 0, 6, 4]).then_some(packet)
    }

    /// Whether another one than `own` has the address, or is about to take it.
    fn claims(&self, address: Ipv4Addr, own: Mac) -> bool {
        let probe = self.sender_ip.is_unspecified() && self.target_ip == address;
        self.sender != own && (self.sender_ip == address || probe)
    }
}

/// So many packets are looked at in a row.
const MANY: usize = 256;

/// Whether a socket hears what others send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hears {
    Everything,
    Nothing,
}

/// A socket for ARP at one interface.
#[derive(Debug)]
pub(super) struct Arp {
    socket: Socket,
    own: Mac,
}

impl Arp {
    pub(super) fn open(interface: &str, hears: Hears) -> io::Result<Self> {
        let of_it = |one: &nix::ifaddrs::InterfaceAddress| one.interface_name == interface;
        let mut links = getifaddrs()?.filter(of_it).filter_map(|one| one.address?.as_link_addr().copied());
        let link = links.next().ok_or_else(|| io::Error::other(format!("there is no interface {interface}")))?;
        let own = link.addr().ok_or_else(|| io::Error::other(format!("{interface} has no MAC address")))?;
        let protocol = if hears == Hears::Everything { ETHERTYPE.to_be() } else { 0 };
        let protocol = Some(Protocol::from(i32::from(protocol)));
        let socket = Socket::new(Domain::from(libc::AF_PACKET), Type::RAW.cloexec(), protocol)?;
        // The address says which interface, and leaves the protocol as it is.
        socket::bind(socket.as_raw_fd(), &link)?;
        Ok(Self { socket, own: Mac(own) })
    }

    /// Asks for the address. Some: who else has it.
    pub(super) fn probe(&mut self, address: Ipv4Addr) -> io::Result<Option<Mac>> {
        let probe = Packet { sender: self.own, sender_ip: Ipv4Addr::UNSPECIFIED, target_ip: address };
        for _ in 0..PROBES {
            self.socket.write_all(&probe.encode())?;
            if let Some(other) = self.listen(address, EACH)? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    fn listen(&mut self, address: Ipv4Addr, time: Duration) -> io::Result<Option<Mac>> {
        let end = Instant::now() + time;
        let mut frame = [0; 128];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            let read = match self.socket.read(&mut frame) {
                Ok(read) => read,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let packet = frame.get(..read).and_then(Packet::decode);
            if let Some(packet) = packet.filter(|packet| packet.claims(address, self.own)) {
                return Ok(Some(packet.sender));
            }
        }
    }

    /// Who else said that it has the address since this was last asked.
    pub(super) fn heard(&mut self, address: Ipv4Addr) -> io::Result<Option<Mac>> {
        self.socket.set_nonblocking(true)?;
        let mut frame = [0; 128];
        let mut other = None;
        for _ in 0..MANY {
            let Ok(read) = self.socket.read(&mut frame) else { break };
            let packet = frame.get(..read).and_then(Packet::decode);
            other = packet.filter(|packet| packet.claims(address, self.own)).map(|packet| packet.sender).or(other);
        }
        Ok(other)
    }

    /// Tells all that the address is at this interface now.
    pub(super) fn announce(&mut self, address: Ipv4Addr) -> io::Result<()> {
        self.socket.write_all(&Packet { sender: self.own, sender_ip: address, target_ip: address }.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 0xab]);

    fn packet(sender: Mac, sender_ip: [u8; 4], target_ip: [u8; 4]) -> Packet {
        Packet { sender, sender_ip: sender_ip.into(), target_ip: target_ip.into() }
    }

    #[test]
    fn packets_come_back() {
        let probe = packet(OWN, [0; 4], [172, 20, 0, 2]);
        let frame = probe.encode();
        assert_eq!(Packet::decode(&frame), Some(probe));
        assert_eq!(frame[..22], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        for cut in 0..LENGTH {
            assert_eq!(Packet::decode(&frame[..cut]), None);
        }
        let mut other = frame;
        other[13] = 0;
        assert_eq!(Packet::decode(&other), None, "IPv4 is no ARP");
    }

    #[test]
    fn another_one_that_has_or_wants_the_address_is_seen() {
        let (address, other) = ([172, 20, 0, 2], [172, 20, 0, 9]);
        let claims = |packet: Packet| packet.claims(address.into(), OWN);
        assert!(claims(packet(OTHER, address, other)), "has it");
        assert!(claims(packet(OTHER, [0; 4], address)), "probes it");
        assert!(!claims(packet(OWN, address, address)), "that is us");
        assert!(!claims(packet(OWN, [0; 4], address)), "that is us");
        assert!(!claims(packet(OTHER, other, address)), "asks who has it");
        assert!(!claims(packet(OTHER, [0; 4], other)), "probes another one");
        assert_eq!(OTHER.to_string(), "02:00:00:00:00:ab");
    }
}
