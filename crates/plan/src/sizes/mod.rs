//! Requests of running pods that follow what the pods use ([ADR 77](../../../../docs/adr/0077-requests-follow-usage.md)): pure, for components
//! of a control plane and for etcd.
//!
//! A *part* is one container of like pods, such as kube-apiserver of one tenant. All of its pods get the same size, by the one that uses
//! most. [`asked`] says for which parts, [`history`] what is remembered of usage, [`recommend`] which size that comes to, [`step`] which pods
//! are resized for it, and [`say`] what people are told.

mod amount;
mod asked;
mod begin;
mod history;
mod read;
mod recommend;
mod say;
mod seen;
mod step;
mod tried;

pub use amount::Size;
pub use asked::{Asked, Part, part};
pub use begin::{given, without_size};
pub use history::History;
pub use read::ReadPod;
pub use recommend::{Bounds, recommend};
pub use say::{Metrics, said_before, say};
pub use seen::{Container, SizedPod, Usage, Used, usage_of};
pub use step::{Known, Resize, step};

#[cfg(test)]
mod tests;
