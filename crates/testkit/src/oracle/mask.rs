//! Takes out of objects what differs between two equal runs.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::counts::digest_in;
use super::{Dump, Dumper};

/// Labels whose values hash a pod template.
const HASHES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

pub(super) fn mask(found: Vec<(String, Value)>, how: &Dumper) -> Dump {
    let texts = Texts::collect(&found, how);
    let mut dump = Dump::new();
    for (kind, mut object) in found {
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (meta("namespace"), meta("name"));
        metadata(&mut object["metadata"]);
        match &*kind {
            "Secret" => secret(&mut object, how.secret_hashes),
            "Pod" => addresses(&mut object, &["/status/podIP", "/status/podIPs", "/status/hostIP", "/status/hostIPs"]),
            "Service" => service(&mut object),
            _ => {}
        }
        for (_, pointer) in how.ignore.iter().filter(|(k, _)| *k == kind || k == "*") {
            remove(&mut object, pointer);
        }
        texts.apply(&mut object);
        let parts = [namespace, kind, name].into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>();
        let key = texts.replace(&parts.join("/"));
        let free = (2..).map(|n| format!("{key}#{n}"));
        let key = std::iter::once(key.clone()).chain(free).find(|k| !dump.contains_key(k));
        dump.insert(key.expect("some number is free"), object);
    }
    dump
}

/// Two ways to one state may differ in the generation, too.
fn metadata(metadata: &mut Value) {
    let Some(map) = metadata.as_object_mut() else { return };
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        map.remove(field);
    }
    // The API server's own count of a DaemonSet's templates.
    if let Some(annotations) = map.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("deprecated.daemonset.template.generation");
    }
}

fn secret(object: &mut Value, hashes: bool) {
    for value in object["data"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        let data = base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or_default());
        *value = match data {
            Ok(data) if data.is_empty() => json!("<empty>"),
            Ok(data) if hashes => json!(hash(&data)),
            _ => json!("<present>"),
        };
    }
}

/// `sha256:` and the digest in hex.
pub(super) fn hash(data: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(data).iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What the server or a load balancer picks; `None` of a headless Service stays.
fn service(object: &mut Value) {
    if object["spec"]["clusterIP"] != "None" {
        addresses(object, &["/spec/clusterIP", "/spec/clusterIPs"]);
    }
    addresses(object, &["/spec/healthCheckNodePort", "/status/loadBalancer/ingress"]);
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
        addresses(port, &["/nodePort"]);
    }
}

fn addresses(object: &mut Value, pointers: &[&str]) {
    for pointer in pointers {
        if let Some(value) = object.pointer_mut(pointer) {
            *value = json!("<allocated>");
        }
    }
}

fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    let field = field.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(&field)),
        Some(Value::Array(list)) => {
            if let Some(at) = field.parse().ok().filter(|at| *at < list.len()) {
                list.remove(at);
            }
        }
        _ => {}
    }
}

/// Texts that are replaced wherever they stand.
struct Texts(Vec<(String, String)>);

impl Texts {
    fn collect(found: &[(String, Value)], how: &Dumper) -> Self {
        let mut uids = BTreeMap::new();
        let mut hashes = BTreeSet::new();
        for (kind, object) in found {
            let meta = &object["metadata"];
            if let Some(uid) = meta["uid"].as_str() {
                uids.insert(uid.to_owned(), format!("<uid of {kind} {}>", meta["name"].as_str().unwrap_or_default()));
            }
            for hash in HASHES.iter().filter_map(|label| meta["labels"][label].as_str()) {
                hashes.insert(hash.rsplit('-').next().unwrap_or(hash).to_owned());
            }
            let revisions = ["currentRevision", "updateRevision"].map(|f| object["status"][f].as_str());
            let hash = |revision: &str| revision.rsplit('-').next().map(str::to_owned);
            hashes.extend(revisions.into_iter().flatten().filter(|_| kind == "StatefulSet.apps").filter_map(hash));
        }
        let hashes = hashes.into_iter().filter(|h| h.len() > 4).map(|h| (h, "<hash>".to_owned()));
        let mut renames = how.rename.clone();
        // Longer ones first: one may contain another.
        renames.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        let mut all: Vec<_> = uids.into_iter().chain(hashes).chain(renames).collect();
        all.retain(|(from, _)| !from.is_empty());
        let texts = Self(all);
        let digests: Vec<_> = found.iter().filter_map(|(kind, object)| texts.digest(kind, object)).collect();
        Self([texts.0, digests].concat())
    }

