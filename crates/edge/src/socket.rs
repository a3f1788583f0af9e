//! Sockets as they all are here.

use anyhow::{Context as _, Result};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Connections that wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// One on which nothing happens is asked after 15 to 30 s whether the other end is still there, and after 30 s without an answer it is not. Load
/// balancers forget a connection sooner than a watch has something to say. Each has its own time: thousands that came together, as after a restart, would
/// be asked together, and the kernel drops what one of its CPUs cannot take at once (`net.core.netdev_max_backlog`), again and again of the same ones.
const QUIET: RangeInclusive<u64> = 15..=30;
const AGAIN: Duration = Duration::from_secs(10);
const TRIES: u32 = 3;

/// Listens there; on `[::]` for IPv6 alone, so that `0.0.0.0` can be beside it.
///
/// # Errors
/// If it cannot: the address is in use, or none of this machine's.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listen = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // One that just ended may still have connections on that port.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().with_context(|| format!("cannot listen on {address}"))
}

/// Where programs listen by themselves. IPv6 is left out where the node has none.
const LISTEN: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8443),
];

/// Listens on all of them; `[::]` beside another one is left out where it cannot. None are given: on port 8443 of all addresses.
///
/// # Errors
/// If it cannot listen on another one of them.
pub fn listen_all(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>> {
    let addresses = if addresses.is_empty() { &LISTEN } else { addresses };
    let mut all = vec![];
    for address in addresses {
        match listen(*address) {
            Err(error) if addresses.len() > 1 && address.ip() == Ipv6Addr::UNSPECIFIED => eprintln!("{error:#}"),
            listener => all.push(listener?),
        }
    }
    Ok(all)
}

/// What the kernel keeps of a connection for either side at most; it counts twice as much, with what it needs itself. Without a bound it is megabytes
/// for each client that asks for much and does not read it.
const KEPT: usize = 128 * 1024;

/// How long what was sent to a client, or to an API server, may stay without an answer. Keepalive does not look while something is on its way.
const CLIENT_ANSWERS: Duration = Duration::from_mins(10);
const API_SERVER_ANSWERS: Duration = Duration::from_mins(1);

/// For a client's connection.
///
/// # Errors
/// If it is gone already.
pub fn set_up(stream: &TcpStream) -> io::Result<()> {
    set_up_for(stream, CLIENT_ANSWERS)
}

/// For one to an API server.
///
/// # Errors
/// If it is gone already.
pub fn set_up_server(stream: &TcpStream) -> io::Result<()> {
    set_up_for(stream, API_SERVER_ANSWERS)
}

fn set_up_for(stream: &TcpStream, answers: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(quiet()).with_interval(AGAIN).with_retries(TRIES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(answers))?;
    socket.set_recv_buffer_size(KEPT)?;
    socket.set_send_buffer_size(KEPT)
}

/// Of [`QUIET`], in turns.
fn quiet() -> Duration {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let (first, last) = (QUIET.start(), QUIET.end());
    Duration::from_secs(first + TURN.fetch_add(1, Relaxed) % (last - first + 1))
}

/// Says that nothing more will be sent. What was written before is sent.
pub fn end(stream: &TcpStream) {
    // Who is gone already need not be told.
    let _ = SockRef::from(stream).shutdown(Shutdown::Write);
}

/// When it is dropped it is reset.
pub fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// As many open files as this process may have. Each connection is two.
pub fn raise_limit(program: &str) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        eprintln!("{program}: cannot raise the limit of open files: {error}");
    }
}
