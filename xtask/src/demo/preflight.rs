//! Whether a cluster has what the demo needs. Everything is looked at before anything is said.

use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::ToSocketAddrs as _;

use super::{
    Demo, SYSTEM, TEAM, TENANT,
    findings::{self, Finding, Right},
    given::Wanted,
    probe,
};
use crate::shell::{Result, input, output};

/// Kinds of the charts, with their API group and resource, and whether they lie in a namespace.
const KINDS: [(&str, &str, &str, bool); 13] = [
    ("ServiceAccount", "", "serviceaccounts", true),
    ("ConfigMap", "", "configmaps", true),
    ("Service", "", "services", true),
    ("Deployment", "apps", "deployments", true),
    ("PodDisruptionBudget", "policy", "poddisruptionbudgets", true),
    ("Role", "rbac.authorization.k8s.io", "roles", true),
    ("RoleBinding", "rbac.authorization.k8s.io", "rolebindings", true),
    ("ClusterRole", "rbac.authorization.k8s.io", "clusterroles", false),
    ("ClusterRoleBinding", "rbac.authorization.k8s.io", "clusterrolebindings", false),
    ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io", "validatingadmissionpolicies", false),
    ("ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", false),
    ("CustomResourceDefinition", "apiextensions.k8s.io", "customresourcedefinitions", false),
    ("Namespace", "", "namespaces", false),
];

/// What the demo does beside its charts: group, resource, namespace, verbs.
const BESIDE: [(&str, &str, &str, &[&str]); 9] = [
    ("", "namespaces", "", &["get", "create", "delete"]),
    ("", "nodes", "", &["list"]),
    ("storage.k8s.io", "storageclasses", "", &["list"]),
    // Where Helm keeps its releases.
    ("", "secrets", SYSTEM, &["get", "list", "create", "update", "delete"]),
    ("berth.dev", "clusters", TEAM, &["get", "list", "watch", "create", "patch", "delete"]),
    ("berth.dev", "clusters", "", &["list"]),
    ("", "secrets", TEAM, &["get"]),
    ("", "pods", probe::NAMESPACE, &["get", "create"]),
    ("networking.k8s.io", "networkpolicies", probe::NAMESPACE, &["create"]),
];

/// Looks at everything. What needs rights or an answer that is not there is left out: the finding above says why.
pub(super) fn look(demo: &Demo, wanted: &Wanted) -> Vec<Finding> {
    let mut found = vec![];
    let images = findings::images(wanted.operator.as_deref(), wanted.agent.as_deref());
    if let Err(error) = &images {
        found.push(Finding::missing("images", error));
    }
    match get(demo, &["version", "-o", "json"]) {
        Ok(answer) => found.push(findings::version(&answer["serverVersion"])),
        Err(error) => {
            found.push(Finding::missing("API", format!("no answer with {}: {}", demo.meta.display(), why(&error))));
            return found;
        }
    }
    let list = |resource| get(demo, &["get", resource, "-o", "json"]);
    match list("nodes") {
        Ok(nodes) => {
            found.extend([findings::nodes(&nodes), findings::pod_addresses(&nodes, wanted.pod_cidrs.as_deref())]);
        }
        Err(error) => found.push(Finding::missing("nodes", why(&error))),
    }
    let class = |l: Value| findings::storage_class(&l, wanted.storage_class.as_deref());
    found.push(list("storageclasses").map_or_else(|e| Finding::missing("StorageClass", why(&e)), class));
    let objects = demo.rendered();
    let rights = objects.as_ref().map_err(why).and_then(|objects| {
        let answers = reviews(demo, &needed(objects)).map_err(|e| why(&e))?;
        Ok(findings::rights(&answers))
    });
    found.push(rights.unwrap_or_else(|error| Finding::missing("rights", error)));
    let allowed = findings::missing(&found) == 0;
    if let (true, Ok(objects)) = (allowed, &objects) {
        found.push(dry_run(demo, objects));
    }
    found.extend(somebody_elses(demo));
    found.extend(stores(demo));
    if let (true, Ok((operator, agent))) = (allowed, &images) {
        found.extend(probe::run(demo, operator, agent));
    }
    found
}

/// What a program complained about, without which one it was.
pub(super) fn why(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    match text.split_once("` ended with exit status: ").and_then(|(_, rest)| rest.split_once(": ")) {
        Some((_, why)) if !why.is_empty() => why.to_owned(),
        _ => text,
    }
}

fn get(demo: &Demo, arguments: &[&str]) -> Result<Value> {
    let text = output(demo.kubectl().args(["--request-timeout=15s"]).args(arguments))?;
    serde_json::from_str(&text).context("kubectl printed no JSON")
}

/// The rights that the objects of the charts need, and what the demo does beside.
fn needed(objects: &[Value]) -> BTreeSet<Right> {
    let right = |group: &str, resource: &str, namespace: &str, verb: &str| Right {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        verb: verb.to_owned(),
    };
    let mut rights = BTreeSet::new();
    for kind in objects.iter().filter_map(|o| o["kind"].as_str()) {
        for (_, group, resource, namespaced) in KINDS.iter().filter(|(k, ..)| *k == kind) {
            let namespace = if *namespaced { SYSTEM } else { "" };
            rights.extend(["get", "create", "patch", "delete"].map(|verb| right(group, resource, namespace, verb)));
        }
    }
    for (group, resource, namespace, verbs) in BESIDE {
        rights.extend(verbs.iter().map(|verb| right(group, resource, namespace, verb)));
    }
    rights
}

