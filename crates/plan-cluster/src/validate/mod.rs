//! What the spec asks for that needs facts to be judged: versions, networks, flags.

pub(crate) mod admission;
pub(super) mod audit;
mod component;
pub(super) mod host;
pub(super) mod jwt;
pub(super) mod kubelet;
pub(super) mod limits;
mod networks;
mod new_tenant;
mod room;
mod spec;
mod trusted_ca;
pub(super) mod vpc;
pub(super) mod writers;

pub(crate) use component::{autoscaling, beyond_limit, component, etcd_timing, extra_args, helpers, image, resources};
pub(crate) use networks::{networks, without_ranges};
use new_tenant::new_tenant;
pub(crate) use room::room_for_one_node;
pub(crate) use spec::refusal;
