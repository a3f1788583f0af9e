//! Berth's API: the custom resources, their conditions, names and labels.
//!
//! Nothing here talks to a cluster, reads a clock or draws randomness; every other crate may depend on this one.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their keys; kube's derive wants them so")]

pub mod app;
pub mod autoscaling;
pub mod backup;
pub mod backup_schedule;
mod cel;
pub mod cluster;
pub mod cluster_access;
pub mod common;
pub mod conditions;
pub mod crds;
pub mod etcd_bootstrap;
pub mod etcd_cluster;
pub mod etcd_recovery;
pub mod etcd_tuning;
pub mod etcd_upkeep;
pub mod helpers;
pub mod hibernation;
pub mod labels;
pub mod names;
pub mod proxy;
pub mod quantity;
pub mod restore;
pub mod revision;
pub mod selector;
pub mod text;
pub mod until;
pub mod version;

pub use app::{App, AppInstallation, AppInstallationSpec, AppInstallationStatus, AppSpec, AppStatus};
pub use backup::{EtcdBackup, EtcdBackupSpec, EtcdBackupStatus};
pub use backup_schedule::{EtcdBackupSchedule, EtcdBackupScheduleSpec, EtcdBackupScheduleStatus};
pub use berth_contract::access;
pub use berth_contract::apps;
pub use berth_contract::calls;
pub use berth_contract::gateway;
pub use berth_contract::jobs;
pub use cluster::{Cluster, ClusterSpec, ClusterStatus};
pub use cluster_access::{ClusterAccess, ClusterAccessSpec, ClusterAccessStatus};
pub use etcd_cluster::{EtcdCluster, EtcdClusterSpec, EtcdClusterStatus};
pub use restore::{EtcdRestore, EtcdRestoreSpec, EtcdRestoreStatus};
pub use revision::{ClusterRevision, ClusterRevisionSpec, ClusterRevisionStatus};

/// API group of every custom resource of Berth.
pub const GROUP: &str = "berth.dev";
/// The one served version.
pub const VERSION: &str = "v1alpha1";
