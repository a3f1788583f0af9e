//! What happens to an etcd over several reconciles. Each in the same parts: `view` (what a decision is made from, as it was observed),
//! `decide` (a pure function of that: one step at a time, whatever happened to the one before), `act` (what a step does, and what people read).

pub(crate) mod growth;
pub(crate) mod membership;
pub(crate) mod parity;
pub(crate) mod recovery;
pub(crate) mod restore;
pub(crate) mod upgrade;
pub(crate) mod upkeep;
