//! What the spec says of files that kube-apiserver reads, as it gets them.

use berth_api::cluster::{Admission, PluginConfiguration};
use serde_json::{Value, json};

/// `apiVersion` of an audit policy.
pub(crate) const POLICY_VERSION: &str = "audit.k8s.io/v1";
/// Its `kind`.
pub(crate) const POLICY_KIND: &str = "Policy";
/// Admission plugins that can be configured, and do nothing unless `--enable-admission-plugins` names them.
const OFF_BY_DEFAULT: [&str; 1] = ["EventRateLimit"];

/// The audit policy with `apiVersion` and `kind`.
pub(crate) fn audit_policy(asked: &Value) -> Value {
    let mut policy = asked.clone();
    if let Some(all) = policy.as_object_mut() {
        all.extend([("apiVersion".to_owned(), json!(POLICY_VERSION)), ("kind".to_owned(), json!(POLICY_KIND))]);
    }
    policy
}

/// Admission plugins, as `plugins` of the file has them.
pub(crate) fn plugins(asked: &Admission) -> Vec<Value> {
    let one = |of: &PluginConfiguration| json!({"name": of.name, "configuration": of.configuration});
    asked.configuration.iter().map(one).collect()
}

/// Those that are off unless they are turned on.
pub(crate) fn enabled(asked: &Admission) -> Vec<String> {
    let names = asked.configuration.iter().map(|of| &of.name);
    names.filter(|name| OFF_BY_DEFAULT.contains(&name.as_str())).cloned().collect()
}
