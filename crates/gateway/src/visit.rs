//! What is known of a connection while it lasts, and becomes its line in the access log.

use jiff::Timestamp;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::copy::Carried;
use crate::ended::Ended;
use crate::line::Line;
use crate::opening::By;

/// What is known of a connection so far.
pub(crate) struct Visit {
    pub(crate) client: SocketAddr,
    pub(crate) by: By,
    pub(crate) has_spoken: bool,
    pub(crate) name: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) gateway: Option<SocketAddr>,
    pub(crate) api_server: Option<SocketAddr>,
    /// How long it waited for the tenant to wake.
    pub(crate) held: Option<Duration>,
    pub(crate) carried: Carried,
}

impl Visit {
    pub(crate) fn new(client: SocketAddr, by: By) -> Self {
        let (name, tenant, gateway, api_server, held) = (None, None, None, None, None);
        Self { client, by, has_spoken: false, name, tenant, gateway, api_server, held, carried: Carried::default() }
    }

    pub(crate) fn line(self, begin: Instant, ended: Ended) -> Line {
        Line {
            time: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            client: self.client,
            name: self.name,
            tenant: self.tenant,
            gateway: self.gateway,
            api_server: self.api_server,
            bytes_up: self.carried.up.load(Relaxed),
            bytes_down: self.carried.down.load(Relaxed),
            held_seconds: self.held.map(|held| held.as_secs_f64()),
            seconds: begin.elapsed().as_secs_f64(),
            ended,
        }
    }
}
