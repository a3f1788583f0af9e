//! Which member comes, goes or is replaced next: a pure decision, one step at a time.
//!
//! A step is a write of the record, a call to etcd, or something done to a pod or a claim. The record says what is about to happen before
//! etcd is told, and after each call the members are asked anew: whether a call was carried out shows only there. So a step follows from
//! the record and from what etcd lists, whatever happened to the answer of the one before.
//!
//! Members are matched by the IDs that etcd gave them, and by their peer URLs until they have one. Where etcd lists what the record does
//! not know, nothing is changed.

mod act;
mod decide;
mod view;

pub(crate) use act::*;
pub(crate) use decide::*;
pub(crate) use view::*;
