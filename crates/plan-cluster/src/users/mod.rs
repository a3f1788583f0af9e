//! What `ClusterAccess`es give inside a tenant: set `users`. Pure; whoever reads and writes is in the operator ([ADR 78](../../../../docs/adr/0078-users-are-recorded.md)).
//!
//! What is given is recorded before it is written ([`Record`]), and what is taken back goes by that name, with the UID that was seen. Nothing goes
//! by a label alone.

mod decide;
mod judge;
mod record;
mod refuse;
mod roles;
mod room;
mod select;
mod status;
#[cfg(test)]
mod tests;
mod wake;
mod wanted;

pub use decide::{Answers, Failed, Outcome, Seen, Step, done, first, outcomes, steps, without_answer};
pub use judge::{Asked, Judged, Roles, Verdict, judge, judge_unread, read};
pub use record::{AccessId, Entry, Record};
pub use refuse::refusal;
pub use roles::custom;
pub use room::looked_for;
pub use select::{missing, reaches, selects};
pub use status::status;
pub use wake::{closes, is_restored, serves_nobody, settles, stored, waking_since};
pub use wanted::Grant;
