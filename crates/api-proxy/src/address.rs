//! An address on `lo`, over netlink: one message and its answer, for which a library would be larger than this program.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::time::Duration;

/// The kernel's number of `lo`, in each network namespace.
const LO: u32 = 1;

/// How long the address stays when nobody renews it: while a pod is replaced connections to it are refused at once, instead of being sent to who knows
/// whom, and nothing is left on a node that does without the add-on.
pub(crate) const STAYS: Duration = Duration::from_mins(15);
/// So often it is renewed. One that somebody took away is there again by then.
pub(crate) const RENEWED: Duration = Duration::from_mins(1);

/// `AF_NETLINK` and `NETLINK_ROUTE`.
const NETLINK: i32 = 16;
const ROUTE: i32 = 0;
/// Type of the message, and of its answer, from linux/rtnetlink.h and linux/netlink.h.
const NEW_ADDRESS: u16 = 20;
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`, `_ACK`, `_REPLACE` and `_CREATE`.
const FLAGS: u16 = 0x1 | 0x4 | 0x100 | 0x400;
/// Attributes, from linux/if_addr.h.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const CACHE_INFO: u16 = 6;
/// `RT_SCOPE_HOST`: nothing that leaves this machine comes from there.
const HOST: u8 = 254;
/// `IFA_F_NODAD`: it can be listened on at once, instead of when the kernel has found that nobody else has it.
const NO_DAD: u8 = 0x2;
const HEADER: usize = 16;
/// Of a message whose only number is 0, or an error.
const ANSWER: usize = HEADER + 4;

/// Puts the address on `lo` for [`STAYS`], or lets it stay for so long from now on.
///
/// # Errors
/// If the kernel does not allow it: this takes `CAP_NET_ADMIN`.
pub(crate) fn put(address: IpAddr) -> io::Result<()> {
    let mut socket = Socket::new(Domain::from(NETLINK), Type::RAW.cloexec(), Some(Protocol::from(ROUTE)))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    socket.write_all(&message(address))?;
    let mut answer = [0; 1024];
    let length = socket.read(&mut answer)?;
    result(answer.get(..length).unwrap_or_default())
}

/// Length, type, flags, and what is asked for.
fn message(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (2, v4.octets().to_vec()),
        IpAddr::V6(v6) => (10, v6.octets().to_vec()),
    };
    let flags = if address.is_ipv6() { NO_DAD } else { 0 };
    let prefix = u8::try_from(octets.len() * 8).unwrap_or(u8::MAX);
    let valid = u32::try_from(STAYS.as_secs()).unwrap_or(u32::MAX).to_ne_bytes();
    // One of IPv6 that is preferred could become the source of what leaves this machine.
    let preferred = if address.is_ipv4() { valid } else { [0; 4] };
    let body = [
        &[family, prefix, flags, HOST][..],
        &LO.to_ne_bytes(),
        &attribute(LOCAL, &octets),
        &attribute(ADDRESS, &octets),
        &attribute(CACHE_INFO, &[preferred, valid, [0; 4], [0; 4]].concat()),
    ]
    .concat();
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let header = [&length.to_ne_bytes()[..], &NEW_ADDRESS.to_ne_bytes(), &FLAGS.to_ne_bytes(), &[0; 8]].concat();
    [header, body].concat()
}

/// Values here are multiples of four bytes, as the next attribute wants them.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
}

/// An error that is 0 says that it is done.
fn result(answer: &[u8]) -> io::Result<()> {
    let (Some(kind), Some(error)) = (answer.get(4..6), answer.get(HEADER..ANSWER)) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let error = i32::from_ne_bytes(error.try_into().map_err(io::Error::other)?);
    match (kind == ERROR.to_ne_bytes(), error) {
        (true, 0) => Ok(()),
        (true, error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        (false, _) => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_long_as_it_says_and_asks_for_this_address_alone() {
        for (text, prefix, length) in [("240.0.0.1", 32, 60), ("fd00::1", 128, 84)] {
            let address: IpAddr = text.parse().unwrap();
            let bytes = message(address);
            assert_eq!(bytes.len(), length, "{text}");
            assert_eq!(bytes[..4], u32::try_from(length).unwrap().to_ne_bytes());
            assert_eq!((bytes[17], bytes[19]), (prefix, HOST));
        }
    }

    #[test]
    fn what_the_kernel_says_is_told() {
        let answer =
            |kind: u16, error: i32| [&[0; 4][..], &kind.to_ne_bytes(), &[0; 10], &error.to_ne_bytes()].concat();
        assert!(result(&answer(ERROR, 0)).is_ok());
        assert_eq!(result(&answer(ERROR, -1)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(result(&answer(3, 0)).is_err() && result(&[0; 8]).is_err());
    }
}
