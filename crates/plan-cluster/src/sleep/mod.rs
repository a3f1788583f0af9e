//! A tenant that nobody uses has no pods, and keeps everything else ([ADR 75](../../../../docs/adr/0075-asleep-is-a-state.md)).
//!
//! What is recorded on the control-plane namespace decides what runs; [`decide_sleep`] decides what is recorded next. A step is a write of the
//! record, so it goes on from wherever the operator ended. While it is not `Awake`, no change of what runs begins.

mod by_time;
mod decide;
mod say;
pub(crate) mod state;
mod view;
mod wish;

pub use by_time::next_by_schedule;
#[cfg(test)]
pub(crate) use decide::{AGAIN, PATIENCE};
pub(crate) use say::{component_state, judged, note, said, status, wrong_schedules};
pub(crate) use view::tenant;
