//! What a plan for a `Cluster` is made from, and what it is.

use crate::release::Pending;
use crate::turn::Hold;
use berth_api::cluster::{AddonStatus, Cluster, FormerIssuer, RolloutStatus, TurnStatus};
use berth_plan::model::Plan;
use berth_plan::secrets::Certificates;
use jiff::SignedDuration;

/// What a plan for a `Cluster` is made from.
pub type Input<'a> = berth_plan::Input<'a, Cluster>;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct ClusterPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event: no watch reports whether the API answers.
    pub requeue_after: Option<SignedDuration>,
    /// Published address, once known.
    pub endpoint: Option<(String, i32)>,
    /// What its certificates come to.
    pub certificates: Certificates,
    /// What the status is to tell of add-ons; none if the tenant was not asked.
    pub addons: Option<Vec<AddonStatus>>,
    /// The message for fields that are set and that the pinned templates do not read.
    pub unread: Option<String>,
    /// The message for Secrets that images are to be pulled with, and that cannot be used.
    pub pull_secrets: Option<String>,
    /// The message for the Secret of an audit webhook, where API servers go on with what it said before.
    pub audit_webhook: Option<String>,
    /// The message for nodes that API servers are kept from.
    pub unreachable_nodes: Option<String>,
    /// A minor that runs, and waits to be finished.
    pub pending: Option<Pending>,
    /// What the change of the release that the spec asks for waits for, outside of the tenant.
    pub hold: Option<Hold>,
    /// Issuers of service-account tokens that are accepted beside those of the spec.
    pub former_issuers: Vec<FormerIssuer>,
    /// How far the last change of the version is.
    pub turn: Option<TurnStatus>,
    /// The release that is rolled out.
    pub rollout: Option<RolloutStatus>,
    /// When time alone changes the plan.
    pub due: Option<SignedDuration>,
}

impl ClusterPlan {
    /// No CA expires, and no field is without effect.
    pub(crate) fn says_nothing_else(&self) -> bool {
        self.certificates.warnings.is_empty() && self.unread.is_none()
    }
}
