//! Rules of kube-apiserver for its audit policy (`Policy` of `audit.k8s.io/v1`): one that breaks them ends the process at its start. What it
//! passes over with no more than a line in its log, such as a field that it does not know, is refused, too: nobody would see it.

use super::jwt::fault::Fault;
use super::jwt::shape::{Shape, check, list, text};
use crate::api_files::{POLICY_KIND, POLICY_VERSION};
use Shape::{Fields, Flag, List, Text};
use serde_json::Value;

/// The longest, as JSON, in bytes: each `ClusterRevision` records it, too.
const LONGEST: usize = 64 << 10;

const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];
const STAGES: [&str; 4] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

static POLICY: Shape = Fields(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", Fields(&[("name", Text)])),
    (
        "rules",
        List(&Fields(&[
            ("level", Text),
            ("users", List(&Text)),
            ("userGroups", List(&Text)),
            ("verbs", List(&Text)),
            (
                "resources",
                List(&Fields(&[("group", Text), ("resources", List(&Text)), ("resourceNames", List(&Text))])),
            ),
            ("namespaces", List(&Text)),
            ("nonResourceURLs", List(&Text)),
            ("omitStages", List(&Text)),
            ("omitManagedFields", Flag),
        ])),
    ),
    ("omitStages", List(&Text)),
    ("omitManagedFields", Flag),
]);

/// Why kube-apiserver would not start with that policy, or would not do all that it says.
pub(crate) fn refusal(policy: &Value) -> Option<String> {
    let faults = faults(policy);
    let (first, more) = faults.split_first()?;
    let more = match more.len() {
        0 => String::new(),
        n => format!(". spec.apiServer.audit.policy has {n} more of such faults"),
    };
    Some(format!("{first}{more}"))
}

/// All faults of a policy, in their order. Where fields are unknown or of another type, nothing more is read.
pub fn faults(policy: &Value) -> Vec<Fault> {
    let root = "audit.policy";
    let mut faults = vec![];
    let length = policy.to_string().len();
    if length > LONGEST {
        let why = format!("has {length} bytes as JSON, and may have {LONGEST}. Set fewer or shorter rules");
        return vec![Fault::new(root, why)];
    }
    check(policy, root, &POLICY, &mut faults);
    if !faults.is_empty() {
        return faults;
    }
    for (field, wanted) in [("apiVersion", POLICY_VERSION), ("kind", POLICY_KIND)] {
        if !["", wanted].contains(&text(policy, field)) {
            faults.push(Fault::new(format!("{root}.{field}"), format!("has to be {wanted}")));
        }
    }
    stages(policy, root, &mut faults);
    let rules = list(policy, "rules");
    if rules.is_empty() {
        faults.push(Fault::new(format!("{root}.rules"), "has to have at least one rule, such as {level: Metadata}"));
    }
    for (at, one) in rules.iter().enumerate() {
        rule(one, &format!("{root}.rules[{at}]"), &mut faults);
    }
    faults
}

fn stages(of: &Value, path: &str, faults: &mut Vec<Fault>) {
    for (at, stage) in list(of, "omitStages").iter().enumerate() {
        if !STAGES.contains(&stage.as_str().unwrap_or_default()) {
            faults.push(Fault::new(
                format!("{path}.omitStages[{at}]"),
                format!("has to be one of {}", STAGES.join(", ")),
            ));
        }
    }
}

fn rule(rule: &Value, path: &str, faults: &mut Vec<Fault>) {
    if !LEVELS.contains(&text(rule, "level")) {
        faults.push(Fault::new(format!("{path}.level"), format!("has to be one of {}", LEVELS.join(", "))));
    }
    let urls = list(rule, "nonResourceURLs");
    for (at, url) in urls.iter().enumerate() {
        let url = url.as_str().unwrap_or_default();
        let path = format!("{path}.nonResourceURLs[{at}]");
        if url == "*" {
            continue;
        }
        if !url.starts_with('/') {
            faults.push(Fault::new(&path, "has to begin with /, or to be *"));
        } else if url.strip_suffix('*').unwrap_or(url).contains('*') {
            faults.push(Fault::new(&path, "may have * at its end only"));
        }
    }
    for (at, resource) in list(rule, "resources").iter().enumerate() {
        let path = format!("{path}.resources[{at}]");
        let group = text(resource, "group");
        if !group.is_empty() && !is_subdomain(group) {
            let why = "has to be the name of a group without its version, such as apps, or empty for that of pods";
            faults.push(Fault::new(format!("{path}.group"), why));
        }
        if !list(resource, "resourceNames").is_empty() && list(resource, "resources").is_empty() {
            faults.push(Fault::new(format!("{path}.resourceNames"), "needs at least one entry in resources"));
        }
    }
    let has = |field: &str| !list(rule, field).is_empty();
    if !urls.is_empty() && (has("resources") || has("namespaces")) {
        let why = "cannot be together with resources or namespaces. Make it two rules";
        faults.push(Fault::new(format!("{path}.nonResourceURLs"), why));
    }
    stages(rule, path, faults);
}

fn is_subdomain(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.into_iter().all(|end| end.is_some_and(|b| inner(*b))) && bytes.iter().all(|b| inner(*b) || *b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_files::audit_policy;
    use serde_json::json;

    #[test]
    fn a_refusal_names_the_field_and_what_to_set() {
        for (policy, wanted) in [
            (json!({"rules": [{"level": "Metadata"}]}), None),
            (audit_policy(&json!({"rules": [{"level": "None", "users": null}], "omitManagedFields": true})), None),
            (
                json!({}),
                Some("spec.apiServer.audit.policy.rules: has to have at least one rule, such as {level: Metadata}"),
            ),
            (
                json!({"rules": [{"level": "metadata"}, {}]}),
                Some(
                    "spec.apiServer.audit.policy.rules[0].level: has to be one of None, Metadata, Request, RequestResponse. spec.apiServer.audit.policy has 1 more of such faults",
                ),
            ),
            (
                json!({"rules": [{"level": "None", "ruels": []}]}),
                Some(
                    "spec.apiServer.audit.policy.rules[0].ruels: is no field. Known are level, users, userGroups, verbs, resources, namespaces, nonResourceURLs, omitStages, omitManagedFields",
                ),
            ),
            (
                json!({"rules": [{"level": "None"}], "omitManagedFields": "yes"}),
                Some("spec.apiServer.audit.policy.omitManagedFields: has to be true or false"),
            ),
            (
                json!({"apiVersion": "audit.k8s.io/v1beta1", "rules": [{"level": "None"}]}),
                Some("spec.apiServer.audit.policy.apiVersion: has to be audit.k8s.io/v1"),
            ),
        ] {
            assert_eq!(refusal(&policy).as_deref(), wanted, "{policy}");
        }
        let long = json!({"rules": [{"level": "None", "users": ["x".repeat(LONGEST)]}]});
        assert!(refusal(&long).unwrap().contains("bytes as JSON, and may have 65536"));
    }
}
