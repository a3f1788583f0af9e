//! Charts, rendered on the machine of whoever asks.

mod helm;
mod objects;

pub(crate) use helm::{Helm, Release};
pub(crate) use objects::documents;
