//! Sets of fields as `managedFields` have them (`fieldsV1`), held against an object.

use serde_json::{Map, Value};

/// What `kubectl rollout restart` writes. It adds nothing to the pods.
const KEPT: [&str; 1] = ["spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"];

/// Of these people choose the keys.
const FREE_KEYS: [&str; 6] = ["annotations", "labels", "matchLabels", "nodeSelector", "limits", "requests"];

/// Takes those fields out of `set` that `want` does not have, and puts their paths into `found`. `at`: where `want` is.
pub(super) fn take_unset(
    set: &mut Map<String, Value>,
    want: &Value,
    at: &str,
    found: &mut Vec<String>,
) -> Map<String, Value> {
    let mut taken = Map::new();
    let keys: Vec<String> = set.keys().filter(|key| *key != ".").cloned().collect();
    for key in keys {
        let path = step(at, &key);
        if is_kept(&path) {
            continue;
        }
        // Something of it stays.
        let partly = KEPT.iter().any(|kept| kept.starts_with(&path));
        let Some(want) = child(want, &key).or(partly.then_some(&Value::Null)) else {
            let whole = set.remove(&key).unwrap_or_default();
            name(&whole, &path, found);
            taken.insert(key, whole);
            continue;
        };
        let Some(inner) = set.get_mut(&key).and_then(Value::as_object_mut) else { continue };
        let below = take_unset(inner, want, &path, found);
        if !below.is_empty() {
            if inner.is_empty() {
                set.remove(&key);
            }
            taken.insert(key, below.into());
        }
    }
    taken
}

/// Both sets together.
pub(super) fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key).and_then(Value::as_object_mut), value) {
            (Some(into), Value::Object(value)) => merge(into, value),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// Writers that are noted for a field, or for all that it is in. `steps`: names of fields, and of items by one of their keys.
pub(super) fn writers<'a>(live: &'a Value, steps: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let has = move |entry: &&Value| {
        let mut set = &entry["fieldsV1"];
        for step in steps {
            let of_item = |key: &str| {
                let keys =
                    key.strip_prefix("k:").and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
                keys.is_some_and(|keys| keys.values().any(|value| value == step))
            };
            let Some(fields) = set.as_object() else { return false };
            let below =
                fields.get(&format!("f:{step}")).or_else(|| Some(fields.iter().find(|(key, _)| of_item(key))?.1));
            match below {
                Some(below) => set = below,
                // Of a list that is set as a whole, and of a map, no more is noted.
                None => return fields.is_empty(),
            }
        }
        true
    };
    let all = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let all = all.filter(|entry| entry["subresource"].is_null()).filter(has);
    all.filter_map(|entry| entry["manager"].as_str())
}

/// Paths of what `live` has and `want` has not, as far as no API server adds such by itself: items with names, free keys, and the
/// node's namespaces.
pub(super) fn extra(live: &Value, want: &Value, at: &str, found: &mut Vec<String>) {
    match (live, want) {
        (Value::Object(live), _) => {
            let free = last(at).is_some_and(|name| FREE_KEYS.contains(&name));
            for (key, live) in live {
                let path = step(at, &format!("f:{key}"));
                match want.get(key) {
                    Some(want) => extra(live, want, &path, found),
                    None if is_kept(&path) => {}
                    None if free || (key.starts_with("host") && live == true) => found.push(path),
                    None if live.is_array() || FREE_KEYS.contains(&&**key) => extra(live, &Value::Null, &path, found),
                    None => {}
                }
            }
        }
        // Of ports the names are no keys.
        (Value::Array(live), _) if last(at) != Some("ports") => {
            let key = match last(at) {
                Some("volumeMounts") => "mountPath",
                Some("hostAliases") => "ip",
                _ => "name",
            };
            for live in live {
                let Some(name) = live[key].as_str() else { continue };
                let path = format!("{at}[{name}]");
                match want.as_array().into_iter().flatten().find(|w| w[key] == name) {
                    Some(want) => extra(live, want, &path, found),
                    None => found.push(path),
                }
            }
        }
        _ => {}
    }
}

