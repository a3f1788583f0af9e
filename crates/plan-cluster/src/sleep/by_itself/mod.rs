//! A tenant sleeps once nobody uses it, and wakes when somebody calls ([ADR 76](../../../../../docs/adr/0076-woken-by-a-connection.md)). What gateways
//! told is in the operator's memory alone; what it led to is recorded, and counts from then on.

mod events;
mod problem;
mod record;

pub(crate) use events::{events, facts};
pub(crate) use problem::problem;
pub(crate) use record::carried;
