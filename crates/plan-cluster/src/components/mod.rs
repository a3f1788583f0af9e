//! The components of the control plane: one table, and a file for each.
//!
//! Certificates, roots, isolation, validation, status, pruning and the command line go through [`ALL`]. To add one: a file here
//! with its row, the row's name in [`ALL`], its part of the spec, and its binary and role in `berth_render` with a folder of templates.

mod advertise;
mod all;
mod api_client;
mod apiserver;
mod apiserver_values;
mod component;
mod controller_manager;
mod scheduler;
mod slots;
mod soak;
mod stage;
mod workloads;

#[cfg(test)]
pub(crate) use advertise::advertised;
pub use all::ALL;
pub(crate) use apiserver_values::{ETCD_CLIENT, service_account_issuers};
pub use component::{Asked, Component};
pub(crate) use stage::stages;
pub(crate) use workloads::Workloads;
