//! Where objects of a kind are in the tenant's API.

use crate::api::{Answer, Api, escaped};
use crate::problem::Problem;
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds of the tenant's API, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<String, Value>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// Such as `/apis/apps/v1`.
    base: String,
    /// Such as `deployments`.
    plural: String,
    /// Whether its objects are in namespaces.
    pub(super) namespaced: bool,
}

impl Resource {
    /// The path of an object.
    pub(super) fn path(&self, namespace: &str, name: &str) -> String {
        let within = if self.namespaced { format!("/namespaces/{}", escaped(namespace)) } else { String::new() };
        format!("{}{within}/{}/{}", self.base, self.plural, escaped(name))
    }
}

impl Kinds {
    /// One of them. None: the tenant does not have it. `again`: one that was not there is asked for once more, since its definition may have come.
    pub(super) fn find(
        &mut self,
        api: &Api,
        version: &str,
        kind: &str,
        again: bool,
    ) -> Result<Option<Resource>, Problem> {
        let base = base(version);
        let known = self.0.get(&base).and_then(|all| resource(&base, all, kind));
        if known.is_some() || (self.0.contains_key(&base) && !again) {
            return Ok(known);
        }
        let all = match api.get(&base)? {
            Answer::Is(all) => all,
            Answer::Missing | Answer::Refused(_) => Value::Null,
        };
        let found = resource(&base, &all, kind);
        self.0.insert(base, all);
        Ok(found)
    }
}

fn base(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}

/// One of what an API server lists of a version; parts such as `deployments/status` are none.
fn resource(base: &str, all: &Value, kind: &str) -> Option<Resource> {
    let mut all = all["resources"].as_array()?.iter();
    let is_it = |it: &&Value| it["kind"] == kind && it["name"].as_str().is_some_and(|name| !name.contains('/'));
    let found = all.find(is_it)?;
    Some(Resource {
        base: base.to_owned(),
        plural: found["name"].as_str()?.to_owned(),
        namespaced: found["namespaced"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_found_by_what_the_server_lists() {
        let all = json!({"resources": [
            {"name": "deployments/scale", "kind": "Scale", "namespaced": true},
            {"name": "deployments/status", "kind": "Deployment", "namespaced": true},
            {"name": "deployments", "kind": "Deployment", "namespaced": true},
            {"name": "clusterroles", "kind": "ClusterRole", "namespaced": false},
        ]});
        let of = |kind| resource(&base("apps/v1"), &all, kind).map(|it: Resource| it.path("shop", "system:web"));
        assert_eq!(of("Deployment").as_deref(), Some("/apis/apps/v1/namespaces/shop/deployments/system:web"));
        assert_eq!(of("ClusterRole").as_deref(), Some("/apis/apps/v1/clusterroles/system:web"));
        assert_eq!(of("Pod"), None);
        assert_eq!((base("v1"), escaped("a/../b")), ("/api/v1".into(), "a%2F..%2Fb".into()));
    }
}
