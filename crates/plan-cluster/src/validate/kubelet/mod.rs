//! What kubelet refuses of `spec.kubelet.config`, and what Berth sets there itself.
//!
//! A kubelet that refuses its configuration does not start, and one that does not know a field goes on without it: both would be found on a
//! machine, long after the mistake. The rules are those of kubelet 1.36: `pkg/kubelet/apis/config/validation`, the types of
//! `k8s.io/kubelet/config/v1beta1`, and what the program reads at its start (thresholds of eviction, reserved resources, TLS).

mod eviction;
mod fault;
mod fields;
mod gates;
mod judge;
mod next;
mod own;
mod parse;
mod resources;
mod rules;
mod shape;
mod taints;
mod tls;

pub use fault::Fault;
pub use judge::faults;
pub(crate) use judge::refusal;
pub(crate) use next::refusal_by_next;
pub use next::refused_gates;

#[cfg(test)]
mod tests;
