//! Since when there is the tenant. The `Cluster` is another one after each restore of the meta cluster; a CA is made once.

use crate::subject::Tenant;
use berth_api::names;
use berth_pki::{CertInfo, Root};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// For the status: what it says already, unless a CA is older. None: there is none yet.
pub(crate) fn since(t: &Tenant<'_>, told: Option<Time>) -> Option<Time> {
    let root = t.observed.secrets.get(&t.secret(names::ca(t.name))).and_then(|secret| secret.root()?.ok());
    let issued = root.into_iter().flat_map(Root::trusted).map(CertInfo::issued_at);
    issued.chain(told.map(|told| told.0)).min().map(whole)
}

/// In seconds, as an API server keeps it.
fn whole(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
