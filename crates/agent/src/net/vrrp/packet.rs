//! Advertisements of VRRP version 3, for one IPv4 address (RFC 9568).

use std::{net::Ipv4Addr, time::Duration};

/// VRRP, as IP numbers it.
pub(super) const PROTOCOL: u8 = 112;
/// Version 3, advertisement.
const KIND: u8 = 0x31;
const LENGTH: usize = 12;
/// Nothing that was routed is taken.
pub(super) const TTL: u8 = 255;

/// What the checksum is made of. RFC 9568 leaves IPv4's addresses out, RFC 5798 was read both ways, and keepalived has them in. Both
/// are understood, and a peer is answered in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    Message,
    WithAddresses,
}

/// An advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) from: Ipv4Addr,
    pub(super) to: Ipv4Addr,
    /// Tells apart what shares a network; follows from the address.
    pub(super) router: u8,
    /// 0: has given the address away.
    pub(super) priority: u8,
    /// Time to the next one, in hundredths of a second.
    pub(super) centiseconds: u16,
    pub(super) address: Ipv4Addr,
}

impl Packet {
    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(u64::from(self.centiseconds) * 10)
    }

    pub(super) fn encode(&self, checksum: Checksum) -> [u8; LENGTH] {
        let [high, low] = (self.centiseconds & 0xfff).to_be_bytes();
        let [a, b, c, d] = self.address.octets();
        let mut out = [KIND, self.router, self.priority, 1, high, low, 0, 0, a, b, c, d];
        let [first, second] = (!self.sum(&out, checksum)).to_be_bytes();
        out[6] = first;
        out[7] = second;
        out
    }

    /// An IPv4 packet with its header. None: it is none of these, or damaged, or came over a router.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, Checksum)> {
        let header = usize::from(bytes.first()? & 0xf) * 4;
        let is_ours = bytes.first()? >> 4 == 4 && header >= 20 && bytes.get(8..10)? == [TTL, PROTOCOL];
        let ip = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?));
        let message = bytes.get(header..header + LENGTH)?;
        let &[kind, router, priority, count, high, low, ..] = message else { return None };
        let packet = Self {
            from: ip(12)?,
            to: ip(16)?,
            router,
            priority,
            centiseconds: u16::from_be_bytes([high, low]) & 0xfff,
            address: ip(header + 8)?,
        };
        let fits = |checksum: &Checksum| packet.sum(message, *checksum) == 0xffff;
        let checksum = [Checksum::Message, Checksum::WithAddresses].into_iter().find(fits)?;
        (is_ours && kind == KIND && count == 1).then_some((packet, checksum))
    }

    /// The ones' complement sum: all ones if the checksum in the message is right.
    fn sum(&self, message: &[u8], checksum: Checksum) -> u16 {
        let length = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
        let [from, to] = [self.from.octets(), self.to.octets()];
        let addresses = [&from[..], &to, &[0, PROTOCOL], &length].concat();
        let before = if checksum == Checksum::WithAddresses { &addresses[..] } else { &[] };
        let words = before.chunks(2).chain(message.chunks(2));
        let mut sum: u32 =
            words.map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap_or(u16::MAX)
    }
}

/// The virtual router's number, 1 to 255.
pub(super) fn router(address: Ipv4Addr) -> u8 {
    let [.., last] = address.octets();
    last.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> Packet {
        Packet {
            from: [172, 20, 0, 2].into(),
            to: [172, 20, 0, 3].into(),
            router: 10,
            priority: 254,
            centiseconds: 100,
            address: [172, 20, 0, 10].into(),
        }
    }

    /// As the kernel hands it over.
    fn with_header(packet: &Packet, checksum: Checksum) -> Vec<u8> {
        let mut out = vec![0x45, 0xc0, 0, 32, 0, 1, 0, 0, TTL, PROTOCOL, 0, 0];
        out.extend(packet.from.octets());
        out.extend(packet.to.octets());
        out.extend(packet.encode(checksum));
        out
    }

    #[test]
    fn packets_come_back() {
        for checksum in [Checksum::Message, Checksum::WithAddresses] {
            for priority in [0, 1, 255] {
                let packet = Packet { priority, ..packet() };
                assert_eq!(Packet::decode(&with_header(&packet, checksum)), Some((packet, checksum)));
            }
        }
        assert_eq!(packet().interval(), Duration::from_secs(1));
    }

    #[test]
    fn bytes_are_those_of_the_standard() {
        // 310a + fe01 + 0064 + ac14 + 000a = 1db8d; folded db8e, and its complement is 2471.
        assert_eq!(packet().encode(Checksum::Message), [0x31, 10, 254, 1, 0, 100, 0x24, 0x71, 172, 20, 0, 10]);
    }

    #[test]
    fn what_is_damaged_routed_or_of_another_kind_is_not_taken() {
        let good = with_header(&packet(), Checksum::Message);
        for at in 20..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0x10;
            assert_eq!(Packet::decode(&damaged), None, "byte {at}");
        }
        for cut in 0..good.len() {
            assert_eq!(Packet::decode(&good[..cut]), None);
        }
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Packet::decode(&bytes)
        };
        assert_eq!(changed(8, 254), None, "over a router");
        assert_eq!(changed(9, 6), None, "another protocol");
        assert_eq!(changed(0, 0x65), None, "IPv6");
    }

    #[test]
    fn a_router_has_a_number_from_1_to_255() {
        let of = |last| router([172, 20, 0, last].into());
        assert_eq!([of(0), of(1), of(10), of(255)], [1, 1, 10, 255]);
    }
}
