//! Stage 8: inside the tenant.

mod addon_images;
pub(crate) mod addons;
pub(crate) mod approval;
mod dns;
mod edited;
mod facts;
pub(crate) mod serving;
mod sets;
mod stage;
mod turn;

pub use serving::are_as_told;
pub use sets::Wanted;
#[cfg(test)]
pub(crate) use sets::slice;
pub(crate) use stage::stage;
pub use turn::Turn;
