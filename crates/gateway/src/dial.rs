//! The way to an API server of a tenant.

use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use crate::ended::Ended;
use crate::socket;
use crate::tenant::{Lease, Tenant};

/// So many API servers are tried: clients wait ten seconds for the first byte of TLS.
pub(crate) const TRIES: u32 = 3;

/// A connection to the one with the fewest, or the next one if that does not take it within `patience`.
pub(crate) async fn dial(tenant: &Tenant, patience: Duration) -> Result<(TcpStream, Lease), Ended> {
    let mut tried = vec![];
    for _ in 0..TRIES {
        let Some(lease) = tenant.pick(&tried) else { break };
        let connected = tokio::select! {
            connected = timeout(patience, TcpStream::connect(lease.address())) => connected.ok().and_then(Result::ok),
            () = lease.gone() => None,
        };
        if let Some(stream) = connected.filter(|stream| socket::set_up(stream).is_ok()) {
            return Ok((stream, lease));
        }
        tried.push(lease.address());
    }
    Err(if tried.is_empty() { Ended::NoApiServer } else { Ended::Unreachable })
}
