//! Loopback ports that are this process's until it ends.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Below what a kernel hands out by itself and what NodePorts are of: no connection is ever given one of them.
const RANGE: std::ops::Range<u16> = 10_000..30_000;

/// By which other processes see what is taken: each of them is a name of a socket, which ends with its process.
static TAKEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port of 127.0.0.1 that no other caller of this function on this machine gets as long as this process lives.
///
/// One that the kernel names for a moment goes to whoever asks next, often before the server listens that is meant to have it.
pub fn port() -> u16 {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Processes begin in different places, so that they do not try each other's first.
    let begin = std::process::id().wrapping_mul(97).wrapping_add(u32::try_from(taken.len()).unwrap_or_default());
    let size = u32::from(RANGE.end - RANGE.start);
    for step in 0..size {
        let port = RANGE.start + u16::try_from((begin.wrapping_add(step)) % size).unwrap_or_default();
        let name = SocketAddr::from_abstract_name(format!("berth-port-{port}")).unwrap();
        let Ok(mark) = UnixListener::bind_addr(&name) else { continue };
        // Somebody else's server, or a connection that has not quite ended.
        let free =
            |ip: &str| std::net::TcpListener::bind((ip, port)).is_ok() && std::net::UdpSocket::bind((ip, port)).is_ok();
        if free("127.0.0.1") && free("0.0.0.0") {
            taken.push(mark);
            return port;
        }
    }
    panic!("no port of {RANGE:?} is free")
}

/// As many, each another.
pub fn ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_one_twice() {
        let mut all = ports::<64>().to_vec();
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(ports::<16>)).collect();
        all.extend(threads.into_iter().flat_map(|t| t.join().unwrap()));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 64 + 8 * 16);
        assert!(all.iter().all(|port| RANGE.contains(port)));
    }

    #[test]
    fn what_another_process_has_is_left_out() {
        let port = port();
        let name = SocketAddr::from_abstract_name(format!("berth-port-{port}")).unwrap();
        let error = UnixListener::bind_addr(&name).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }
}
