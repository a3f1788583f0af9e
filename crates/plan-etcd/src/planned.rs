//! What a plan is made from, and what the status needs beside it.

use crate::health::Health;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Record;
use berth_api::etcd_cluster::{AbsentNode, EtcdEndpoint};
use berth_api::etcd_recovery::RecoveryStatus;
use berth_api::etcd_upkeep::{HashCheck, Upkeep};
use berth_plan::model::Plan;
use berth_plan::secrets::Certificates;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct EtcdPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event: no watch reports how the members are.
    pub requeue_after: Option<SignedDuration>,
    /// What its certificates come to.
    pub certificates: Certificates,
    /// The message for fields that are set and that the pinned templates do not read.
    pub unread: Option<String>,
    /// The message for Secrets that images are to be pulled with, and that cannot be used.
    pub pull_secrets: Option<String>,
    /// Where the members are reached; empty until every one of them has an address.
    pub endpoints: Vec<EtcdEndpoint>,
    /// What the members run with. None: nothing can be made of the spec, or it is being deleted.
    pub record: Option<Record>,
    /// How the members are.
    pub health: Health,
    /// The upkeep of the databases, for the status.
    pub upkeep: Option<Upkeep>,
    /// What is done by itself about a lost quorum, for the status.
    pub recovery: Option<RecoveryStatus>,
    /// That it sleeps, or is on the way into a sleep or out of it; for the status.
    pub sleep: Option<(Reason, String)>,
    /// When it goes on.
    pub(crate) upkeep_after: Option<SignedDuration>,
    /// The last comparison of the members' data, for the status.
    pub hashes: Option<HashCheck>,
    /// Nodes that are away, with members' volumes, for the status.
    pub absent_nodes: Vec<AbsentNode>,
    /// When one was tried in vain, for the status.
    pub hashes_failed_at: Option<Time>,
}
