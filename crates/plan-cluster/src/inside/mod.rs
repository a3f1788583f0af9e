//! Stage 8: inside the tenant.

pub(crate) mod addons;
pub(crate) mod approval;
mod facts;
mod sets;
mod stage;
mod turn;

pub use sets::Wanted;
pub(crate) use stage::stage;
pub use turn::Turn;
