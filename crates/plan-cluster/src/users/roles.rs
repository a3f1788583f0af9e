//! The rules of Berth's roles in tenants. They are written out: what the tenant aggregates into roles of its own is none of them, so that a Viewer reads no Secret whatever a
//! chart in the tenant adds to `view`.

use berth_api::labels;
use berth_plan::object_meta::label;
use serde_json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// What all read: group and resources. No Secrets.
const READABLE: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "nodes",
            "nodes/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "persistentvolumes",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("events.k8s.io", &["events"]),
    ("networking.k8s.io", &["ingressclasses", "ingresses", "ingresses/status", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    ("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles", "rolebindings", "roles"]),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apiregistration.k8s.io", &["apiservices"]),
    ("metrics.k8s.io", &["nodes", "pods"]),
    ("node.k8s.io", &["runtimeclasses"]),
    ("scheduling.k8s.io", &["priorityclasses"]),
    ("storage.k8s.io", &["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"]),
];

/// What an Editor changes. No endpoints: they would lead a Service of one namespace to pods of another.
const WRITABLE: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/attach",
            "pods/eviction",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    (
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
];

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn viewer() -> Vec<Value> {
    READABLE.iter().map(|(group, resources)| rule(group, resources, READ)).collect()
}

fn editor() -> Vec<Value> {
    let mut rules = viewer();
    // A websocket of exec or port-forward is opened with GET.
    let streams = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"];
    rules.push(rule("", &["secrets"], READ));
    rules.push(rule("", &streams, &["get"]));
    rules.push(rule("", &["serviceaccounts/token"], &["create"]));
    rules.extend(WRITABLE.iter().map(|(group, resources)| rule(group, resources, WRITE)));
    rules
}

fn admin() -> Vec<Value> {
    let mut rules = editor();
    // A binding in a namespace reaches the Namespace itself, too: whoever changes its labels says what pods may do there.
    rules.push(rule("", &["namespaces"], &["create", "delete"]));
    // Kubernetes lets nobody give more than they have.
    rules.push(rule("rbac.authorization.k8s.io", &["rolebindings", "roles"], WRITE));
    rules.push(rule("authorization.k8s.io", &["localsubjectaccessreviews"], &["create"]));
    rules
}

/// Name in tenants, and rules, of a role of Berth's. None: it is one of the platform's own. `cluster-admin` is every tenant's own, and has none.
pub(super) fn built_in(role: &str) -> Option<(&'static str, Option<Vec<Value>>)> {
    Some(match role {
        "Viewer" => ("berth:viewer", Some(viewer())),
        "Editor" => ("berth:editor", Some(editor())),
        "Admin" => ("berth:admin", Some(admin())),
        "ClusterAdmin" => ("cluster-admin", None),
        _ => return None,
    })
}

/// The name of the ClusterRole of the meta cluster that is to be read for a role. None: it is Berth's own.
pub fn custom(role: &str) -> Option<&str> {
    built_in(role).is_none().then_some(role)
}

/// Name in tenants, and rules, of a role of the platform's own, as its ClusterRole was read. The error says why there are none.
pub(super) fn of_platform(role: &str, live: Option<&Value>) -> Result<(String, Vec<Value>), String> {
    let named = format!("spec.role: ClusterRole {role} of the meta cluster");
    let live = live.ok_or_else(|| {
        format!("{named} is not there. Set Viewer, Editor, Admin or ClusterAdmin, or ask the platform team to create it with the label {}=true", labels::ROLE)
    })?;
    if label(live, labels::ROLE) != Some("true") {
        return Err(format!(
            "{named} has no label {}=true, so it is not for tenants. Set another role, or ask the platform team for the label",
            labels::ROLE
        ));
    }
    let rules = live["rules"].as_array().filter(|rules| !rules.is_empty());
    let rules = rules.ok_or_else(|| format!("{named} has no rules"))?;
    Ok((format!("berth:role:{role}"), rules.clone()))
}
