//! Objects inside a tenant, in sets. Each set has a stamp: a ConfigMap with the digest of the others, which is applied last.

use std::collections::BTreeMap;

use berth_api::labels;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    Kind, Object, ObjectKey, RenderError, TemplateSet,
    components::documents,
    finish::finish_inside,
    object::hex,
    values::{AccessValues, EndpointValues, JoinValues},
};

/// A set of objects inside a tenant, with what its templates are rendered from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TenantSet {
    /// Rights of the tenant's admins, and of API servers at kubelets.
    Access(AccessValues),
    /// Where the tenant's `kubernetes` Service leads.
    Endpoint(EndpointValues),
    /// What `kubeadm join` needs.
    Join(JoinValues),
}

impl TenantSet {
    /// Names of all sets.
    pub const NAMES: [&'static str; 3] = ["access", "endpoint", "join"];

    /// The kinds in which a tenant is asked about its objects, one after the other.
    pub const KINDS: [Kind; 7] = [
        Kind::ConfigMap,
        Kind::ClusterRoleBinding,
        Kind::EndpointSlice,
        Kind::Endpoints,
        Kind::ClusterRole,
        Kind::Role,
        Kind::RoleBinding,
    ];

    /// The name of the set, which its objects carry as a label, and of the folder of its templates.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Access(_) => "access",
            Self::Endpoint(_) => "endpoint",
            Self::Join(_) => "join",
        }
    }
}

/// The kind of stamps.
pub const STAMPS: Kind = Kind::ConfigMap;

/// The stamp of the set of that name.
pub fn stamp_key(set: &str) -> ObjectKey {
    ObjectKey::namespaced(STAMPS, "kube-system", format!("berth-{set}"))
}

/// The objects of a set in apply order, the stamp last.
pub fn render_tenant_set(templates: &TemplateSet, set: &TenantSet) -> Result<Vec<Object>, RenderError> {
    let labels = BTreeMap::from([
        (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
        (labels::TENANT_SET.to_owned(), set.name().to_owned()),
    ]);
    let mut objects = finish_inside(documents(templates, &format!("tenant/{}", set.name()), set)?, &labels)?;
    let mut digest = Sha256::new();
    for object in &objects {
        digest.update(object.digest());
    }
    let key = stamp_key(set.name());
    let stamp = json!({
        "apiVersion": "v1", "kind": STAMPS.name(),
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        "data": {"digest": hex(&digest.finalize())},
    });
    let fault = |reason| RenderError::Object { template: key.to_string(), reason };
    objects.push(Object::new(stamp).map_err(fault)?);
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    #[test]
    fn every_set_has_its_objects_of_known_kinds_and_a_stamp() {
        let sets = [
            TenantSet::Access(AccessValues::default()),
            TenantSet::Endpoint(EndpointValues::default()),
            TenantSet::Join(JoinValues::default()),
        ];
        assert_eq!(sets.each_ref().map(TenantSet::name), TenantSet::NAMES);
        for minor in Catalog::builtin().minors() {
            let templates = Catalog::builtin().tenant(minor).unwrap();
            let mut kinds: Vec<Kind> = vec![];
            for set in &sets {
                let objects = render_tenant_set(templates, set).unwrap();
                assert_eq!(objects.last().map(Object::key), Some(&stamp_key(set.name())));
                for object in &objects {
                    assert_eq!(object.labels()[labels::TENANT_SET], set.name(), "{}", object.key());
                    kinds.push(object.key().kind);
                }
            }
            kinds.sort();
            kinds.dedup();
            let mut known = TenantSet::KINDS;
            known.sort();
            assert_eq!(kinds, known);
        }
    }
}
