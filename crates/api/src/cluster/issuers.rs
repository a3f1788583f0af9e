//! Issuers of service-account tokens that are no longer in the spec.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What becomes of issuers that signed tokens and are not asked for any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FormerIssuers {
    /// They are accepted as long as what they signed lives.
    #[default]
    Keep,
    /// What they signed is refused.
    Drop,
}

impl FormerIssuers {
    /// Whether it is the default.
    pub fn are_kept(&self) -> bool {
        *self == Self::Keep
    }
}

/// The issuer of service-account tokens in a tenant whose spec names none.
pub fn default_issuer(dns_domain: &str) -> String {
    format!("https://kubernetes.default.svc.{dns_domain}")
}

/// An issuer that signs tokens, or did.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptIssuer {
    /// The issuer.
    #[schemars(length(max = 512))]
    pub issuer: String,
    /// When the last API server that signed with it was replaced. Absent: one may still sign.
    #[schemars(with = "Option<Time>", length(max = 40))]
    pub signed_until: Option<Time>,
    /// Tokens of pods that it signed may live for a year (`--service-account-extend-token-expiration`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extended: bool,
}

/// An issuer that is accepted though the spec does not list it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormerIssuer {
    /// The issuer.
    pub issuer: String,
    /// It goes with the first change of what runs after this. Absent: API servers may still sign with it.
    #[schemars(with = "Option<Time>")]
    pub accepted_until: Option<Time>,
}