/// Asks for all of them in one call.
fn reviews(demo: &Demo, rights: &BTreeSet<Right>) -> Result<Vec<Value>> {
    let review = |Right { group, resource, namespace, verb }: &Right| {
        let attributes = json!({"group": group, "resource": resource, "namespace": namespace, "verb": verb});
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        })
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": rights.iter().map(review).collect::<Vec<_>>()});
    let text = input(demo.kubectl().args(["create", "-f", "-", "-o", "json"]), &list.to_string())?;
    let answers = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let mut all = vec![];
    for answer in answers {
        let answer = answer.context("kubectl printed no JSON")?;
        match answer["items"].as_array() {
            Some(items) => all.extend(items.clone()),
            None => all.push(answer),
        }
    }
    Ok(all)
}

/// What belongs to the whole cluster, as a dry run on the server: it checks what no list of rights says, such as that nobody
/// grants rights that they have not got, and that the kinds are there.
fn dry_run(demo: &Demo, objects: &[Value]) -> Finding {
    let in_namespace = |kind: &Value| KINDS.iter().any(|(k, _, _, namespaced)| kind == k && *namespaced);
    let items: Vec<&Value> = objects.iter().filter(|o| !in_namespace(&o["kind"])).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let arguments =
        ["apply", "-f", "-", "--dry-run=server", "--server-side", "--force-conflicts", "--field-manager=helm"];
    match input(demo.kubectl().args(arguments), &list.to_string()) {
        Ok(_) => {
            Finding::fine("charts", "what they make in the whole cluster, admission policies among it, is accepted")
        }
        Err(error) => {
            Finding::missing("charts", format!("what they make in the whole cluster is refused: {}", why(&error)))
        }
    }
}

/// What has the demo's names and was not made by it.
fn somebody_elses(demo: &Demo) -> Vec<Finding> {
    let mut found = vec![];
    let annotation = |object: &[&str], key: &str| {
        let object = get(demo, &[&["get"], object, &["-o", "json"]].concat()).ok()?;
        Some(object["metadata"]["annotations"][key].as_str().unwrap_or("nobody that is known").to_owned())
    };
    let released = |object: &[&str]| annotation(object, "meta.helm.sh/release-namespace");
    if let Some(namespace) = released(&["clusterrole", "berth-operator"])
        && !(namespace == SYSTEM && demo.is_released("berth"))
    {
        found.push(Finding::missing(
            "Berth",
            format!(
                "it is installed already, by a release of namespace {namespace}; the demo does not touch it.\n\
                     `kubectl apply -f examples/acme.yaml` makes a tenant there"
            ),
        ));
    } else if let Some(namespace) = released(&["customresourcedefinition", "clusters.berth.dev"])
        && namespace != SYSTEM
    {
        let said = format!("clusters.berth.dev is there, of a release of namespace {namespace}; Helm would refuse it");
        found.push(Finding::missing("CRDs", said));
    }
    let tenant = ["-n", TEAM, "clusters.berth.dev", TENANT];
    if annotation(&tenant, "").is_some() && !demo.is_made(&tenant).unwrap_or(false) {
        found.push(Finding::missing("tenant", format!("{TEAM}/{TENANT} is there and was not made by the demo")));
    }
    found
}

/// Where stores for backups are, if Berth is installed.
fn stores(demo: &Demo) -> Option<Finding> {
    let maps = ["get", "configmaps", "-A", "--field-selector=metadata.name=berth-operator", "-o", "json"];
    let map = get(demo, &maps).ok()?;
    let config: Value = serde_saphyr::from_str(map["items"][0]["data"]["config.yaml"].as_str()?).ok()?;
    let list = |kind: &str| get(demo, &["get", kind, "-A", "-o", "json"]).unwrap_or_default();
    let own = findings::addresses(&list("services"), &list("pods"), &list("nodes"));
    let resolved = |host: &str| (host, 0).to_socket_addrs().into_iter().flatten().map(|found| found.ip()).collect();
    findings::stores(&config, resolved, &own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_need_no_kind_that_is_not_asked_for() {
        for chart in ["berth", "berth-crds"] {
            for file in std::fs::read_dir(crate::root().join("charts").join(chart).join("templates")).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                for kind in text.lines().filter_map(|l| l.strip_prefix("kind: ")) {
                    // The values that the demo sets ask for none of these.
                    let others = ["NetworkPolicy", "ServiceMonitor", "PrometheusRule", "ResourceQuota"].contains(&kind);
                    assert!(others || KINDS.iter().any(|(k, ..)| *k == kind), "{kind}");
                }
            }
        }
    }

    #[test]
    fn rights_follow_from_the_objects() {
        let rights = needed(&[json!({"kind": "Deployment"}), json!({"kind": "ClusterRole"})]);
        let has = |group: &str, resource: &str, namespace: &str| {
            rights
                .iter()
                .any(|r| r.group == group && r.resource == resource && r.namespace == namespace && r.verb == "create")
        };
        assert!(has("apps", "deployments", SYSTEM) && has("rbac.authorization.k8s.io", "clusterroles", ""));
        assert!(!has("policy", "poddisruptionbudgets", SYSTEM));
    }
}
