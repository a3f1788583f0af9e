//! What Helm has recorded of a release in a tenant, and the hook at which a test holds it.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::{Kube, core, tenant::name_of, until};

/// A part of a chart: Helm waits for this pod before it installs or upgrades anything. No node runs it, and [`open`] ends it.
pub const GATE: &str = r#"
---
apiVersion: v1
kind: Pod
metadata:
  name: gate
  annotations: {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers: [{name: c, image: "registry.k8s.io/pause:3.10.1"}]
"#;

/// Number and state of each revision of a release, from the oldest.
pub fn history(inside: &Kube, namespace: &str, name: &str) -> Result<Vec<(i64, String)>> {
    let secrets = inside.list(&format!("{}?labelSelector=owner=helm,name={name}", core(namespace, "secrets")))?;
    let mut all = vec![];
    for secret in &secrets {
        let labels = &secret["metadata"]["labels"];
        let (Some(version), Some(status)) = (labels["version"].as_str(), labels["status"].as_str()) else {
            bail!("{} is no release of Helm's", name_of(secret));
        };
        all.push((version.parse()?, status.to_owned()));
    }
    all.sort();
    Ok(all)
}

/// There is this release alone in the whole tenant, its newest revision is that one, and no other is deployed.
pub fn is_the_only_one(inside: &Kube, namespace: &str, name: &str, revision: i64) -> Result<()> {
    let all = inside.list(&format!("{}?labelSelector=owner=helm", core("", "secrets")))?;
    let others = all.iter().find(|secret| {
        let meta = &secret["metadata"];
        meta["namespace"] != namespace || meta["labels"]["name"] != name
    });
    ensure!(others.is_none(), "another release: {:?}", others.map(name_of));
    let history = history(inside, namespace, name)?;
    ensure!(history.last().is_some_and(|newest| *newest == (revision, "deployed".to_owned())), "{history:?}");
    ensure!(history.iter().filter(|(_, status)| status == "deployed").count() == 1, "{history:?}");
    Ok(())
}

/// A namespace whose pods are admitted: kube-controller-manager has made what they need.
pub fn namespace(inside: &Kube, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    inside.ensure(&core("", "namespaces"), &object)?;
    let account = format!("{}/default", core(name, "serviceaccounts"));
    until(&format!("the service account of {name}"), || inside.get(&account).map(drop))
}

/// Waits until Helm is at the gate, on a revision in that state.
pub fn is_held(inside: &Kube, namespace: &str, name: &str, status: &str) -> Result<i64> {
    until(&format!("Helm to wait at {status}"), || {
        let history = history(inside, namespace, name)?;
        let newest = history.last().filter(|(_, newest)| newest == status);
        let pod = gate(inside, namespace)?;
        match (newest, pod) {
            (Some((revision, _)), Some(_)) => Ok(*revision),
            (_, pod) => bail!("{history:?}, and {} at the gate", if pod.is_some() { "it is" } else { "nobody is" }),
        }
    })
}

/// Lets whoever is at the gate go on.
pub fn open(inside: &Kube, namespace: &str) -> Result<()> {
    if gate(inside, namespace)?.is_some() {
        let path = format!("{}/gate/status", core(namespace, "pods"));
        inside.merge(&path, &json!({"status": {"phase": "Succeeded"}}))?;
    }
    Ok(())
}

/// The pod, as long as it has not ended.
fn gate(inside: &Kube, namespace: &str) -> Result<Option<Value>> {
    let pod = inside.find(&format!("{}/gate", core(namespace, "pods")))?;
    Ok(pod.filter(|pod| pod["status"]["phase"] == "Pending" && pod["metadata"]["deletionTimestamp"].is_null()))
}
