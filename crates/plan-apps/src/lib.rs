//! The planners of apps in tenants: of an [`app`](app::AppPlanner), which says who gets it and when, and of its [`installation`](installation::InstallationPlanner) in
//! one tenant, which has a Job do it.

pub mod app;
pub mod installation;
mod objects;
mod requeue;
mod source;
#[cfg(test)]
mod tests;
pub mod values;

pub use app::AppPlanner;
pub use installation::{InstallationPlanner, Target, chart};
