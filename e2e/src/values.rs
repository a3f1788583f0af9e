//! Values of the chart `berth` under which tests run: every one is set, in e2e/values.yaml or here, but for those that are [`LEFT`].

use anyhow::Result;
use serde_json::{Value, json};

use crate::{Kube, core, paths};

/// The file.
pub fn file() -> String {
    paths::root().join("e2e/values.yaml").display().to_string()
}

/// What [`crate::World::install`] sets by itself, beside the file.
pub const BY_INSTALL: [&str; 10] = [
    "agent.delivery",
    "agent.image.tag",
    "backups.image.tag",
    "meta.apiServerIPs",
    "meta.nodeCIDRs",
    "meta.podCIDRs",
    "meta.serviceCIDRs",
    "operator.image.tag",
    "operator.logJSON",
    "operator.replicas",
];

/// Values that stay as the chart has them, by how their paths begin, and why.
pub const LEFT: [(&str, &str); 30] = [
    ("access", "a test of the login sets it"),
    ("agent.image.digest", "the image is loaded into the nodes by its tag"),
    ("agent.image.repository", "it is loaded by the chart's name"),
    ("apiProxy", "a test with the add-on on a node sets it"),
    ("apps", "a test of apps sets it"),
    ("authentication", "a test with an issuer sets it"),
    ("backups.image.digest", "it is loaded by its tag"),
    ("backups.image.repository", "it is loaded by the chart's name"),
    ("etcdNamespaces", "they have to exist; a test that needs one sets it"),
    ("gateway", "a test with tenants behind it sets it"),
    ("hibernation", "a test of tenants that connections wake sets it"),
    ("imageLayout", "as imageRegistry"),
    ("imagePullPolicy", "the images are in no registry"),
    ("imagePullSecrets", "the images are in no registry"),
    ("imageRegistry", "upstream's images are loaded by upstream's names, which a mirror changes"),
    ("meta.autoscaling", "no node comes, so what no node could hold is to be refused"),
    ("metrics.from", "tests read metrics from outside"),
    ("metrics.prometheusRule", "the kind is of prometheus-operator"),
    ("metrics.serviceMonitor", "the kind is of prometheus-operator"),
    ("operator.affinity", "one replica has no others to keep away from"),
    ("operator.image", "as the agent's"),
    ("operator.log", "a test that reads more sets it"),
    ("operator.priorityClassName", "a pod that pushes others away is another test"),
    ("operator.resources", "they are what the chart promises to be enough"),
    ("registration", "a test of registration sets it"),
    ("serviceAccount.name", "tests find in the audit log by it what the operator wrote"),
    ("teams", "their namespaces have to exist"),
    ("tenants.proxy", "a test that needs a proxy starts one, and sets spec.proxy"),
    ("writers.access", "a test of rights in tenants sets it"),
    ("writers.hosts", "names of a team's own are tested in memory"),
];

/// The addresses of a meta cluster, as the operator would find them: `helm --set-json` takes it.
pub fn meta(kube: &Kube) -> Result<String> {
    let texts = |objects: &[Value], list: fn(&Value) -> &Value| -> Vec<Value> {
        objects.iter().flat_map(|o| list(o).as_array().cloned().unwrap_or_default()).collect()
    };
    let nodes = kube.list(&core("", "nodes"))?;
    let services = kube.list("/apis/networking.k8s.io/v1/servicecidrs")?;
    let slice = kube.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")?;
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    let addresses = texts(&nodes, |node| &node["status"]["addresses"]);
    let own = addresses.iter().filter(|a| a["type"] == "InternalIP" || a["type"] == "ExternalIP");
    let meta = json!({
        "podCIDRs": texts(&nodes, |node| &node["spec"]["podCIDRs"]),
        "serviceCIDRs": texts(&services, |range| &range["spec"]["cidrs"]),
        "nodeCIDRs": own.map(|a| &a["address"]).collect::<Vec<_>>(),
        "apiServerIPs": texts(&endpoints, |endpoint| &endpoint["addresses"]),
    });
    Ok(format!("meta={meta}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testkit::fixtures::from_yaml;

    /// Paths of everything that is no object, or an empty one.
    fn leaves(value: &Value, path: &str) -> Vec<String> {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let below =
                    |(name, value)| leaves(value, &format!("{path}{}{name}", if path.is_empty() { "" } else { "." }));
                fields.iter().flat_map(below).collect()
            }
            _ => vec![path.to_owned()],
        }
    }

    #[test]
    fn every_value_of_the_chart_is_set_or_left_for_a_reason() {
        let read = |path: &str| -> Value { from_yaml(&std::fs::read_to_string(paths::root().join(path)).unwrap()) };
        let (chart, ours) = (read("charts/berth/values.yaml"), read("e2e/values.yaml"));
        let is_set = |path: &str| {
            let pointer = format!("/{}", path.replace('.', "/"));
            BY_INSTALL.contains(&path) || ours.pointer(&pointer).is_some()
        };
        let left = LEFT.map(|(path, _)| path).into_iter();
        let is_left = |path: &str| left.clone().any(|left| path == left || path.starts_with(&format!("{left}.")));
        let all = leaves(&chart, "");
        let forgotten: Vec<_> = all.iter().filter(|path| !is_set(path) && !is_left(path)).collect();
        assert!(forgotten.is_empty(), "set them in e2e/values.yaml, or say why not in `LEFT`: {forgotten:?}");
        for path in left.clone() {
            let below = |of: &&String| *of == path || of.starts_with(&format!("{path}."));
            assert!(all.iter().any(|of| below(&of)), "the chart has no value {path}");
            assert!(ours.pointer(&format!("/{}", path.replace('.', "/"))).is_none(), "{path} is set");
        }
        // Nothing that the chart does not know: below a list, or a value that is null or {}, it does not say what there may be.
        let known = |path: &String| all.iter().any(|of| path == of || path.starts_with(&format!("{of}.")));
        let unknown: Vec<_> = leaves(&ours, "").into_iter().filter(|path| !known(path)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
