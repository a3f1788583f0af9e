//! The way to the API: the gateway's addresses, or the API's own, as DNS has them now.

use berth_edge::socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// So many addresses are tried: clients wait ten seconds for the first byte of TLS.
const TRIES: usize = 3;

/// A connection to the first address that takes one within `patience`. Which one is tried first goes by `turn`, so that one that is gone costs not
/// each client a wait. `own`: where this program is, to which a connection would lead in a circle.
pub(crate) async fn dial(to: &str, own: IpAddr, turn: usize, patience: Duration) -> io::Result<TcpStream> {
    let found = timeout(patience, lookup_host(to)).await.map_err(|_| no_answer("DNS"))??;
    let (circle, found): (Vec<_>, Vec<_>) = found.partition(|address| address.ip() == own);
    let none = if circle.is_empty() { "DNS has no address" } else { "it has the address of this program itself" };
    let mut why = io::Error::new(io::ErrorKind::NotFound, none);
    for address in order(found, turn) {
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                socket::set_up_server(&stream)?;
                return Ok(stream);
            }
            Ok(Err(error)) => why = io::Error::new(error.kind(), format!("{address}: {error}")),
            Err(_) => why = no_answer(&address.to_string()),
        }
    }
    Err(why)
}

fn no_answer(of: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{of} does not answer"))
}

/// Each address once, another one first at each turn, and not more than are tried.
fn order(mut all: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    all.sort_unstable();
    all.dedup();
    let first = turn.checked_rem(all.len()).unwrap_or_default();
    all.rotate_left(first);
    all.truncate(TRIES);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_turn_and_few_are_tried() {
        let all =
            |hosts: &[u8]| -> Vec<SocketAddr> { hosts.iter().map(|host| ([192, 0, 2, *host], 1).into()).collect() };
        let hosts = all(&[4, 1, 3, 1, 2]);
        assert_eq!(order(hosts.clone(), 0), all(&[1, 2, 3]));
        assert_eq!(order(hosts.clone(), 3), all(&[4, 1, 2]));
        assert_eq!(order(hosts, 5), all(&[2, 3, 4]));
        assert_eq!(order(all(&[7]), 9), all(&[7]));
        assert_eq!(order(vec![], 9), []);
    }
}
