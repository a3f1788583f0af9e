//! A tenant that nobody uses has no pods, and keeps everything else ([ADR 75](../../../../docs/adr/0075-asleep-is-a-state.md)).
//!
//! What is recorded on the control-plane namespace decides what runs; [`decide_sleep`] decides what is recorded next. A step is a write of the
//! record, so it goes on from wherever the operator ended. While it is not `Awake`, no change of what runs begins.

mod backup;
mod by_itself;
mod by_time;
mod decide;
mod hindrance;
mod progress;
mod record;
mod say;
pub(crate) mod state;
mod view;
mod wish;

pub use backup::sleep_backups;
pub(crate) use backup::take as take_backup;
pub use by_time::next_by_schedule;
#[cfg(test)]
pub(crate) use decide::{AGAIN, PATIENCE};
pub(crate) use say::{backup_state, component_state, judged, note, said, status, unfit_backup, wrong_schedules};
pub use view::falls_asleep;
pub(crate) use view::tenant;
