//! What a namespace records of its tenant.

mod addons;
mod direct;
mod networks;
mod pin;

pub(crate) use addons::{addons, addons_annotation};
pub(crate) use direct::FIRST;
pub(crate) use networks::{networks_annotation, refuse};
pub use pin::Pin;
pub(crate) use pin::{new_pin, pin};
