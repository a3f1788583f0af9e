//! What a `ClusterAccess` gives in a tenant, as objects.

use super::record::{AccessId, BINDINGS};
use berth_api::access::USER_PREFIX;
use berth_api::cluster_access::{AccessSubject, Issuer};
use berth_api::{ClusterAccess, labels};
use berth_plan::object_meta::uid;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

/// The value of [`labels::TENANT_SET`] on these objects.
pub(super) const SET: &str = "users";

/// What is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// By which `ClusterAccess`.
    pub of: AccessId,
    /// The role that the bindings refer to, unless every tenant has it.
    pub role: Option<Object>,
    /// The bindings.
    pub bindings: Vec<Object>,
}

impl Grant {
    /// All objects, the role first.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.role.iter().chain(&self.bindings)
    }
}

/// `role`: its name in tenants. `rules`: what is in it; none: every tenant has it.
pub(super) fn grant(
    access: &ClusterAccess,
    of: AccessId,
    role: &str,
    rules: Option<Vec<Value>>,
) -> Result<Grant, String> {
    let spec = &access.spec;
    let prefix = if spec.issuer == Issuer::Access { USER_PREFIX } else { "" };
    let subject = |s: &AccessSubject| {
        json!({
            "apiGroup": Kind::ClusterRole.group(), "kind": s.kind.as_str(), "name": format!("{prefix}{}", s.name),
        })
    };
    let subjects: Vec<Value> = spec.subjects.iter().map(subject).collect();
    let role_ref = json!({"apiGroup": Kind::ClusterRole.group(), "kind": Kind::ClusterRole.name(), "name": role});
    let binding = |kind: Kind, namespace: Option<&str>| {
        let mut object = object(kind, &binding_name(&of.uid));
        object["metadata"]["annotations"] = json!({(labels::CLUSTER_ACCESS): format!("{}/{}", of.namespace, of.name)});
        object["roleRef"] = role_ref.clone();
        object["subjects"] = subjects.clone().into();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        Object::new(object)
    };
    let bindings = if spec.namespaces.is_empty() {
        vec![binding(Kind::ClusterRoleBinding, None)?]
    } else {
        let each = spec.namespaces.iter().map(|namespace| binding(Kind::RoleBinding, Some(namespace)));
        each.collect::<Result<_, _>>()?
    };
    let role = rules.map(|rules| {
        let mut object = object(Kind::ClusterRole, role);
        object["rules"] = rules.into();
        Object::new(object)
    });
    Ok(Grant { role: role.transpose()?, bindings, of })
}

/// A binding as it is there, that binds nobody.
pub(super) fn emptied(key: &ObjectKey, live: &Value) -> Option<Object> {
    let mut binding = object(key.kind, &key.name);
    (binding["roleRef"], binding["subjects"]) = (live["roleRef"].clone(), json!([]));
    if let Some(namespace) = &key.namespace {
        binding["metadata"]["namespace"] = namespace.as_str().into();
    }
    Some(Object::new(binding).ok()?.with_uid(uid(live)))
}

/// So that nobody else's object has it: nobody but who may read the `ClusterAccess`, or the tenant's bindings, knows the UID.
pub(super) fn binding_name(uid: &str) -> String {
    format!("{BINDINGS}{uid}")
}

fn object(kind: Kind, name: &str) -> Value {
    let labels = json!({(labels::MANAGED_BY): labels::MANAGED_BY_VALUE, (labels::TENANT_SET): SET});
    json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {"name": name, "labels": labels}})
}
