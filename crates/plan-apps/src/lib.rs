//! The planners of apps in tenants: of an [`app`](app::AppPlanner), which says who gets it and when, and of its [`installation`](installation::InstallationPlanner) in
//! one tenant, which has a Job do it.

pub mod app;
pub mod installation;
mod objects;
#[cfg(test)]
mod tests;

pub use app::AppPlanner;
pub use installation::{InstallationPlanner, Target};

/// When to reconcile again, even without an event.
mod requeue {
    use jiff::SignedDuration;

    /// What is awaited is not announced.
    pub(crate) const WAITING: SignedDuration = SignedDuration::from_secs(10);
    /// A Job's end is announced.
    pub(crate) const RUNNING: SignedDuration = SignedDuration::from_mins(1);
    /// What is awaited may take for ever.
    pub(crate) const SLOW: SignedDuration = SignedDuration::from_mins(1);
    /// Nothing changes by itself.
    pub(crate) const AT_REST: SignedDuration = SignedDuration::from_mins(10);
}
