//! What keeps an etcd's databases small: one call after the other, one member at a time, followers first.
//!
//! What is to be done follows from what the members say of their databases and from the alarms. The status remembers what they cannot
//! say: why it began, and which members were defragmented for it. If that is lost, a step is done twice, which harms nothing.

mod act;
mod decide;
mod view;

pub(crate) use act::*;
pub(crate) use decide::*;
pub(crate) use view::*;
