//! Whether a change of the release may begin now, or waits for its turn in the fleet.
//!
//! Meanwhile the plan is made as if the spec asked for what runs: that is repaired and renewed. A way back never waits.

mod hold;
mod status;
mod wait;

pub use hold::Hold;
pub(crate) use status::{halted, status};
pub use wait::said_of_the_fleet;
pub(crate) use wait::{asleep, hold_of_second_step, target_of_templates, turn, window, wrong_window};
