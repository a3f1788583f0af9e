//! What all planners have in common: what a plan and a status are made from, and what follows from a plan.

use crate::failure::Failure;
use crate::model::Plan;
use crate::observed::Observed;
use crate::settings::Settings;
use jiff::{SignedDuration, Timestamp};
use kube_core::Resource;

/// What a plan and a status are made from.
#[derive(Debug)]
pub struct Input<'a, K> {
    /// The object as it was read.
    pub object: &'a K,
    /// What was observed for it. For the status, with the answers to this reconcile's writes in it.
    pub observed: &'a Observed,
    /// The operator's configuration.
    pub settings: &'a Settings,
    /// The time of this reconcile.
    pub now: Timestamp,
}

impl<K> Clone for Input<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Input<'_, K> {}

impl<'a, K: Resource> Input<'a, K> {
    /// `metadata.name`.
    pub fn name(&self) -> &'a str {
        self.object.meta().name.as_deref().unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &'a str {
        self.object.meta().namespace.as_deref().unwrap_or_default()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &'a str {
        self.object.meta().uid.as_deref().unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn is_deleted(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }
}

/// What follows from a plan.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// What to do.
    pub plan: &'a Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// After this long time alone changes the plan, such as by a certificate that is due.
    pub due: Option<SignedDuration>,
}

/// Pure functions that decide for one kind. Controllers, the command line and simulations call them through this.
pub trait Planner {
    /// The kind, such as `EtcdCluster`.
    type Object;
    /// A plan, and what the status needs beside it.
    type Planned: Send + Sync;
    /// Its status.
    type Status;

    /// What is to be done.
    fn plan(input: Input<'_, Self::Object>) -> Self::Planned;

    /// What follows from a plan.
    fn outcome(planned: &Self::Planned) -> Outcome<'_>;

    /// The status. `failure`: what went wrong in this reconcile, if people are to know.
    fn status(input: Input<'_, Self::Object>, planned: &Self::Planned, failure: Option<&Failure>) -> Self::Status;
}
