//! What the operator and the guard of an etcd member agree on (see [`berth_contract`]), and the record that the operator keeps of it.

use crate::common::AgentDelivery;
use crate::conditions::Reason;
use crate::version::Version;
use serde::{Deserialize, Serialize};

pub use berth_contract::*;

/// What the members run with, also when the spec asks for something else by now. The operator keeps it, as JSON, in an annotation
/// of the StatefulSet and of the bootstrap ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl Record {
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