fn is_kept(path: &str) -> bool {
    KEPT.contains(&path)
}

/// The paths in a set: of an item of a list only the item's own.
fn name(set: &Value, at: &str, found: &mut Vec<String>) {
    let fields = || set.as_object().into_iter().flatten().filter(|(key, _)| *key != ".");
    if at.ends_with(']') || fields().next().is_none() {
        return found.push(at.to_owned());
    }
    for (key, below) in fields() {
        name(below, &step(at, key), found);
    }
}

/// What `want` has there; keys of a list's item may be defaults, such as a port's protocol, which it leaves out.
fn child<'a>(want: &'a Value, key: &str) -> Option<&'a Value> {
    let (kind, text) = key.split_once(':')?;
    let value = || serde_json::from_str::<Value>(text).ok();
    let items = || want.as_array().into_iter().flatten();
    match kind {
        "f" => want.get(text),
        "k" => {
            let keys = value()?;
            let keys = keys.as_object()?;
            items().find(|item| keys.iter().all(|(k, v)| item.get(k).is_none_or(|has| has == v)))
        }
        "v" => value().and_then(|value| items().find(|item| **item == value)),
        _ => want.get(text.parse::<usize>().ok()?),
    }
}

/// The path of a key of a set, as people write it: `containers[etcd].env[A]`.
fn step(at: &str, key: &str) -> String {
    let (kind, text) = key.split_once(':').unwrap_or(("f", key));
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let item = match (kind, serde_json::from_str::<Value>(text)) {
        ("f", _) if !last(at).is_some_and(|name| FREE_KEYS.contains(&name)) => return format!("{at}.{text}"),
        ("k", Ok(Value::Object(keys))) => keys.values().map(plain).collect::<Vec<_>>().join("/"),
        ("v", Ok(value)) => plain(&value),
        _ => text.to_owned(),
    };
    format!("{at}[{item}]")
}

