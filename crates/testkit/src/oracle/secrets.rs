//! Whether keys are still the same keys.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use super::mask::hash;

/// SHA-256 by `namespace/secret/key`.
pub type SecretKeys = BTreeMap<String, String>;

/// All keys of all Secrets in the namespaces.
pub async fn secret_keys(client: &Client, namespaces: &[&str]) -> Result<SecretKeys> {
    let mut keys = SecretKeys::new();
    for namespace in namespaces {
        for secret in Api::<Secret>::namespaced(client.clone(), namespace).list(&ListParams::default()).await? {
            let name = secret.name_any();
            let data = secret.data.unwrap_or_default();
            keys.extend(data.into_iter().map(|(key, value)| (format!("{namespace}/{name}/{key}"), hash(&value.0))));
        }
    }
    Ok(keys)
}

/// Every key that was there is there with the same content. New ones are fine.
///
/// # Panics
/// If one changed or is gone.
pub fn assert_keys_unchanged(before: &SecretKeys, after: &SecretKeys) {
    let state = |key: &str, hash: &str| match after.get(key) {
        None => Some(format!("{key}: gone")),
        Some(now) if now != hash => Some(format!("{key}: changed")),
        Some(_) => None,
    };
    let broken: Vec<_> = before.iter().filter_map(|(key, hash)| state(key, hash)).collect();
    assert!(broken.is_empty(), "keys that had to stay:\n{}", broken.join("\n"));
}
