//! What the operator and the guard of an etcd member agree on (see [`berth_contract`]), and the record that the operator keeps of it.

use crate::common::AgentDelivery;
use crate::conditions::Reason;
use crate::helpers::Amounts;
use crate::version::Version;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use berth_contract::*;

/// What the members run with, also when the spec asks for something else by now. The operator keeps it, as JSON, in an annotation
/// of the StatefulSet and of the bootstrap ConfigMap.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What the guard is told.
    #[serde(flatten)]
    pub bootstrap: Bootstrap,
    /// etcd's version.
    pub version: Version,
    /// Members.
    pub replicas: i32,
    /// Digest of the template set.
    pub templates: String,
    /// Agent image.
    pub agent_image: String,
    /// How the agent gets into the pods.
    pub agent_delivery: AgentDelivery,
    /// The chart's `helpers.resources`. None: it was not set.
    pub helper_resources: Option<Amounts>,
    /// Members that the cluster was formed of. Their names are in all pods, so that peers reach them by name; those that came later are
    /// reached at their addresses. None: as many as there are.
    pub founders: Option<i32>,
    /// The change of members, or of the version, that is under way.
    pub operation: Option<Operation>,
    /// What members get while the version changes. Until all have it, the fields above say what they had before.
    pub next: Option<Release>,
    /// The version that did not come up last. It is not tried again until the spec has asked for another one.
    pub failed: Option<FailedVersion>,
}

/// A version of etcd, with what its members are made from.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// etcd's version.
    pub version: Version,
    /// Digest of the template set.
    pub templates: String,
    /// Agent image.
    pub agent_image: String,
    /// How the agent gets into the pods.
    pub agent_delivery: AgentDelivery,
    /// The chart's `helpers.resources`. None: it was not set.
    #[serde(default)]
    pub helper_resources: Option<Amounts>,
}

/// A version that did not come up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedVersion {
    /// etcd's version.
    pub version: Version,
    /// What its first member that did not come up said.
    pub why: String,
}

/// A change of an etcd's members or of its version, or a restore.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Its number among the changes of this etcd.
    pub id: i64,
    /// What it does.
    #[serde(rename = "type")]
    pub kind: OperationKind,
    /// The member that it is about; while the version changes, the one whose turn it is, with the version: `etcd-2@3.6.16`.
    pub target: String,
    /// The step that it is at.
    pub phase: Phase,
    /// Since when it is at this step.
    pub since: Time,
}

/// What a change of members does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OperationKind {
    /// Adds a member.
    Grow,
    /// Removes a member whose data is lost, and adds it anew under another ID.
    Replace,
    /// Removes the member with the highest ordinal, with its volume.
    Shrink,
    /// Begins a new epoch from a backup, with the first member.
    Restore,
    /// Gives one member after the other another version.
    Upgrade,
    /// Stops all members, whose volumes stay, and starts them again.
    Sleep,
    /// Something that only a newer build knows: this one changes no member then.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A step of a change of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// The member gets an address and is named in the certificates.
    Prepare,
    /// It is added as a learner.
    Add,
    /// Its pod starts, and it copies the data.
    Start,
    /// Its pod is replaced by one of the new version.
    Roll,
    /// It is given its vote.
    Promote,
    /// Its leadership is handed over, and it is removed.
    Remove,
    /// Its pod ends, and its volume is deleted.
    CleanUp,
    /// Everything that uses etcd is to stop; `spec.clientsStopped` says so.
    WaitingForClients,
    /// All members stop.
    Stop,
    /// No member runs, until `spec.hibernation.enabled` is false.
    Asleep,
    /// A backup is put onto the volume of the member: from here on there is a new epoch.
    Restore,
    /// etcd serves it, and clients come back.
    Done,
    /// Something that only a newer build knows.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

impl Record {
    /// What members have, or had before the change of the version that is under way.
    pub fn release(&self) -> Release {
        let Self { version, templates, agent_image, agent_delivery, helper_resources, .. } = self.clone();
        Release { version, templates, agent_image, agent_delivery, helper_resources }
    }

    /// What the StatefulSet is made from: while members get another version, that one.
    pub fn rendered(&self) -> Release {
        let rolls = |o: &Operation| o.kind == OperationKind::Upgrade && o.phase == Phase::Roll;
        let next = self.next.as_ref().filter(|_| self.operation.as_ref().is_some_and(rolls));
        next.cloned().unwrap_or_else(|| self.release())
    }

    /// What is under way, if it is of that kind.
    pub fn under_way(&self, kind: OperationKind) -> Option<&Operation> {
        self.operation.as_ref().filter(|operation| operation.kind == kind)
    }

    /// The next one, to be changed and written: each write has a serial of its own.
    #[must_use]
    pub fn revise(&self) -> Self {
        let mut next = self.clone();
        next.bootstrap.serial += 1;
        next.founders.get_or_insert(self.replicas);
        next
    }

    /// With an operation that begins, or into which the one that is under way turns.
    #[must_use]
    pub fn begin(self, kind: OperationKind, target: &str, phase: Phase, now: Timestamp) -> Self {
        let id = self.operation.as_ref().map_or(self.bootstrap.serial, |operation| operation.id);
        let operation = Operation { id, kind, target: target.to_owned(), phase, since: Time(now) };
        Self { operation: Some(operation), ..self }
    }

    /// At that step of what is under way.
    #[must_use]
    pub fn advance(mut self, phase: Phase, now: Timestamp) -> Self {
        if let Some(operation) = &mut self.operation {
            (operation.phase, operation.since) = (phase, Time(now));
        }
        self
    }

    /// With nothing under way.
    #[must_use]
    pub fn end(self) -> Self {
        Self { operation: None, ..self }
    }

    /// As the annotation has it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<HoldReason> for Reason {
    fn from(reason: HoldReason) -> Self {
        match reason {
            HoldReason::DataLost => Self::DataLost,
            HoldReason::ForeignData => Self::ForeignData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_says_the_reason_as_the_guard_does() {
        for reason in HoldReason::ALL {
            assert_eq!(Reason::from(reason).as_str(), reason.as_str());
        }
    }

    /// As builds before this module wrote it.
    #[test]
    fn the_record_stays_byte_for_byte() {
        let record = r#"{"clusterUID":"u","epoch":1,"state":"Established","version":"3.6.16","replicas":3,"templates":"ab","agentImage":"agent:1","agentDelivery":"ImageVolume"}"#;
        let read: Record = serde_json::from_str(record).unwrap();
        assert_eq!(read.bootstrap.state, BootstrapState::Established);
        assert_eq!(read.to_json(), record);
    }
}
