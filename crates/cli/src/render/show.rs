//! What was made, as documents.

use crate::output;
use crate::world::{API_ADDRESS, LOAD_BALANCER, MEMBER_ADDRESS, UID};
use berth_api::cluster::AUDIT_KUBECONFIG;
use berth_api::labels;
use berth_pki::CertSpec;
use berth_plan::SecretEntry;
use berth_render::{Kind, ObjectKey};
use berth_sim::{Made, NODE_PORT, UNKNOWN, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// On the meta cluster.
pub(super) fn outside(world: &World) -> Vec<Value> {
    let one = |(key, made): (&ObjectKey, &Made)| match made {
        Made::Object(object) => tidy(object.value().clone()),
        Made::Secret(plan) => {
            let entries: Vec<Value> = plan.entries.iter().map(entry).collect();
            secret(key, &plan.type_, &plan.labels, &entries)
        }
        Made::Published(source, labels) => {
            secret(key, labels::CAPI_SECRET_TYPE, labels, &[json!({"key": "value", "copyOf": source.to_string()})])
        }
    };
    world.made.iter().map(one).collect()
}

/// Inside of the tenant.
pub(super) fn inside(world: &World) -> Vec<Value> {
    world.inside.values().map(|o| tidy(o.value().clone())).collect()
}

/// Without what is only a digest of the rest, and without the texts of templates.
fn tidy(mut object: Value) -> Value {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(labels::APPLIED_DIGEST);
        if annotations.is_empty() {
            object["metadata"].as_object_mut().map(|m| m.remove("annotations"));
        }
    }
    let kind = object["kind"] == Kind::ConfigMap.name();
    let templates = object["metadata"]["name"].as_str().is_some_and(|n| n.contains("templates-"));
    if let (true, true, Some(data)) = (kind, templates, object.get_mut("data").and_then(Value::as_object_mut)) {
        for text in data.values_mut() {
            let length = text.as_str().map_or(0, str::len);
            *text = format!("a template of this version, {length} bytes").into();
        }
    }
    object
}

/// A Secret as a plan. `plan` is no field of Kubernetes, so that it cannot be applied by mistake.
fn secret(key: &ObjectKey, type_: &str, labels: &BTreeMap<String, String>, plan: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": type_,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        "plan": plan,
    })
}

fn entry(entry: &SecretEntry) -> Value {
    match entry {
        SecretEntry::Ca(spec) => with(certificate(spec), &[("keys", json!(["tls.crt", "tls.key"]))]),
        SecretEntry::Leaf { name, spec, issuer, .. } => {
            let keys = json!([format!("{name}.crt"), format!("{name}.key")]);
            with(certificate(spec), &[("keys", keys), ("issuer", json!(issuer.to_string()))])
        }
        SecretEntry::CaCopy { name, issuer } => json!({"keys": [name], "copyOf": format!("{issuer}, tls.crt")}),
        SecretEntry::Copy { name, source, .. } => json!({"keys": [name], "copyOf": source.to_string()}),
        SecretEntry::AuditWebhook { source } => json!({"keys": [AUDIT_KUBECONFIG], "copyOf": source.to_string()}),
        SecretEntry::ServiceAccountKey => {
            json!({"keys": ["tls.crt", "tls.key"], "keyPair": "signs service-account tokens"})
        }
        SecretEntry::EncryptionConfig => json!({"keys": ["encryption.yaml"], "key": "encrypts Secrets in etcd"}),
        SecretEntry::Kubeconfig { server, spec, issuer, .. } => {
            let more = [("keys", json!(["value"])), ("server", json!(server)), ("issuer", json!(issuer.to_string()))];
            with(certificate(spec), &more)
        }
    }
}

fn with(mut value: Value, more: &[(&str, Value)]) -> Value {
    for (key, more) in more {
        value[*key] = more.clone();
    }
    value
}

fn certificate(spec: &CertSpec) -> Value {
    let spec = spec.normalized();
    let mut value = json!({
        "certificate": spec.common_name,
        "usage": format!("{:?}", spec.usage),
        "days": spec.lifetime.as_hours() / 24,
    });
    if !spec.organizations.is_empty() {
        value["organizations"] = json!(spec.organizations);
    }
    let addresses = spec.ip_addresses.iter().map(ToString::to_string);
    let sans: Vec<String> = spec.dns_names.iter().cloned().chain(addresses).collect();
    if !sans.is_empty() {
        value["sans"] = json!(sans);
    }
    value
}

/// As documents.
pub(super) fn yaml(documents: &[Value]) -> anyhow::Result<String> {
    documents.iter().map(|document| Ok(format!("---\n{}", output::yaml(document)?))).collect()
}

/// As a List.
pub(super) fn json(documents: &[Value]) -> anyhow::Result<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
    output::json(&list)
}

/// What placeholders stand for, of those that are in the text.
pub(super) fn notes(text: &str, configured: bool) -> Vec<String> {
    let port = NODE_PORT.to_string();
    let members = format!("{MEMBER_ADDRESS}0");
    let all = [
        (API_ADDRESS, format!("{API_ADDRESS} stands for the address of Service kube-apiserver")),
        (&members, format!("{members} and following stand for the addresses of etcd's members")),
        (LOAD_BALANCER, format!("{LOAD_BALANCER} stands for the address of the load balancer")),
        (&port, format!("{port} stands for the port on the meta cluster's nodes")),
        (UID, format!("{UID} stands for UIDs")),
        (UNKNOWN, format!("{UNKNOWN} stands for digests of keys and CAs")),
        (labels::AUDIT_WEBHOOK, "no Secret is read: that of spec.apiServer.audit.webhook counts as one that Berth takes, and the name of its copy ends with other digits".to_owned()),
        ("plan:", "Secrets are plans: no key is made, and none is printed".to_owned()),
        ("\"plan\"", "Secrets are plans: no key is made, and none is printed".to_owned()),
    ];
    let mut notes: Vec<String> =
        all.into_iter().filter(|(sign, _)| text.contains(sign)).map(|(_, note)| note).collect();
    if !configured {
        notes.push("without --operator-config: NetworkPolicies do not name the meta cluster's own ranges, and what writers may ask for is not judged".to_owned());
    }
    notes
}
