//! Making Secrets: the one place where private keys come into being.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::snapshot::Snapshot;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_api::cluster::AUDIT_KUBECONFIG;
use berth_pki::{Clocks, Kubeconfig, PkiError};
use berth_plan::{SecretEntry, SecretPlan};
use berth_render::ObjectKey;
use serde_json::{Map, Value, json};

/// Makes what the plan asks for and writes it: a new Secret with `create`, which never overwrites; one that is there with
/// a patch that holds its UID and resourceVersion.
pub(crate) async fn write(
    io: &Io,
    snapshot: &Snapshot,
    plan: &SecretPlan,
    manager: &str,
    clocks: Clocks,
) -> Result<Value, IoError> {
    let mut data = Map::new();
    for entry in &plan.entries {
        make(snapshot, entry, clocks, &mut data)
            .map_err(|e| IoError::new(ErrorKind::Other, format!("make {}", plan.key), e))?;
    }
    let namespace = plan.key.namespace.clone().unwrap_or_default();
    match &plan.existing {
        None => {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": plan.type_,
                "metadata": {"name": plan.key.name, "namespace": namespace, "labels": plan.labels},
                "data": data,
            });
            io.create(&plan.key, &secret, manager).await
        }
        Some((uid, version)) => {
            let patch = json!({
                "metadata": {"uid": uid, "resourceVersion": version, "labels": plan.labels},
                "data": data,
            });
            io.merge(&plan.key, "", &format!("fieldManager={manager}"), &patch).await
        }
    }
}

fn put(data: &mut Map<String, Value>, key: &str, bytes: &[u8]) {
    data.insert(key.to_owned(), STANDARD.encode(bytes).into());
}

fn ca<'a>(snapshot: &'a Snapshot, issuer: &ObjectKey) -> Result<(&'a [u8], &'a [u8]), String> {
    match (snapshot.secret(issuer, "tls.crt"), snapshot.secret(issuer, "tls.key")) {
        (Some(cert), Some(key)) => Ok((cert, key)),
        _ => Err(format!("the CA in {issuer} does not exist")),
    }
}

fn make(snapshot: &Snapshot, entry: &SecretEntry, clocks: Clocks, data: &mut Map<String, Value>) -> Result<(), String> {
    let failed = |e: PkiError| e.to_string();
    match entry {
        SecretEntry::Ca(spec) => {
            let pair = berth_pki::issue_ca(spec, clocks).map_err(failed)?;
            put(data, "tls.crt", pair.cert_pem.as_bytes());
            put(data, "tls.key", pair.key_pem.expose_bytes());
        }
        SecretEntry::Leaf { name, spec, issuer, .. } => {
            let (cert, key) = ca(snapshot, issuer)?;
            let pair = berth_pki::issue(spec, cert, key, clocks).map_err(failed)?;
            put(data, &format!("{name}.crt"), pair.cert_pem.as_bytes());
            put(data, &format!("{name}.key"), pair.key_pem.expose_bytes());
        }
        SecretEntry::CaCopy { name, issuer } => put(data, name, ca(snapshot, issuer)?.0),
        SecretEntry::Copy { name, source, of } => {
            let bytes = snapshot.secret(source, of).ok_or_else(|| format!("{source} has no key {of}"))?;
            put(data, name, bytes);
        }
        SecretEntry::AuditWebhook { source } => {
            let text = snapshot.secret(source, AUDIT_KUBECONFIG);
            let text = text.ok_or_else(|| format!("{source} has no key {AUDIT_KUBECONFIG}"))?;
            let kubeconfig = berth_pki::webhook_kubeconfig(text).map_err(|why| format!("{source}: {why}"))?;
            put(data, AUDIT_KUBECONFIG, kubeconfig.expose_bytes());
        }
        SecretEntry::ServiceAccountKey => {
            let pair = berth_pki::generate_service_account_key().map_err(failed)?;
            put(data, "tls.crt", pair.public_pem.as_bytes());
            put(data, "tls.key", pair.private_pem.expose_bytes());
        }
        SecretEntry::EncryptionConfig => {
            let key = berth_pki::generate_encryption_key().map_err(failed)?;
            put(data, "encryption.yaml", encryption_config(key.expose()).as_bytes());
        }
        SecretEntry::Kubeconfig { cluster, server, spec, issuer, .. } => {
            let (cert, key) = ca(snapshot, issuer)?;
            let pair = berth_pki::issue(spec, cert, key, clocks).map_err(failed)?;
            let kubeconfig = Kubeconfig {
                cluster_name: cluster.clone(),
                server: server.clone(),
                ca_pem: String::from_utf8_lossy(cert).into_owned(),
                user: spec.common_name.clone(),
                cert_pem: pair.cert_pem,
                key_pem: pair.key_pem,
            };
            put(data, "value", kubeconfig.to_yaml().as_bytes());
        }
    }
    Ok(())
}

/// JSON is YAML. `identity` comes last: what was written before encryption can still be read.
fn encryption_config(key: &str) -> String {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets"],
            "providers": [{"secretbox": {"keys": [{"name": "key-1", "secret": key}]}}, {"identity": {}}],
        }],
    })
    .to_string()
}
