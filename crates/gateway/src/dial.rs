//! The way to an API server of a tenant.

use berth_edge::socket;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use crate::ended::Ended;
use crate::tenant::{Lease, Tenant};

/// So many API servers are tried: clients wait ten seconds for the first byte of TLS.
pub(crate) const TRIES: u32 = 3;

/// How long one that refused a connection is not tried: where nothing listens yet, that may be there at any moment.
const AFTER_REFUSAL: Duration = Duration::from_millis(200);
/// How long one that did not answer is not tried.
const AFTER_SILENCE: Duration = Duration::from_secs(1);

/// A connection to the one with the fewest, or the next one if that does not take it within `patience`. One that did not is not tried again for
/// a moment, and then by one client: nobody else waits for what was just found not to answer.
pub(crate) async fn dial(tenant: &Tenant, patience: Duration) -> Result<(TcpStream, Lease), Ended> {
    let mut tried = vec![];
    let mut ended = Ended::Unreachable;
    for _ in 0..TRIES {
        let lease = match tenant.pick(&tried, Instant::now(), patience) {
            Ok(lease) => lease,
            Err(why) => {
                ended = if tried.is_empty() { why } else { ended };
                break;
            }
        };
        let connected = tokio::select! {
            connected = timeout(patience, TcpStream::connect(lease.address())) => connected,
            () = lease.gone() => Ok(Err(std::io::ErrorKind::ConnectionRefused.into())),
        };
        match connected {
            Ok(Ok(stream)) if socket::set_up_server(&stream).is_ok() => {
                lease.answers();
                return Ok((stream, lease));
            }
            Ok(_) => lease.rests(Instant::now() + AFTER_REFUSAL),
            Err(_) => lease.rests(Instant::now() + AFTER_SILENCE),
        }
        tried.push(lease.address());
    }
    Err(ended)
}
