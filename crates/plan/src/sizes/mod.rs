//! Requests of running pods that follow what the pods use ([ADR 77](../../../../docs/adr/0077-requests-follow-usage.md)): pure, for components
//! of a control plane and for etcd.
//!
//! A *part* is one container of like pods, such as kube-apiserver of one tenant. All of its pods get the same size, by the one that uses
//! most. [`asked`] says for which parts, [`history`] what is remembered of usage, [`recommend`] which size that comes to, [`step`] which pods
//! are resized for it, and [`say`] what people are told.

mod amount;
mod asked;
mod history;
mod recommend;
mod say;
mod seen;
mod step;

pub use amount::Size;
pub use asked::{Asked, Part, part};
pub use history::History;
pub use recommend::{Bounds, recommend};
pub use say::{Metrics, say};
pub use seen::{SizedPod, Usage, Used, usage_of};
pub use step::{Known, Resize, step};

#[cfg(test)]
mod tests;
