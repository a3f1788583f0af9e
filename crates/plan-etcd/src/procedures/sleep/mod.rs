//! Stopping all members of an etcd that nobody uses, and starting them as they were.
//!
//! The record says that members are to be stopped before one is: so none of them counts as lost, and nothing else is begun. A wake starts what
//! ran: a template that was changed meanwhile is given to members once they serve, one after the other, as always.

mod act;
mod decide;
mod view;

pub(crate) use act::*;
pub(crate) use decide::*;
pub(crate) use view::*;
