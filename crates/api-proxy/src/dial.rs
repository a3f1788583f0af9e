//! The way to the API: the gateway's addresses, or the API's own, as DNS has them now.

use berth_edge::socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// How long all addresses together may take: clients wait ten seconds for the first byte of TLS.
const WHOLE: Duration = Duration::from_secs(10);

/// Which address is tried first.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// One that is gone costs not each client a wait.
    turn: AtomicUsize,
    /// The family that worked last is that of IPv6.
    is_v6: AtomicBool,
}

impl Turns {
    /// A connection to the first address that takes one within `patience`. `own`: where this program is, to which a connection would lead in a circle.
    pub(crate) async fn dial(&self, to: &str, own: IpAddr, patience: Duration) -> io::Result<TcpStream> {
        let end = Instant::now() + WHOLE;
        let found = timeout(patience, lookup_host(to)).await.map_err(|_| no_answer("DNS"))??;
        let (circle, found): (Vec<_>, Vec<_>) = found.partition(|address| address.ip() == own);
        let none = if circle.is_empty() { "DNS has no address" } else { "it has the address of this program itself" };
        self.first_of(found, patience, end).await.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::NotFound, none)))
    }

    /// None: there is no address. What fails at once costs no time, and keeps no other one from its try.
    async fn first_of(
        &self,
        found: Vec<SocketAddr>,
        patience: Duration,
        end: Instant,
    ) -> Option<io::Result<TcpStream>> {
        let mut why = None;
        for address in order(found, self.turn.fetch_add(1, Relaxed), self.is_v6.load(Relaxed)) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            why = Some(match timeout(patience.min(left), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    self.is_v6.store(address.is_ipv6(), Relaxed);
                    return Some(socket::set_up_server(&stream).map(|()| stream));
                }
                Ok(Err(error)) => io::Error::new(error.kind(), format!("{address}: {error}")),
                Err(_) => no_answer(&address.to_string()),
            });
        }
        why.map(Err)
    }
}

fn no_answer(of: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{of} does not answer"))
}

/// Each address once, another one first at each turn, and the families in turn: where one leads nowhere the other is not too late.
fn order(mut all: Vec<SocketAddr>, turn: usize, is_v6_first: bool) -> Vec<SocketAddr> {
    all.sort_unstable();
    all.dedup();
    let (mut first, mut second): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| a.is_ipv6() == is_v6_first);
    for family in [&mut first, &mut second] {
        let begin = turn.checked_rem(family.len()).unwrap_or_default();
        family.rotate_left(begin);
    }
    let longest = first.len().max(second.len());
    (0..longest).flat_map(|at| [first.get(at), second.get(at)]).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn each_address_has_its_turn_and_families_alternate() {
        let v4 =
            |hosts: &[u8]| -> Vec<SocketAddr> { hosts.iter().map(|host| ([192, 0, 2, *host], 1).into()).collect() };
        let hosts = v4(&[4, 1, 3, 1, 2]);
        assert_eq!(order(hosts.clone(), 0, false), v4(&[1, 2, 3, 4]));
        assert_eq!(order(hosts.clone(), 3, true), v4(&[4, 1, 2, 3]));
        assert_eq!(order(hosts.clone(), 5, false), v4(&[2, 3, 4, 1]));
        assert_eq!(order(vec![], 9, true), []);
        let v6 = |host: u16| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], 1));
        let both = [v4(&[1, 2, 3]), vec![v6(1), v6(2)]].concat();
        let [one, two, three] = [1, 2, 3].map(|host| v4(&[host])[0]);
        assert_eq!(order(both.clone(), 0, false), [one, v6(1), two, v6(2), three]);
        assert_eq!(order(both, 1, true), [v6(2), two, v6(1), three, one]);
    }

    #[tokio::test]
    async fn what_refuses_costs_no_try_and_the_family_that_worked_is_first() {
        let turns = Turns::default();
        let long = Duration::from_secs(3);
        let first_of = async |found: &[SocketAddr]| turns.first_of(found.to_vec(), long, Instant::now() + WHOLE).await;
        let (v4, v6) = (TcpListener::bind("127.0.0.9:0").await.unwrap(), TcpListener::bind("[::1]:0").await.unwrap());
        let [v4, v6] = [v4, v6].map(|listener| (listener.local_addr().unwrap(), listener));
        let refuses: Vec<SocketAddr> = (2..9).map(|host| ([127, 0, 0, host], v4.0.port()).into()).collect();
        let stream = first_of(&[&refuses[..], &[v4.0]].concat()).await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), v4.0);
        assert!(first_of(&[]).await.is_none());
        assert_eq!(first_of(&refuses).await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let dialled = async |found: &[SocketAddr]| first_of(found).await.unwrap().unwrap().peer_addr().unwrap();
        assert_eq!(dialled(&[v6.0, v4.0]).await, v4.0);
        assert_eq!(dialled(&[v6.0, refuses[0]]).await, v6.0);
        assert_eq!(dialled(&[v6.0, v4.0]).await, v6.0);
        // Time that is over is over.
        assert!(turns.first_of(vec![v4.0], long, Instant::now()).await.is_none());
    }
}
