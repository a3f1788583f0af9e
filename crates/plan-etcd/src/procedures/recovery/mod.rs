//! What Berth does by itself about a quorum that is lost for good, where `spec.recovery` is `Automatic`: it creates an `EtcdRestore`, which
//! then goes its way as a person's does. Pure: one step at a time, each from what is there, wherever the operator ended.
//!
//! A loss counts only if it is proven: guards found the volumes empty, or their claims are lost, of so many that no quorum can ever be again,
//! and that lasts. Whoever is merely away may hold what was acknowledged last, so it is waited for. What is left is preferred to a backup.
//! The etcd says that it is about to begin before it does; so the number of recoveries in the fleet is bounded, however many begin at once.

mod act;
mod decide;
mod view;

pub(crate) use act::*;
pub(crate) use decide::*;
pub use view::recovers;
pub(crate) use view::*;
