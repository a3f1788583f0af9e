//! A connection to a tenant that sleeps: it waits for an API server, as long as clients bear it, and nobody says anything to the client meanwhile.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::dial::dial;
use crate::early::look;
use crate::ended::Ended;
use crate::held::Held;
use crate::limits::Limits;
use crate::tenant::{Lease, Tenant};

/// An API server that is ready and takes no connection is tried so often.
const AGAIN: Duration = Duration::from_millis(500);

/// Who waits.
pub(crate) struct Caller<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) client: IpAddr,
    /// When it came.
    pub(crate) came: Instant,
}

/// Until the tenant has an API server, or the caller can wait no longer. `stop`: the gateway ends.
pub(crate) async fn hold(
    tenant: &Tenant,
    caller: Caller<'_>,
    (held, limits, stop): (&Arc<Held>, &Limits, &CancellationToken),
) -> Result<(TcpStream, Lease), Ended> {
    let mut changes = tenant.changes();
    let _place = held.take(&tenant.cluster)?;
    let until = caller.came + limits.held.how_long;
    let awake = async {
        loop {
            // What changes from here on is looked at.
            changes.borrow_and_update();
            match dial(tenant, limits.dial_within).await {
                Ok(led) => return Ok(led),
                Err(_) if !tenant.wakes_for(caller.client) => return Err(Ended::NoApiServer),
                Err(_) => drop(timeout(AGAIN, changes.changed()).await),
            }
        }
    };
    tokio::select! {
        led = awake => led,
        never = look(tenant) => match never {},
        () = left(caller.stream) => Err(Ended::ClientReset),
        () = sleep_until(until.into()) => Err(Ended::StillAsleep),
        () = stop.cancelled() => Err(Ended::Drained),
    }
}

/// Until the client is gone. One that says more before it has an answer is not looked at any more.
async fn left(stream: &TcpStream) {
    let mut byte = [0];
    match stream.peek(&mut byte).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}
