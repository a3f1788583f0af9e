//! One write of a plan.

use super::addition::Addition;
use super::etcd_call::{Maintenance, MemberChange};
use super::registration::RegistrationPlan;
use super::secret::{SecretEntry, SecretPlan};
use crate::object_meta::uid;
use berth_render::{Object, ObjectKey};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One write. What a plan holds is safe to print: private keys are made when the action is carried out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Action {
    /// Server-side apply.
    Apply(Object),
    /// Create; if something of that name is there by then, look again.
    Create(Object),
    /// Make or complete a Secret.
    Secret(SecretPlan),
    /// Delete, if it is still the object that was observed.
    Delete {
        /// Which object.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// Seconds that pods get to end; None: what the object says.
        grace: Option<i64>,
    },
    /// Take away owner references, which Berth never sets: with the owner, Kubernetes would delete the object.
    ClearOwnerReferences {
        /// Which object.
        key: ObjectKey,
        /// The UID that was observed.
        uid: String,
    },
    /// Take away what others added to the spec of a workload, if it is still as it was observed: Berth takes the fields over as its own,
    /// and applies the workload without them.
    RemoveAdditions {
        /// The workload.
        object: Object,
        /// The UID that was observed.
        uid: String,
        /// The version that was observed.
        resource_version: String,
        /// `metadata.managedFields` with the additions as Berth's.
        managed_fields: Value,
        /// What goes.
        additions: Vec<Addition>,
    },
    /// Set `spec.replicas`, if it is still the object that was observed.
    Scale {
        /// Which workload.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// Pods.
        replicas: i32,
    },
    /// Write that a backup is damaged, if its status is still the one that was observed. Nothing else writes it, and nothing takes it back.
    MarkDamaged {
        /// The `EtcdBackup`.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// Its version when it was observed.
        resource_version: String,
        /// Its new status.
        status: Value,
    },
    /// Have a volume grow: set what its claim asks for, if it is still the claim that was observed.
    GrowVolume {
        /// The claim.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
        /// A quantity.
        size: String,
    },
    /// Server-side apply inside the tenant.
    TenantApply(Object),
    /// Server-side apply inside the tenant of a workload whose number of pods is left to others: it is set where the workload is made, and
    /// given up where Berth still owns it.
    TenantApplyUnscaled {
        /// Without `spec.replicas`.
        object: Object,
        /// Pods of a new one.
        replicas: i32,
    },
    /// Delete inside the tenant, if it is still the object that was observed.
    TenantDelete {
        /// Which object.
        key: ObjectKey,
        /// Its UID when it was observed.
        uid: String,
    },
    /// Tell inside the tenant, in an Event about what was just applied, that somebody's edit was set back. What cannot be told ends nothing.
    TenantTell {
        /// What was applied.
        object: Object,
        /// The fields, and where they are set.
        note: String,
    },
    /// Publish the admin kubeconfig into the `Cluster`'s namespace, under its own name.
    PublishKubeconfig {
        /// The Secret to make.
        key: ObjectKey,
        /// Where its content comes from, key `value`.
        source: ObjectKey,
        /// Its labels.
        labels: BTreeMap<String, String>,
    },
    /// Make the tenant known to Argo CD, in a namespace of the platform's. What fails there is seen by the next plan, and ends nothing.
    Register(Box<RegistrationPlan>),
    /// A call to etcd that changes its members. It is on record before it is made, and whatever is answered, the members are asked anew.
    ChangeMembers {
        /// The `EtcdCluster`.
        etcd: ObjectKey,
        /// Name of the member that is told: the leader.
        via: String,
        /// What changes.
        change: MemberChange,
    },
    /// A call to etcd that looks after its databases.
    Maintain {
        /// The `EtcdCluster`.
        etcd: ObjectKey,
        /// Name of the member that is told.
        via: String,
        /// What is done.
        what: Maintenance,
    },
}

impl Action {
    /// Deletes what was observed and nothing else of that name. `grace`: seconds for pods; None: what the object says.
    pub fn delete(key: &ObjectKey, observed: &Value, grace: Option<i64>) -> Self {
        Self::Delete { key: key.clone(), uid: uid(observed).to_owned(), grace }
    }

    /// Gives the workload that was observed so many pods.
    pub fn scale(key: &ObjectKey, observed: &Value, replicas: i32) -> Self {
        Self::Scale { key: key.clone(), uid: uid(observed).to_owned(), replicas }
    }

    /// Takes away all owner references of what was observed.
    pub fn clear_owner_references(key: &ObjectKey, observed: &Value) -> Self {
        Self::ClearOwnerReferences { key: key.clone(), uid: uid(observed).to_owned() }
    }

    /// Deletes what was observed inside the tenant.
    pub fn tenant_delete(key: &ObjectKey, observed: &Value) -> Self {
        Self::TenantDelete { key: key.clone(), uid: uid(observed).to_owned() }
    }

    /// Whether what it does shows only when everything is observed again: it is answered before it is done. No other plan is made from
    /// the same observation after it.
    pub fn shows_later(&self) -> bool {
        matches!(self, Self::Delete { .. } | Self::Scale { .. } | Self::ChangeMembers { .. } | Self::Maintain { .. })
    }

    /// Whether it is carried out inside the tenant.
    pub fn is_in_tenant(&self) -> bool {
        matches!(
            self,
            Self::TenantApply(_)
                | Self::TenantApplyUnscaled { .. }
                | Self::TenantDelete { .. }
                | Self::TenantTell { .. }
        )
    }

    /// What a person reads in a plan.
    pub fn describe(&self) -> String {
        match self {
            Self::Apply(o) => format!("apply {}", o.key()),
            Self::Create(o) => format!("create {}", o.key()),
            Self::Secret(s) => {
                let why: Vec<_> = s.entries.iter().map(SecretEntry::describe).collect();
                format!("{} {}: {}", if s.existing.is_some() { "update" } else { "create" }, s.key, why.join(", "))
            }
            Self::Delete { key, .. } => format!("delete {key}"),
            Self::Scale { key, replicas, .. } => format!("scale {key} to {replicas}"),
            Self::MarkDamaged { key, .. } => format!("mark {key} as damaged"),
            Self::GrowVolume { key, size, .. } => format!("have {key} grow to {size}"),
            Self::ClearOwnerReferences { key, .. } => format!("remove ownerReferences from {key}"),
            Self::RemoveAdditions { object, additions, .. } => {
                format!("remove from {}: {}", object.key(), Addition::list(additions))
            }
            Self::TenantApply(o) | Self::TenantApplyUnscaled { object: o, .. } => {
                format!("apply {} in the tenant", o.key())
            }
            Self::TenantDelete { key, .. } => format!("delete {key} in the tenant"),
            Self::TenantTell { object, .. } => format!("create an Event about {} in the tenant", object.key()),
            Self::PublishKubeconfig { key, .. } => format!("publish {key}"),
            Self::Register(plan) => format!("register the tenant by {}", plan.key),
            Self::ChangeMembers { etcd, via, change } => format!("{} of {etcd} through {via}", change.describe()),
            Self::Maintain { etcd, via, what } => format!("{} of {etcd} by {via}", what.describe()),
        }
    }
}
