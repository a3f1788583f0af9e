//! What the operator and `berth-access` agree on, which is one login for all tenants: how they find and know each other, and what a replica asks.
//!
//! Each makes a key when it starts, which never leaves its memory, and publishes the certificate beside it as a Lease in the namespace of
//! `berth-access`. Who may write Leases there is who they believe. The operator dials each replica; then each line is one message as JSON: a replica
//! writes an [`Ask`], and the operator an [`Answer`]. What one does not know of the other's, it leaves out.

use serde::{Deserialize, Serialize};

pub use crate::gateway::ClusterName;

/// Label of a replica's Lease, with the value `true`.
pub const LABEL: &str = "berth.dev/access";

/// Annotation of a Lease with a certificate as PEM: what its holder shows when it is dialled, or dials.
pub const CERTIFICATE: &str = "berth.dev/certificate";

/// Annotation of a replica's Lease: the address and port at which it takes the operator's connection.
pub const ADDRESS: &str = "berth.dev/address";

/// Name of the operator's Lease in that namespace, and its name in its certificate. It is not that by which operators elect one of them.
pub const OPERATOR: &str = "berth-access-operator";

/// The name in certificates of replicas, towards the operator and towards tenants.
pub const ACCESS: &str = "berth-access";

/// Before each name and group of the platform's that tenants are told: nobody of the platform is one of a tenant's own users, groups or system
/// components.
pub const USER_PREFIX: &str = "access:";

/// Bytes that a line may have.
pub const LONGEST: usize = 64 * 1024;

/// A replica asks for a pass: somebody calls that tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The answer has it again.
    pub id: u64,
    /// The tenant.
    pub cluster: ClusterName,
    /// A certificate signing request (PKCS #10, PEM). Of it the key counts alone.
    pub request: String,
}

/// What the operator says to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Of the [`Ask`].
    pub id: u64,
    /// What comes of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A pass, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// With it the replica calls the tenant.
    Pass(Pass),
    /// It may not, or not now.
    Refused(Refused),
}

/// With what, and where, a tenant is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pass {
    /// A certificate for the key of the request, of the tenant's front-proxy CA, as PEM.
    pub certificate: String,
    /// How long it is valid from now on.
    pub seconds: u64,
    /// The tenant's CA, which its API servers' certificates are of, as PEM.
    pub ca: String,
    /// The name that these certificates have.
    pub server_name: String,
    /// Host and port that lead to its API servers.
    pub address: String,
}

/// Why there is no pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// In a word.
    pub reason: Reason,
    /// For whoever calls, with the way out.
    pub message: String,
}

/// Why there is no pass, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// There is no such tenant.
    NotFound,
    /// Its templates do not let API servers believe `berth-access`.
    NotInTemplates,
    /// It has no API yet, or no address of it.
    NotReady,
    /// Something that only a newer build knows.
    #[serde(other)]
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As both sides agreed on it, with fields of a later build.
    #[test]
    fn messages_of_other_builds_are_read() {
        let ask = r#"{"id":7,"cluster":{"namespace":"team-a","name":"acme"},"request":"PEM"}"#;
        let read: Ask = serde_json::from_str(&ask.replace("\"PEM\"", "\"PEM\",\"later\":1")).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), ask);
        let pass = r#"{"id":7,"pass":{"certificate":"PEM","seconds":28800,"ca":"PEM","serverName":"acme.example.com","address":"10.0.0.1:443"}}"#;
        let read: Answer = serde_json::from_str(&pass.replace("28800", "28800,\"later\":1")).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), pass);
        let refused = r#"{"id":8,"refused":{"reason":"NotReady","message":"wait"}}"#;
        let read: Answer = serde_json::from_str(refused).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), refused);
        let later: Answer = serde_json::from_str(&refused.replace("NotReady", "Asleep")).unwrap();
        assert!(matches!(later.outcome, Outcome::Refused(Refused { reason: Reason::Failed, .. })));
    }
}
