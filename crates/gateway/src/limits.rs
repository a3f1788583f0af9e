//! What it allows.

use berth_contract::vpc::Cidr;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::sources::Most;

/// What does not change while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes of a ClientHello.
    pub(crate) hello: usize,
    /// How long a client has for it, and for a PROXY header.
    pub(crate) hello_within: Duration,
    /// How long an API server has to take a connection.
    pub(crate) dial_within: Duration,
    /// How long a client may stay when the API server has ended.
    pub(crate) stays: Duration,
    /// How long connections stay that are open when it ends.
    pub(crate) drain: Duration,
    /// Connections of a tenant, which may ask for fewer.
    pub(crate) connections: u32,
    /// New connections of a tenant in a second; for a moment twice as many.
    pub(crate) rate: NonZeroU32,
    /// Connections of all together.
    pub(crate) in_all: usize,
    /// New ones in a second, likewise. None: as many as come.
    pub(crate) rate_in_all: Option<NonZeroU32>,
    /// What may come from one place.
    pub(crate) source: Most,
    /// From there a PROXY header has to come.
    pub(crate) proxy_from: Vec<Cidr>,
    /// Connections to tenants that sleep.
    pub(crate) held: MostHeld,
}

/// Connections that wait for a tenant to wake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostHeld {
    /// Of all tenants together.
    pub(crate) in_all: usize,
    /// Of one.
    pub(crate) of_tenant: usize,
    /// From when it came on.
    pub(crate) how_long: Duration,
}
