//! The parts of `berth-apps`: one file a concern.

mod api;
mod cas;
pub mod chart;
pub mod deploy;
pub mod drift;
pub mod helm;
pub mod place;
pub mod problem;
mod record;
pub mod release;
mod said;
pub mod secrets;
pub mod state;
pub mod uninstall;

pub use problem::Problem;
