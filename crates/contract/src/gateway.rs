//! What the operator tells `berth-gateway`, which has one address for all tenants: whose a server name is, and who may come.
//!
//! It is on the tenant's Service, so that a gateway that starts needs neither the operator nor a Secret. Gateways of older builds read what newer
//! operators write, and the other way round. A gateway leaves out what it does not know, so a new field may say more about a tenant; where it
//! narrows who may come, gateways have to be new before it is used.

use serde::{Deserialize, Serialize};

use crate::vpc::Cidr;

/// Label of a Service that a gateway looks at, and of its EndpointSlices, which have the labels of their Service.
pub const LABEL: &str = "berth.dev/gateway";

/// Value of [`LABEL`].
pub const LABELLED: &str = "true";

/// Annotation of the Service with [`Exposed`] as JSON.
pub const ANNOTATION: &str = "berth.dev/gateway";

/// A tenant, as gateways see it. A Service without a readable one is ignored, with all that leads to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposed {
    /// Whose it is. Counts only if the Service is in this `Cluster`'s control-plane namespace.
    pub cluster: ClusterName,
    /// The server names by which clients reach it, as a whole and each in lower case; see [`comparable`]. A name that an older Service has is
    /// that one's.
    pub names: Vec<String>,
    /// Server names that it had. Each leads to it as long as no tenant has it among its names, since nodes and people have kubeconfigs from before.
    #[serde(default, rename = "formerNames", skip_serializing_if = "Vec::is_empty")]
    pub former_names: Vec<String>,
    /// Where clients may come from. Default: from everywhere. Empty: from nowhere.
    #[serde(default, rename = "sourceRanges", skip_serializing_if = "Option::is_none")]
    pub source_ranges: Option<Vec<Cidr>>,
    /// Connections that are open at once through one gateway. Default: the gateway's.
    #[serde(default, rename = "maxConnections", skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// The tenant may sleep. Default: connections fail at once while it has no API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernation: Option<Hibernates>,
}

/// What connections are to a tenant that may sleep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hibernates {
    /// They wake it, and are held for a moment while it has no API server.
    #[serde(default)]
    pub wakes: bool,
    /// From where they do. Default: from wherever clients may come. Empty: from nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Cidr>>,
    /// Nobody is handed over to an API server yet, also where one is ready: rights of people that ended are still there. A gateway that does not
    /// know it hands over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

/// A `Cluster`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterName {
    /// The team's namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

/// A server name by which two are compared: in lower case, without the dot at its end.
pub fn comparable(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As both sides agreed on it, with fields of a later build.
    const AGREED: &str = r#"{"cluster": {"namespace": "team-a", "name": "acme", "later": 1},
 "names": ["acme-0e1f2a3b.api.example.com", "api.acme.example"], "sourceRanges": ["10.0.0.0/8", "fd00::/8"], "maxConnections": 2000,
 "formerNames": ["old.acme.example"], "hibernation": {"wakes": true, "from": ["10.1.0.0/16"], "closed": true, "later": 1}, "later": {"a": 1}}"#;

    #[test]
    fn what_operators_write_is_read() {
        let read: Exposed = serde_json::from_str(AGREED).unwrap();
        let written = r#"{"cluster":{"namespace":"team-a","name":"acme"},"names":["acme-0e1f2a3b.api.example.com","api.acme.example"],"formerNames":["old.acme.example"],"sourceRanges":["10.0.0.0/8","fd00::/8"],"maxConnections":2000,"hibernation":{"wakes":true,"from":["10.1.0.0/16"],"closed":true}}"#;
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
        let least = r#"{"cluster":{"namespace":"a","name":"b"},"names":[]}"#;
        let read: Exposed = serde_json::from_str(least).unwrap();
        assert_eq!((&read.source_ranges, read.max_connections), (&None, None));
        assert_eq!(serde_json::to_string(&read).unwrap(), least);
    }

    /// A range that is not understood must not let everybody in.
    #[test]
    fn what_is_not_understood_is_nothing() {
        for text in [
            "",
            "true",
            r#"{"names": ["a"]}"#,
            r#"{"cluster": {"namespace": "a"}, "names": []}"#,
            r#"{"cluster": {"namespace": "a", "name": "b"}, "names": [], "sourceRanges": ["10.0.0.0"]}"#,
            r#"{"cluster": {"namespace": "a", "name": "b"}, "names": [], "sourceRanges": "10.0.0.0/8"}"#,
            r#"{"cluster": {"namespace": "a", "name": "b"}, "names": [], "maxConnections": -1}"#,
            r#"{"cluster": {"namespace": "a", "name": "b"}, "names": [], "hibernation": {"wakes": true, "from": ["10.0.0.0"]}}"#,
        ] {
            assert!(serde_json::from_str::<Exposed>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_compared_without_their_case_and_last_dot() {
        assert_eq!(comparable("API.Acme.Example."), "api.acme.example");
        assert_eq!(comparable("a.b"), "a.b");
    }
}
