//! Bytes from one side to the other, both ways.

use berth_edge::socket;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;

use crate::counts::Traffic;
use crate::ended::Ended;
use crate::idle::Using;

/// Read at once. There is a buffer only while there is something to copy: connections are idle most of the time.
const BUFFER: usize = 8 * 1024;
/// So often a connection is read from before others have their turn.
const TURN: usize = 16;

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
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut has_more = true;
        for _ in 0..TURN {
            buffer.clear();
            match from.try_read_buf(&mut buffer) {
                Ok(0) => {
                    socket::end(to);
                    return Ok(());
                }
                Ok(bytes) => {
                    write(to, &buffer).await.map_err(|_| to_gone)?;
                    count(bytes);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    has_more = false;
                    break;
                }
                Err(_) => return Err(from_gone),
            }
        }
        drop(buffer);
        if has_more {
            tokio::task::yield_now().await;
        }
    }
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
