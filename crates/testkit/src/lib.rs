//! What Berth's tests stand on, for development only.
//!
//! * [`apiserver`]: a real etcd and kube-apiserver on loopback, with RBAC and an audit log.
//! * [`charts`]: a repository of Helm charts.
//! * [`canary`]: pieces of private keys, to be looked for where they must not be.
//! * [`world`]: what the cluster's own controllers and kubelets would do, as far as it matters here.
//! * [`fault`]: a service under kube's `Client` that counts mutating calls and breaks the one you name.
//! * [`gateway_api`]: the CustomResourceDefinition of a kind that a meta cluster may have.
//! * [`hello`]: what a TLS client begins with.
//! * [`kinds`]: an object of every kind of Kubernetes' own.
//! * [`oracle`]: end states and call counts, masked so that two runs can be compared.
//! * [`policies`]: who may reach whom, by NetworkPolicies.
//! * [`debian`]: programs from packages, without installing them.
//! * [`ports`]: loopback ports that are a process's own until it ends.
//! * [`prometheus`]: a real Prometheus, to scrape what is under test.
//! * [`rights`]: which containers of a pod may what a pod of a team may not.
//! * [`s3`]: a real S3 server, and a proxy that misbehaves as object stores do.
//! * [`schema`]: every field of a CustomResourceDefinition, and values that may trip it.
//! * [`simulated`]: the world in memory that planners are tested in, with real keys.
//! * [`situations`]: objects in every situation, with what their conditions say.
//! * [`sweep`]: runs a workload once undisturbed, then once for every mutating call and way to break it.
//! * [`fixtures`]: objects from YAML or JSON, polling.
//!
//! Of Berth's crates only what plans are made of, and their simulation, are below this one; the others depend on it in their tests.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test harness fails by panicking with a message, it ships nowhere"
)]

pub mod apiserver;
pub mod canary;
pub mod charts;
pub mod debian;
pub mod fault;
pub mod fixtures;
pub mod forward;
pub mod gateway_api;
pub mod hello;
pub mod kinds;
pub mod oracle;
pub mod patience;
pub mod policies;
pub mod ports;
pub mod prometheus;
pub mod rights;
pub mod s3;
pub mod schema;
pub mod simulated;
pub mod situations;
pub mod sweep;
pub mod world;

pub use apiserver::ApiServer;
pub use berth_sim::etcd_members;
pub use fault::{Fault, FaultPlan};
pub use world::World;
