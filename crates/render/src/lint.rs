//! Cheap invariants over any set of rendered objects. Tests, the command line and the operator run them; a finding is a bug.

use serde::Serialize;
use serde_json::Value;

use crate::{Kind, Object, ObjectKey, object::strings};

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where.
    pub object: ObjectKey,
    /// What.
    pub message: String,
}

/// Checks objects that belong together (one component, or a whole tenant). Empty: all is well.
pub fn lint(objects: &[Object]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in objects {
        let mut report = |message: String| findings.push(Finding { object: object.key().clone(), message });
        empty_lists(object.value(), "", &mut report);
        if object.key().kind.has_pods() {
            workload(object, &mut report);
        }
        if object.key().kind == Kind::PodDisruptionBudget {
            budget(object, objects, &mut report);
        }
    }
    findings
}

/// Server-side apply bumps the resourceVersion for every empty list that it is sent.
fn empty_lists(value: &Value, path: &str, report: &mut impl FnMut(String)) {
    match value {
        Value::Null => report(format!("{path} is null")),
        Value::Array(items) if items.is_empty() => report(format!("{path} is an empty list")),
        Value::Array(items) => items.iter().for_each(|item| empty_lists(item, path, report)),
        Value::Object(map) => map.iter().for_each(|(key, value)| empty_lists(value, &format!("{path}/{key}"), report)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn workload(object: &Object, report: &mut impl FnMut(String)) {
    let selector = strings(object.get("/spec/selector/matchLabels"));
    let labels = strings(object.get("/spec/template/metadata/labels"));
    if selector.is_empty() || selector.iter().any(|(key, value)| labels.get(key) != Some(value)) {
        report("the selector does not match the pod template's labels".to_owned());
    }
    let pod = object.get("/spec/template/spec");
    let flag = |key: &str| pod.and_then(|pod| pod.get(key)).and_then(Value::as_bool);
    if flag("automountServiceAccountToken") != Some(false) {
        report("pods would get a token of the meta cluster".to_owned());
    }
    if object.get("/spec/template/spec/securityContext/runAsNonRoot") != Some(&Value::Bool(true)) {
        report("pods may run as root".to_owned());
    }
    for key in ["initContainers", "containers"] {
        for one in pod.and_then(|pod| pod.get(key)).and_then(Value::as_array).into_iter().flatten() {
            container(one, report);
            // It alone may be root: it holds the network of its pod.
            let is_vpc = key == "initContainers" && one["name"] == "vpc";
            let security = &one["securityContext"];
            if !is_vpc && (security["runAsUser"].is_number() || security["runAsNonRoot"] == false) {
                report(format!("container {}: it may run as root", one["name"]));
            }
            let added: &[&str] = if is_vpc { &["NET_ADMIN", "NET_RAW"] } else { &[] };
            let has = security["capabilities"]["add"].as_array().into_iter().flatten();
            if !has.into_iter().all(|one| added.iter().any(|added| one == added)) {
                report(format!("container {}: it has capabilities", one["name"]));
            }
        }
    }
}

fn container(container: &Value, report: &mut impl FnMut(String)) {
    let name = container["name"].as_str().unwrap_or("?");
    let image = container["image"].as_str().unwrap_or_default();
    if !pinned(image) {
        report(format!("container {name}: image {image:?} has no tag or digest, or the tag latest"));
    }
    for resource in ["cpu", "memory"] {
        if !container["resources"]["requests"][resource].is_string() {
            report(format!("container {name}: no request for {resource}"));
        }
    }
    let security = &container["securityContext"];
    if security["readOnlyRootFilesystem"] != true || security["allowPrivilegeEscalation"] != false {
        report(format!("container {name}: writable root or privilege escalation"));
    }
}

/// Whether an image names a digest or a tag other than `latest`. A port in the registry's name is no tag.
fn pinned(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    image.contains("@sha256:") || last.split_once(':').is_some_and(|(_, tag)| !tag.is_empty() && tag != "latest")
}

fn budget(object: &Object, objects: &[Object], report: &mut impl FnMut(String)) {
    let selector = strings(object.get("/spec/selector/matchLabels"));
    let guarded = objects.iter().any(|other| {
        let labels = strings(other.get("/spec/template/metadata/labels"));
        other.key().kind.has_pods() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    });
    if selector.is_empty() || !guarded {
        report("the budget guards no workload".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images() {
        for (image, good) in [
            ("registry.k8s.io/etcd:3.6.16-0", true),
            ("reg:5000/a@sha256:00", true),
            ("reg:5000/a", false),
            ("a:latest", false),
            ("", false),
        ] {
            assert_eq!(pinned(image), good, "{image}");
        }
    }

    #[test]
    fn finds_what_is_wrong() {
        let deployment = Object::new(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b", "finalizers": []},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        }))
        .unwrap();
        let messages: Vec<_> = lint(&[deployment]).into_iter().map(|finding| finding.message).collect();
        assert_eq!(messages.len(), 8, "{messages:#?}");
    }
}
