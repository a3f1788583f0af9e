//! What happens to an etcd over several reconciles. Each in the same parts: `view` (what a decision is made from, as it was observed),
//! `decide` (a pure function of that: one step at a time, whatever happened to the one before), `act` (what a step does, and what people read).
//!
//! A step that is a write is the next record as a whole, made by `Record::revise`, `begin`, `advance` and `end`. `growth` and `parity` have
//! `decide` alone: no operation is on record for them, and each looks once at what is there.

pub(crate) mod growth;
pub(crate) mod membership;
pub(crate) mod parity;
pub(crate) mod recovery;
pub(crate) mod restore;
pub(crate) mod sleep;
pub(crate) mod upgrade;
pub(crate) mod upkeep;
