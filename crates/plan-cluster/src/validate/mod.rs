//! What the spec asks for that needs facts to be judged: versions, networks, flags.

mod component;
pub(super) mod host;
pub(super) mod limits;
mod networks;
mod new_tenant;
mod spec;
pub(super) mod vpc;
pub(super) mod writers;

pub(crate) use component::{component, resources};
pub(crate) use networks::{networks, without_ranges};
use new_tenant::new_tenant;
pub(crate) use spec::refusal;
