//! What the programs at the edge of the platform have in common: they take connections of strangers, and know little.

pub mod args;
#[cfg(feature = "client")]
pub mod client;
pub mod http;
#[cfg(feature = "link")]
pub mod link;
pub mod log;
pub mod rate;
pub mod socket;
