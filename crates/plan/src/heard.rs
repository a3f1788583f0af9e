//! What gateways told of a tenant: who uses it, and who calls it while it sleeps.

use jiff::Timestamp;

/// Of one tenant, as the operator has heard it so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Who uses it.
    pub uses: Uses,
    /// A connection that waits for it to wake. None: there is none.
    pub call: Option<Call>,
}

/// Who uses a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Uses {
    /// The operator has just begun to listen.
    #[default]
    NotYet,
    /// Not all gateways tell it.
    Unknown(String),
    /// All of them do.
    Known {
        /// From then on all use was counted: what was before nobody knows.
        since: Timestamp,
        /// When somebody was connected, the last time. None: since then nobody.
        last: Option<Timestamp>,
        /// Somebody is.
        now: bool,
    },
}

/// A connection that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it was told of, the last time.
    pub at: Timestamp,
    /// The tenant may wake for it; else as many others wake as may at once.
    pub turn: bool,
}
