//! Which `Cluster`s a `ClusterAccess` means.

use berth_api::ClusterAccess;
use berth_api::selector::NamedCluster;
use berth_plan::fleet::TenantId;
use std::collections::BTreeMap;

/// Whether it may mean `Cluster`s of that namespace: its own; of the operator's, `platform`, all.
pub fn reaches(access: &ClusterAccess, namespace: &str, platform: Option<&str>) -> bool {
    let own = access.metadata.namespace.as_deref().unwrap_or_default();
    own == namespace || Some(own) == platform
}

/// Whether it means that `Cluster`, which has these labels.
pub fn selects(
    access: &ClusterAccess,
    of: &TenantId,
    labels: &BTreeMap<String, String>,
    platform: Option<&str>,
) -> bool {
    if !reaches(access, &of.namespace, platform) {
        return false;
    }
    if let Some(selector) = &access.spec.cluster_selector {
        return selector.fits(labels);
    }
    access.spec.cluster_refs.iter().any(|named| tenant(access, named) == *of)
}

/// `Cluster`s that it names and that are not there.
pub fn missing(access: &ClusterAccess, is_there: impl Fn(&TenantId) -> bool) -> Vec<TenantId> {
    access.spec.cluster_refs.iter().map(|named| tenant(access, named)).filter(|id| !is_there(id)).collect()
}

fn tenant(access: &ClusterAccess, named: &NamedCluster) -> TenantId {
    let namespace = named.namespace.clone().or_else(|| access.metadata.namespace.clone()).unwrap_or_default();
    TenantId { namespace, name: named.name.clone() }
}
