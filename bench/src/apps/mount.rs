//! Volumes of a pod as folders of this machine.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes what the pod's first container mounts of Secrets and ConfigMaps, each at its path below a folder. Of other volumes there is an empty folder.
pub(super) async fn mount(client: &Client, pod: &Pod, root: &Path) -> Result<()> {
    let (namespace, pod) = (pod.namespace().unwrap_or_default(), json!(pod));
    for mount in list(pod.pointer("/spec/containers/0/volumeMounts")) {
        let path = mount["mountPath"].as_str().context("a mount without a path")?;
        let to = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(&to)?;
        let volume = list(pod.pointer("/spec/volumes")).find(|volume| volume["name"] == mount["name"]);
        let volume = volume.with_context(|| format!("no volume {}", mount["name"]))?;
        for source in list(volume.pointer("/projected/sources")).chain([volume]) {
            let (files, items) = read(client, &namespace, source).await?;
            for (from, path) in places(&files, items) {
                let path = to.join(path);
                std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
                std::fs::write(&path, files.get(&from).with_context(|| format!("no key {from}"))?)?;
            }
        }
    }
    Ok(())
}

pub(super) fn list(of: Option<&Value>) -> impl Iterator<Item = &Value> {
    of.and_then(Value::as_array).into_iter().flatten()
}

/// What a source has, and where that goes.
async fn read<'a>(
    client: &Client,
    namespace: &str,
    source: &'a Value,
) -> Result<(BTreeMap<String, Vec<u8>>, &'a Value)> {
    let (secret, map) = (&source["secret"], &source["configMap"]);
    if let Some(name) = secret["secretName"].as_str().or(secret["name"].as_str()) {
        let data = Api::<Secret>::namespaced(client.clone(), namespace).get(name).await?.data.unwrap_or_default();
        return Ok((data.into_iter().map(|(key, bytes)| (key, bytes.0)).collect(), &secret["items"]));
    }
    if let Some(name) = map["name"].as_str() {
        let data = Api::<ConfigMap>::namespaced(client.clone(), namespace).get(name).await?.data.unwrap_or_default();
        return Ok((data.into_iter().map(|(key, text)| (key, text.into_bytes())).collect(), &map["items"]));
    }
    Ok((BTreeMap::new(), &Value::Null))
}

/// Keys, and where their files are. Without items each has its own name.
fn places(files: &BTreeMap<String, Vec<u8>>, items: &Value) -> Vec<(String, String)> {
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    match items.as_array().filter(|items| !items.is_empty()) {
        Some(items) => items.iter().map(|item| (text(&item["key"]), text(&item["path"]))).collect(),
        None => files.keys().map(|key| (key.clone(), key.clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_items_say_or_have_the_names_of_keys() {
        let files = BTreeMap::from([("a".to_owned(), vec![]), ("b".to_owned(), vec![])]);
        let pair = |key: &str, path: &str| (key.to_owned(), path.to_owned());
        assert_eq!(places(&files, &Value::Null), [pair("a", "a"), pair("b", "b")]);
        assert_eq!(places(&files, &json!([{"key": "a", "path": "etcd/ca.crt"}])), [pair("a", "etcd/ca.crt")]);
    }
}
