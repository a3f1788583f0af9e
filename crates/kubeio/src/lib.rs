//! The only crate that writes to Kubernetes: reading what a plan needs, carrying out its actions, writing status.
//!
//! Every call has a deadline. Its client is a [`FencedClient`](berth_fence::FencedClient), so that an operator that lost its
//! lease writes nothing. Private keys live here and nowhere else: [`Snapshot`] holds them beside the facts that plans see.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "API servers in memory"))]

mod access;
mod apps;
mod audit;
mod backups;
mod calls;
mod dry_run;
mod error;
mod executor;
mod facts;
mod lists;
mod meta_cluster;
mod observe;
mod pull_secrets;
mod queue;
mod refused;
mod registration;
mod routes;
mod secrets;
mod sizes;
pub mod slim;
mod snapshot;
mod status;
mod sweep;
mod tenant;
mod volumes;
mod who_am_i;

pub use access::access_pass;
pub use apps::{ValuesSeen, observe_app, observe_installation};
pub use backups::{observe_backup, observe_recoveries, observe_restore, observe_schedule, observe_schedules};
pub use calls::{Calls, Io};
pub use error::{ErrorKind, IoError, lacks};
pub use executor::{Applied, CallEtcd, CallThrough, Executor};
pub use meta_cluster::{MetaNodes, RangesError, agent_delivery, meta_nodes, meta_ranges};
pub use observe::{observe_cluster, observe_etcd};
pub use pull_secrets::read_pull_secrets;
pub use refused::{refused, without_network};
pub use sizes::{Resized, read_sized_pods, read_usage, resize};
pub use snapshot::{Snapshot, fingerprint};
pub use status::{ResourceRef, patch_finalizers, write_status};
pub use sweep::sweep;
pub use tenant::{
    Connect, TenantTarget, all_webhooks, answers, connect, look, look_at_admission, probe_tenant, tenant_target,
};
pub use volumes::read_volumes;
pub use who_am_i::Me;
