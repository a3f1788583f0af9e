//! What is written down: a line of JSON for each call.

use serde::Serialize;
use std::net::SocketAddr;

/// One call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// When the answer began.
    pub(crate) time: String,
    pub(crate) client: SocketAddr,
    /// As the meta cluster knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// `namespace/name` of the `Cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verb: Option<String>,
    /// In the tenant, such as `pods/exec` or `deployments.apps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) method: String,
    pub(crate) code: u16,
    /// Why it went no further. None: the tenant answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<Why>,
    /// Until the answer began.
    pub(crate) milliseconds: f64,
    /// The audit log of the tenant has it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) audit_id: Option<String>,
}

/// Why a call went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(crate) enum Why {
    /// The path leads nowhere.
    NoPlace,
    /// A header says who is calling, or has one removed that does.
    Forged,
    /// No token, or more than one.
    NoToken,
    /// The meta cluster does not know the token.
    UnknownToken,
    /// Too many of those come from that source: no token of it is asked for, for a moment.
    TooManyUnknown,
    /// A user whom no tenant knows, such as one of `system:`.
    UnknownUser,
    /// The meta cluster's RBAC does not allow it.
    NotAllowed,
    /// There is no such tenant.
    NoTenant,
    /// Its templates know nothing of `berth-access`.
    NotInTemplates,
    /// It has no API yet.
    NotReady,
    /// Nobody signs: the operator is away.
    NoOperator,
    /// The meta cluster's API server does not answer.
    NoReview,
    /// Its API servers do not answer.
    Unreachable,
}

impl Why {
    pub(crate) const ALL: [Self; 13] = [
        Self::NoPlace,
        Self::Forged,
        Self::NoToken,
        Self::UnknownToken,
        Self::TooManyUnknown,
        Self::UnknownUser,
        Self::NotAllowed,
        Self::NoTenant,
        Self::NotInTemplates,
        Self::NotReady,
        Self::NoOperator,
        Self::NoReview,
        Self::Unreachable,
    ];
}