/// The names on the way of a path as people write it.
pub(super) fn steps(path: &str) -> Vec<&str> {
    let (mut all, mut rest) = (vec![], path);
    while !rest.is_empty() {
        let (one, after) = match rest.strip_prefix('[') {
            Some(item) => item.split_once(']').unwrap_or((item, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        all.push(one);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    all
}

fn last(path: &str) -> Option<&str> {
    path.rsplit('.').next().filter(|name| !name.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(set: Value, want: &Value) -> (Vec<String>, Value, Value) {
        let Value::Object(mut set) = set else { panic!("no set") };
        let mut found = vec![];
        let taken = take_unset(&mut set, want, "spec", &mut found);
        (found, taken.into(), set.into())
    }

    #[test]
    fn what_is_set_stays_and_the_rest_is_taken_with_its_path() {
        let want = json!({"replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "etcd", "args": ["x"], "ports": [{"containerPort": 1}], "env": [{"name": "A"}]}]}}});
        let container = json!({
            ".": {}, "f:name": {}, "f:args": {}, "f:tty": {},
            "f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}}, "k:{\"name\":\"B\"}": {".": {}, "f:name": {}, "f:value": {}}},
            "f:ports": {"k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:hostPort": {}}},
        });
        let set = json!({"f:replicas": {}, "f:template": {
            "f:metadata": {"f:labels": {"f:a": {}, "f:x.y/z": {}}},
            "f:spec": {"f:hostNetwork": {}, "f:containers": {"k:{\"name\":\"etcd\"}": container, "k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}},
        }});
        let (mut found, taken, left) = taken(set.clone(), &want);
        found.sort();
        assert_eq!(
            found,
            [
                "spec.template.metadata.labels[x.y/z]",
                "spec.template.spec.containers[etcd].env[B]",
                "spec.template.spec.containers[etcd].ports[1/TCP].hostPort",
                "spec.template.spec.containers[etcd].tty",
                "spec.template.spec.containers[x]",
                "spec.template.spec.hostNetwork",
            ]
        );
        let Value::Object(mut again) = left.clone() else { panic!("no set") };
        assert!(take_unset(&mut again, &want, "spec", &mut vec![]).is_empty(), "{left}");
        let (Value::Object(mut both), Value::Object(taken)) = (left, taken) else { panic!("no sets") };
        merge(&mut both, taken);
        assert_eq!(Value::Object(both), set, "nothing is lost");
    }

    #[test]
    fn writers_of_a_field_are_found() {
        let entry =
            |manager: &str, set: Value| json!({"manager": manager, "fieldsV1": {"f:spec": {"f:containers": set}}});
        let of = |name: &str, set: Value| json!({(format!("k:{{\"name\":\"{name}\"}}")): set});
        let live = json!({"metadata": {"managedFields": [
            entry("berth", of("a", json!({".": {}, "f:image": {}, "f:resources": {"f:requests": {"f:cpu": {}}}}))),
            entry("whole", of("a", json!({".": {}, "f:resources": {}}))),
            entry("other", of("b", json!({".": {}, "f:image": {}}))),
            {"manager": "status", "subresource": "status", "fieldsV1": {"f:spec": {}}},
        ]}});
        let of = |steps: &[&str]| {
            let steps = [&["spec", "containers"], steps].concat();
            writers(&live, &steps).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(&["a", "image"]), ["berth"]);
        assert_eq!(of(&["b", "image"]), ["other"]);
        assert_eq!(of(&["a", "resources", "requests", "cpu"]), ["berth", "whole"]);
        assert_eq!(of(&["a", "resources", "limits"]), ["whole"]);
        assert_eq!(of(&["c", "image"]), [""; 0]);
        assert_eq!(writers(&json!({}), &["spec"]).count(), 0);
    }

    #[test]
    fn a_restart_is_no_addition_whatever_else_is_beside_it() {
        let annotations = |more: Value| {
            let mut all = json!({".": {}, "f:kubectl.kubernetes.io/restartedAt": {}});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"f:template": {"f:metadata": {"f:annotations": all}}})
        };
        for want in [json!({}), json!({"template": {"metadata": {"annotations": {"sum": "1"}}}})] {
            assert_eq!(taken(annotations(json!({})), &want), (vec![], json!({}), annotations(json!({}))));
            let (found, taken, left) = taken(annotations(json!({"f:x": {}})), &want);
            assert_eq!(found, ["spec.template.metadata.annotations[x]"]);
            assert_eq!(taken, json!({"f:template": {"f:metadata": {"f:annotations": {"f:x": {}}}}}));
            assert_eq!(left, annotations(json!({})));
        }
    }

    #[test]
    fn of_what_nobody_wrote_only_what_no_api_server_defaults_is_extra() {
        let want = json!({
            "containers": [{"name": "etcd", "image": "i"}], "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        });
        let live = json!({
            "dnsPolicy": "ClusterFirst", "securityContext": {}, "hostPID": true, "hostNetwork": false,
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "fd00::1", "hostnames": ["b"]}],
            "volumes": [{"name": "v"}], "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "t"}],
            "containers": [
                {"name": "etcd", "image": "i", "terminationMessagePath": "/dev/termination-log", "env": [{"name": "A"}],
                    "ports": [{"name": "p", "containerPort": 1}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                {"name": "proxy"},
            ],
        });
        let mut found = vec![];
        extra(&live, &want, "spec", &mut found);
        found.sort();
        let expected = [
            "spec.containers[etcd].env[A]",
            "spec.containers[etcd].volumeMounts[/v]",
            "spec.containers[proxy]",
            "spec.hostAliases[fd00::1]",
            "spec.hostPID",
            "spec.nodeSelector[disk]",
            "spec.volumes[v]",
        ];
        assert_eq!(found, expected);
        assert_eq!(steps(&found[1]), ["spec", "containers", "etcd", "volumeMounts", "/v"]);
        assert_eq!(steps("spec.nodeSelector[a.b/c]"), ["spec", "nodeSelector", "a.b/c"]);
        assert_eq!(steps("spec.containers[x].resources.limits[cpu]").len(), 6);
    }
}
