//! What the spec asks for that needs facts to be judged: versions, networks, flags.

mod component;
pub(super) mod host;
pub(super) mod limits;
mod networks;
mod new_tenant;
pub(super) mod vpc;
pub(super) mod writers;

pub(crate) use component::{component, resources};
pub(crate) use networks::{NETWORK_IS_IMMUTABLE, disjoint_from_meta, networks, without_ranges};
pub(crate) use new_tenant::new_tenant;
