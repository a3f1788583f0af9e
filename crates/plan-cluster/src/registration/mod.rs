//! What makes a tenant known to the platform's Argo CD: a Secret in Argo CD's namespace, and rights in the tenant of a user of its own.
//!
//! The kubeconfig of that user, in the control-plane namespace, is the record: it is there before anything else is, says in which namespace the
//! Secret is, and goes last. The `Cluster`'s status has the same, for people, and for where the kubeconfig is lost. What is wrong with it
//! keeps nothing else of the tenant from being done.

mod decide;
mod record;
mod rights;
mod say;
mod stage;
mod wish;

pub use record::key as registered_key;
pub(crate) use record::status;
pub(crate) use rights::{are_wanted as has_rights, go as rights_go, listing, set};
pub(crate) use say::verdict;
pub(crate) use stage::{again, end, stage};
