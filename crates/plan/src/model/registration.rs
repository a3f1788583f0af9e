//! The Secret by which Argo CD knows a tenant.

use berth_render::ObjectKey;
use serde::Serialize;
use std::collections::BTreeMap;

/// How to make that Secret, or to have it be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegistrationPlan {
    /// Which Secret.
    pub key: ObjectKey,
    /// UID of what is there; None: it is created, and never overwritten.
    pub existing: Option<String>,
    /// The kubeconfig that it is made from, key `value`.
    pub source: ObjectKey,
    /// The name of the cluster in Argo CD.
    pub name: String,
    /// The project of Argo CD that it is for.
    pub project: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Labels that it has and that are asked for no more.
    pub former_labels: Vec<String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}
