//! Bytes from one side to the other, both ways.

use berth_edge::socket;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;

use crate::counts::Traffic;
use crate::ended::Ended;
use crate::idle::Using;

/// Read at once. Calls of the kernel cost more than bytes do.
const MUCH: usize = 64 * 1024;
/// Read at once while much waits for who takes little.
const LITTLE: usize = 8 * 1024;
/// How much may wait, of all connections, before less is read at once.
const ROOM: usize = 16 * 1024 * 1024;
/// So often a connection is read from before others have their turn.
const TURN: usize = 4;

/// Bytes that were read and not yet written, of all connections.
static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Nothing stays in it: connections are idle most of the time, and have no buffer of their own.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MUCH]);
}

/// Bytes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// To the API server.
    pub(crate) up: AtomicU64,
    /// To the client.
    pub(crate) down: AtomicU64,
}

/// Writes what was read before, then copies until both sides have ended, or one is gone. There is no limit to how long nothing happens, until the
/// API server has ended: a client has nothing to say then, and one that stays would count as a connection for ever. `stays`: how long it may. `using`:
/// hears when the client says more than what was read before.
pub(crate) async fn copy(
    client: &TcpStream,
    server: &TcpStream,
    begin: Vec<u8>,
    (carried, traffic, using): (&Carried, &Traffic, Option<&Using>),
    stays: Duration,
) -> Ended {
    let counted = |of: &AtomicU64, all: &AtomicU64, bytes: usize| {
        of.fetch_add(bytes as u64, Relaxed);
        all.fetch_add(bytes as u64, Relaxed);
    };
    let up = async {
        let count = |bytes| counted(&carried.up, &traffic.up, bytes);
        write(server, &begin).await.map_err(|_| Ended::ApiServerReset)?;
        count(begin.len());
        drop(begin);
        let count = |bytes| {
            count(bytes);
            using.inspect(|using| using.says());
        };
        one_way((client, Ended::ClientReset), (server, Ended::ApiServerReset), count).await
    };
    let down = async {
        let count = |bytes| counted(&carried.down, &traffic.down, bytes);
        one_way((server, Ended::ApiServerReset), (client, Ended::ClientReset), count).await
    };
    let (mut up, mut down) = (pin!(up), pin!(down));
    let ended = tokio::select! {
        first = &mut up => match first {
            Ok(()) => down.await,
            Err(ended) => Err(ended),
        },
        first = &mut down => match first {
            Ok(()) => tokio::time::timeout(stays, up).await.unwrap_or(Err(Ended::ClientReset)),
            Err(ended) => Err(ended),
        },
    };
    ended.err().unwrap_or(Ended::Closed)
}

/// Until the one that is read from has ended, which is passed on. Each comes with what it is called if it is gone.
async fn one_way(
    (from, from_gone): (&TcpStream, Ended),
    (to, to_gone): (&TcpStream, Ended),
    count: impl Fn(usize),
) -> Result<(), Ended> {
    loop {
        from.readable().await.map_err(|_| from_gone)?;
        let mut has_more = true;
        for _ in 0..TURN {
            match pass(from, to) {
                Passed::All(bytes) => count(bytes),
                Passed::Some(bytes, rest) => {
                    write(to, &rest.0).await.map_err(|_| to_gone)?;
                    count(bytes);
                }
                Passed::Nothing => {
                    has_more = false;
                    break;
                }
                Passed::Ended => {
                    socket::end(to);
                    return Ok(());
                }
                Passed::FromGone => return Err(from_gone),
                Passed::ToGone => return Err(to_gone),
            }
        }
        if has_more {
            tokio::task::yield_now().await;
        }
    }
}

/// What came of one read and one write, without waiting.
enum Passed {
    /// So many bytes were read and written.
    All(usize),
    /// So many were read; these still have to be written.
    Some(usize, Rest),
    Nothing,
    Ended,
    FromGone,
    ToGone,
}

/// It is counted as long as it waits.
struct Rest(Vec<u8>);

impl Rest {
    fn new(bytes: &[u8]) -> Self {
        WAITING.fetch_add(bytes.len(), Relaxed);
        Self(bytes.to_vec())
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        WAITING.fetch_sub(self.0.len(), Relaxed);
    }
}

fn pass(from: &TcpStream, to: &TcpStream) -> Passed {
    let most = if WAITING.load(Relaxed) < ROOM { MUCH } else { LITTLE };
    BUFFER.with_borrow_mut(|buffer| {
        let bytes = match from.try_read(&mut buffer[..most]) {
            Ok(0) => return Passed::Ended,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Passed::Nothing,
            Err(_) => return Passed::FromGone,
        };
        match to.try_write(&buffer[..bytes]) {
            Ok(written) if written == bytes => Passed::All(bytes),
            Ok(written) => Passed::Some(bytes, Rest::new(&buffer[written..bytes])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Passed::Some(bytes, Rest::new(&buffer[..bytes])),
            Err(_) => Passed::ToGone,
        }
    })
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
