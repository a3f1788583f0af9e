//! What `berth-gateway` tells the operator: who is called that sleeps, and which tenants are used.
//!
//! They find and know each other as `berth-access` and the operator do ([`crate::access`]): by Leases in the gateway's namespace. The operator dials each
//! replica; then each line of the replica is one [`Told`] as JSON, and the operator says nothing. Times are ages, since clocks of nodes differ. What
//! one does not know of the other's, it leaves out.

use serde::{Deserialize, Serialize};

pub use crate::access::{ADDRESS, CERTIFICATE};
pub use crate::gateway::ClusterName;

/// Label of a replica's Lease, with the value `true`.
pub const LABEL: &str = "berth.dev/gateway-replica";

/// Name of the operator's Lease in that namespace, and its name in its certificate.
pub const OPERATOR: &str = "berth-gateway-operator";

/// The name in certificates of replicas.
pub const GATEWAY: &str = "berth-gateway";

/// Bytes that a line may have.
pub const LONGEST: usize = 64 * 1024;

/// Tenants that a line may have.
pub const TENANTS: usize = 100;

/// Seconds within which a line comes, if there is nothing to say, too. One that is silent for three times as long is gone.
pub const BEAT: u64 = 5;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Told {
    /// Connections to this tenant wait, since it has no API server. Comes again as long as they do.
    Called(ClusterName),
    /// What is used.
    Used(Used),
    /// All connections of this replica have ended, and it takes none: what it has told is all. Nothing comes after it.
    Over,
    /// Something that only a newer build knows.
    #[serde(untagged)]
    Other(serde_json::Value),
}

/// What is used: in the first lines of all that count, then of those that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// For so many seconds this replica has counted.
    pub counts_for: u64,
    /// Those of a tenant that is not there were none.
    #[serde(default)]
    pub tenants: Vec<Use>,
    /// The next line goes on with it.
    #[serde(default)]
    pub more: bool,
}

/// The use of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// The tenant.
    pub cluster: ClusterName,
    /// Somebody is connected.
    pub now: bool,
    /// So many seconds ago somebody was, the last time.
    pub ago: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As both sides agreed on it, with what a later build may say.
    #[test]
    fn lines_of_other_builds_are_read() {
        for line in [
            r#"{"called":{"namespace":"team-a","name":"acme"}}"#,
            r#"{"used":{"countsFor":60,"tenants":[{"cluster":{"namespace":"team-a","name":"acme"},"now":true,"ago":0}],"more":false}}"#,
            r#""over""#,
        ] {
            let read: Told = serde_json::from_str(line).unwrap();
            assert!(!matches!(read, Told::Other(_)), "{line}");
            assert_eq!(serde_json::to_string(&read).unwrap(), line);
        }
        let later: Told = serde_json::from_str(r#"{"used":{"countsFor":1,"later":2}}"#).unwrap();
        assert_eq!(later, Told::Used(Used { counts_for: 1, ..Used::default() }));
        assert!(matches!(serde_json::from_str(r#"{"later":{}}"#).unwrap(), Told::Other(_)));
    }
}
