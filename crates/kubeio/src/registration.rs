//! The Secret by which Argo CD knows a tenant, in a namespace of the platform's, where the operator may read no Secret.

use crate::calls::Io;
use crate::dry_run::told;
use crate::error::{ErrorKind, IoError};
use crate::snapshot::{Snapshot, take_data};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::{Cluster, labels};
use berth_plan::model::RegistrationPlan;
use berth_plan::object_meta::{deleting, label, uid};
use berth_plan::observed::{Registered, RegisteredSecret};
use berth_plan::settings::Settings;
use berth_plan_cluster::registered_key;
use berth_render::ObjectKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The policies of Berth's chart that refuse what is not Berth's: in Argo CD's namespace, and elsewhere.
const OWN_POLICIES: [&str; 2] =
    ["ValidatingAdmissionPolicy 'berth-operator-registration' ", "ValidatingAdmissionPolicy 'berth-operator-secrets' "];

/// Looks at it as at the published kubeconfig: by an empty patch as a dry run, which the chart's admission policy refuses for Secrets that are
/// not Berth's. Where nothing is registered, nothing is asked.
pub(crate) async fn observe(io: &Io, cluster: &Cluster, settings: &Settings, snapshot: &mut Snapshot) {
    let Some(key) = registered_key(cluster, settings, &snapshot.observed) else { return };
    snapshot.observed.registered = match io.merge(&key, "", "dryRun=All", &json!({})).await {
        Ok(secret) => seen(secret, cluster),
        Err(e) if e.kind == ErrorKind::NotFound => Registered::Absent,
        Err(e) if e.kind == ErrorKind::Rejected && is_by_own_policy(&e.message) => {
            Registered::Foreign(told(&e.message))
        }
        Err(e) => failed(&e),
    };
}

/// The chart's policies refuse what is not Berth's. Whatever else refuses says nothing of whose it is.
fn is_by_own_policy(said: &str) -> bool {
    OWN_POLICIES.iter().any(|policy| said.contains(policy))
}

fn seen(secret: Value, cluster: &Cluster) -> Registered {
    let own = [
        (labels::MANAGED_BY, Some(labels::MANAGED_BY_VALUE)),
        (labels::CLUSTER_NAME, cluster.metadata.name.as_deref()),
        (labels::CLUSTER_NAMESPACE, cluster.metadata.namespace.as_deref()),
    ];
    if own.iter().any(|(key, value)| label(&secret, key) != *value) {
        return Registered::Foreign("it does not have Berth's labels".into());
    }
    Registered::Ours(Box::new(read(secret)))
}

/// What it says, without what is private.
fn read(mut secret: Value) -> RegisteredSecret {
    let data = take_data(&mut secret);
    let map = |field: &str| -> BTreeMap<String, String> {
        serde_json::from_value(secret["metadata"][field].clone()).unwrap_or_default()
    };
    let text = |key: &str| data.get(key).map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
    let config = data.get("config").map(Vec::as_slice).unwrap_or_default();
    let finalizers = || serde_json::from_value(secret["metadata"]["finalizers"].clone()).unwrap_or_default();
    RegisteredSecret {
        uid: uid(&secret).to_owned(),
        ends: deleting(&secret).then(finalizers),
        labels: map("labels"),
        annotations: map("annotations"),
        name: text("name"),
        project: text("project"),
        connection: berth_pki::parse_argocd_cluster(&text("server"), config).ok(),
    }
}

/// Writes it. What fails is seen by the next plan, and is nothing that the reconcile fails by: but for what says that it looked at something
/// else, or may not write at all.
pub(crate) async fn write(
    io: &Io,
    snapshot: &Snapshot,
    plan: &RegistrationPlan,
    manager: &str,
) -> Result<Registered, IoError> {
    let written = match secret(snapshot, plan) {
        Ok(secret) => send(io, plan, &secret, manager).await,
        Err(why) => Err(IoError::new(ErrorKind::Other, format!("make {}", plan.key), why)),
    };
    match written {
        Ok(live) => Ok(Registered::Ours(Box::new(read(live)))),
        Err(e) if matches!(e.kind, ErrorKind::Conflict | ErrorKind::Fenced) => Err(e),
        Err(e) => Ok(failed(&e)),
    }
}

/// Whoever refuses it saw the Secret, and may quote it.
fn failed(error: &IoError) -> Registered {
    Registered::Failed(format!("{}: {}", error.what, told(&error.message)))
}

async fn send(io: &Io, plan: &RegistrationPlan, secret: &Value, manager: &str) -> Result<Value, IoError> {
    let Some(uid) = &plan.existing else { return io.create(&plan.key, secret, manager).await };
    let mut metadata = json!({"uid": uid, "labels": plan.labels, "annotations": plan.annotations});
    for former in &plan.former_labels {
        metadata["labels"][former] = Value::Null;
    }
    let patch = json!({"metadata": metadata, "data": secret["data"]});
    io.merge(&plan.key, "", &format!("fieldManager={manager}"), &patch).await
}

fn secret(snapshot: &Snapshot, plan: &RegistrationPlan) -> Result<Value, String> {
    let kubeconfig = snapshot.secret(&plan.source, "value").unwrap_or_default();
    let cluster = berth_pki::argocd_cluster(kubeconfig).map_err(|e| format!("{}: {e}", plan.source))?;
    let ObjectKey { name, namespace, .. } = &plan.key;
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace, "labels": plan.labels, "annotations": plan.annotations},
        "data": {
            "name": STANDARD.encode(&plan.name),
            "server": STANDARD.encode(&cluster.server),
            "project": STANDARD.encode(&plan.project),
            "config": STANDARD.encode(cluster.config.expose()),
        },
    }))
}
