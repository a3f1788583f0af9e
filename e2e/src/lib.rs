//! Berth on a real cluster with real pods. One behaviour a module in `tests/usual` and `tests/long`, and in `tests/make` what calls `make`;
//! what they share is here.
//!
//! - [`run`] gives a test its [`World`]: the devcluster `e2e`, made once and used by all, with Berth on it and no tenants.
//! - [`Tenant`] is one `Cluster` and what belongs to it. Of each that is at rest, [`rest`] asks for a plan, which has to be empty.
//! - [`until`] waits on state. Nothing here asserts how long something takes.
//!
//! `make test` runs them with `BERTH_REAL=1`; without it they fail rather than pass without having run.

pub mod apps_jobs;
pub mod apps_release;
pub mod apps_setup;
pub mod caller;
pub mod canary;
pub mod certs;
pub mod crowd;
pub mod curl;
pub mod dial;
pub mod faults;
pub mod images;
pub mod issuer;
pub mod kube_client;
pub mod kubectl;
pub mod machines;
pub mod make;
pub mod memory;
pub mod minors;
pub mod network;
pub mod operator;
pub mod outside;
pub mod pages;
pub mod paths;
pub mod registry;
pub mod renewal;
pub mod report;
pub mod rest;
pub mod revisions;
pub mod run;
pub mod s3;
pub mod scanner;
pub mod suite;
pub mod tenant;
pub mod values;
pub mod versions;
pub mod wait;
pub mod world;
pub mod writer;

pub use apps_jobs::Jobs;
pub use apps_setup::{Charts, TheApp};
pub use caller::Caller;
pub use crowd::Crowd;
pub use issuer::Issuer;
pub use kube_client::{Kube, apps, berth, core};
pub use kubectl::Kubectl;
pub use operator::{Options, PULL_SECRET, SYSTEM};
pub use outside::Outside;
pub use registry::{Registry, WEB};
pub use run::run;
pub use tenant::Tenant;
pub use versions::{NEWEST, PREVIOUS_PATCH};
pub use wait::{stays, until, until_within};
pub use world::World;
pub use writer::Writer;