    /// The digest in a ConfigMap's name, `x-config-0123456789ab`, and that of its masked content: what is equal but for masked texts has
    /// one name.
    fn digest(&self, kind: &str, object: &Value) -> Option<(String, String)> {
        let name = object["metadata"]["name"].as_str().filter(|_| kind == "ConfigMap")?;
        let digest = &name[digest_in(name)?..];
        let mut data = object["data"].clone();
        self.apply(&mut data);
        let masked =
            hash(data.to_string().as_bytes()).trim_start_matches("sha256:").chars().take(12).collect::<String>();
        Some((digest.to_owned(), format!("<{masked}>")))
    }

    fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) if is_time(text) => "<time>".clone_into(text),
            Value::String(text) => *text = self.replace(text),
            Value::Array(list) => list.iter_mut().for_each(|v| self.apply(v)),
            Value::Object(map) => {
                map.values_mut().for_each(|v| self.apply(v));
                let renamed = std::mem::take(map).into_iter().map(|(k, v)| (self.replace(&k), v));
                *map = renamed.collect();
            }
            _ => {}
        }
    }

    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.0 {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        text
    }
}

/// `2026-01-02T03:04:05Z`, with or without a fraction or an offset.
fn is_time(text: &str) -> bool {
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let fits = |(c, s): (&u8, &u8)| if *s == b'd' { c.is_ascii_digit() } else { c == s };
    let rest = text.get(shape.len()..).unwrap_or_default();
    bytes.len() > shape.len()
        && bytes.iter().zip(shape).all(fits)
        && rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ':' | '+' | '-' | 'Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_known_by_their_shape() {
        assert!(is_time("2026-01-02T03:04:05Z") && is_time("2026-01-02T03:04:05.123456+01:00"));
        assert!(!is_time("2026-01-02") && !is_time("2026-01-02T03:04:05 or so") && !is_time("v1.36.3"));
    }

    #[test]
    fn what_differs_between_equal_runs_is_masked() {
        let object = |ns: &str, uid: &str, hash: &str| {
            let pod = json!({
                "metadata": {"name": format!("api-{hash}-0"), "namespace": ns, "uid": uid, "resourceVersion": uid,
                    "labels": {"pod-template-hash": hash}, "annotations": {"at": "2026-01-02T03:04:05Z"}},
                "spec": {"args": [format!("--of={ns}.svc"), format!("--uid={uid}")]},
                "status": {"podIP": uid},
            });
            let secret = json!({"metadata": {"name": "ca", "namespace": ns}, "data": {"tls.key": "YWJj", "none": ""}});
            let how = Dumper::of([ns]).rename(ns, "NS");
            let map =
                json!({"metadata": {"name": format!("api-config-{hash}00"), "namespace": ns}, "data": {"of": ns}});
            mask(vec![("Pod".into(), pod), ("Secret".into(), secret), ("ConfigMap".into(), map)], &how)
        };
        let one = object("ns-1", "1111-2222", "abcdef1234");
        assert_eq!(one, object("ns-2", "3333-4444", "fedcba9876"));
        assert!(one.keys().any(|key| key.starts_with("NS/ConfigMap/api-config-<")), "{:?}", one.keys());
        assert_eq!(one["NS/Secret/ca"]["data"], json!({"tls.key": "<present>", "none": "<empty>"}));
        assert_eq!(one["NS/Pod/api-<hash>-0"]["spec"]["args"][1], "--uid=<uid of Pod api-<hash>-0>");
    }
}
