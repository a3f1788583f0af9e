//! Which member gets the next version, and when: a pure decision, one step at a time.
//!
//! The StatefulSet has the new template, and a *partition*: its controller makes pods from that ordinal on from the new template, and those
//! below from the one before. So a pod that is lost meanwhile comes back as it was. The partition is the ordinal of the member whose turn
//! it is; it goes down by one, so the highest ordinal is first, and whoever leads hands over before its turn. The record says whose turn it
//! is before the StatefulSet does.
//!
//! At the first member that does not come up, or when the spec is turned back, the StatefulSet gets its former template again, and the
//! record forgets the new version: members that have it are then rolled back like any whose template is old.
//!
//! Of a minor there is no way back once all members may have run it: the last one to come has etcd raise the data, which the former minor
//! does not start with. What says that it did, ends the change at once.

mod act;
mod decide;
mod view;

pub(crate) use act::*;
pub(crate) use decide::*;
pub(crate) use view::*;
