//! A real Kubernetes cluster on one Linux machine, without Docker: what `make demo`, the e2e tests and the benches run on.
//!
//! - [`binaries`]: Kubernetes, etcd, containerd and more, fetched or built from Go modules into a cache outside of the checkout.
//! - [`images`]: FROM-scratch images of them, and of Berth's own programs.
//! - [`Cluster`]: a cluster in network namespaces of its own, of one node or up to four, reachable from the host by
//!   address. Any number (up to sixteen) run side by side.
//! - [`Vpc`]: a network of a tenant beside the cluster's own, to which pods are attached by NetworkAttachmentDefinitions. Two may have the
//!   same addresses.
//! - [`S3`]: a server for backups.
//! - [`Worker`]: a machine beside the cluster or in a VPC, which becomes a node of another control plane by `kubeadm join`.
//!
//! Pods of a cluster with VPCs are attached by `cni-meta`, a program of this crate, since multus is in none of the registries that
//! clusters are built from. It is configured as multus is; [`Config::cni_meta_plugin`] puts multus in its place.
//!
//! What a cluster starts is known by pid and start time and by a mark in its environment, so that taking it down ends
//! that and nothing else.

mod addons;
mod api;
pub mod binaries;
mod cgroups;
mod cluster;
mod components;
pub mod deps;
mod dns;
mod files;
pub mod images;
mod layout;
mod meta_plugin;
mod mounts;
mod network;
mod node;
mod node_config;
pub mod paths;
mod pki;
mod process;
mod s3;
mod slot;
mod state;
pub mod supervisor;
pub mod versions;
mod vpc;
mod worker;

pub use addons::STORAGE_CLASS;
pub use cluster::{Cluster, Component, Config, Status, list};
pub use node::MAX_NODES;
pub use s3::S3;
pub use slot::Slot;
pub use state::Phase;
pub use vpc::{Vpc, VpcConfig};
pub use worker::{MAX_WORKERS, Worker};
