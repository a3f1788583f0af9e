//! Why a change waits.

use berth_api::cluster::TurnState;
use berth_api::conditions::Reason;
use jiff::Timestamp;

/// Why a change does not begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// `WaitingForWindow`, `WaitingForTurn`, `FleetStopped`; `InvalidSpec` where the window cannot be read.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// For the fleet.
    pub(crate) state: TurnState,
    /// When it may be otherwise by time alone.
    pub(crate) until: Option<Timestamp>,
}
