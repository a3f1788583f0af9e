//! The kernel's routes, rules and addresses, over netlink. Only what `berth-agent net` uses: a library for all of netlink is larger
//! than this whole program.

mod address;
mod attributes;
mod route;
mod rule;

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};

pub(super) use address::Address;
use attributes::{native_u16, native_u32};
pub(super) use route::Route;
pub(super) use rule::{Action, Rule};

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(super) fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.number() == number)
    }
}

/// Whose a rule is: the kernel keeps this number with it. It is in no list of protocols.
const OURS: u8 = 196;

/// Flags of a request.
pub(super) mod flags {
    pub(in crate::net) const REPLACE: u16 = 0x100;
    pub(in crate::net) const EXCL: u16 = 0x200;
    pub(in crate::net) const CREATE: u16 = 0x400;
}

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const DUMP_INTERRUPTED: u16 = 0x10;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;

/// What an answer holds.
struct Message {
    kind: u16,
    body: Vec<u8>,
}

/// A socket to the kernel.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let route = Protocol::from(0);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW.cloexec(), Some(route))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Has something changed, and waits until it is.
    fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.send(kind, flags | REQUEST | ACK, body)?;
        self.answers(|_| ())
    }

    /// Asks for everything of a kind.
    fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        // What changes while it is listed is listed again.
        for _ in 0..10 {
            self.send(kind, DUMP | REQUEST, body)?;
            let mut all = Vec::new();
            match self.answers(|message| all.push(message)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map(|()| all),
            }
        }
        Err(io::Error::other("it changes all the time"))
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let length = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
        let mut out = Vec::with_capacity(HEADER + body.len());
        out.extend(length.to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(flags.to_ne_bytes());
        out.extend(self.sequence.to_ne_bytes());
        out.extend(0_u32.to_ne_bytes());
        out.extend(body);
        self.socket.write_all(&out)
    }

    /// Reads until the end of the answer to the last request.
    fn answers(&mut self, mut each: impl FnMut(Message)) -> io::Result<()> {
        let mut interrupted = false;
        let mut buffer = vec![0; 32 << 10];
        loop {
            let read = self.socket.read(&mut buffer)?;
            let mut rest = buffer.get(..read).unwrap_or_default();
            while let (Some(length), Some(kind), Some(flags), Some(sequence)) =
                (native_u32(rest, 0), native_u16(rest, 4), native_u16(rest, 6), native_u32(rest, 8))
            {
                let length = usize::try_from(length).map_err(io::Error::other)?;
                let Some(body) = rest.get(HEADER..length) else { break };
                let next = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                if sequence == self.sequence {
                    interrupted |= flags & DUMP_INTERRUPTED != 0;
                    match kind {
                        DONE if interrupted => return Err(io::ErrorKind::Interrupted.into()),
                        DONE => return Ok(()),
                        ERROR => return result(body),
                        _ => each(Message { kind, body: body.to_vec() }),
                    }
                }
                rest = next;
            }
        }
    }
}

/// An error that is 0 says that it is done.
fn result(body: &[u8]) -> io::Result<()> {
    match native_u32(body, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
