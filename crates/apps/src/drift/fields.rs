//! Fields of objects: which differ, and which others may change. Pure.

use berth_contract::apps::{Ignored, Object};
use serde_json::Value;

/// What an API server and controllers write by themselves.
const NOT_OURS: [&str; 7] = [
    "/status",
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/resourceVersion",
    "/metadata/selfLink",
    "/metadata/uid",
];

/// Fields that differ, as JSON pointers in their order, without those that others may change.
pub(super) fn differing(live: &Value, wanted: &Value, ignored: &[&str]) -> Vec<String> {
    let mut all = vec![];
    compare(live, wanted, "", &mut all);
    let is_within =
        |path: &str, of: &str| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    all.retain(|path| !NOT_OURS.iter().chain(ignored).any(|of| is_within(path, of)));
    all.sort_unstable();
    all
}

fn compare(live: &Value, wanted: &Value, at: &str, all: &mut Vec<String>) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let keys = live.keys().chain(wanted.keys().filter(|key| !live.contains_key(*key)));
            for key in keys {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                compare(&of(live), &of(wanted), &at, all);
            }
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() => {
            for (n, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                compare(live, wanted, &format!("{at}/{n}"), all);
            }
        }
        _ if live != wanted => all.push(at.to_owned()),
        _ => {}
    }
}

/// What of an object others may change: None: all of it.
pub(super) fn ignored<'a>(object: &Object, all: &'a [Ignored]) -> Option<Vec<&'a str>> {
    let is_any = |said: &str, it: &str| said.is_empty() || said == it;
    let fits = |rule: &&Ignored| {
        rule.kind == object.kind && is_any(&rule.name, &object.name) && is_any(&rule.namespace, &object.namespace)
    };
    let fitting: Vec<&Ignored> = all.iter().filter(fits).collect();
    if fitting.iter().any(|rule| rule.paths.is_empty()) {
        return None;
    }
    Some(fitting.into_iter().flat_map(|rule| rule.paths.iter().map(String::as_str)).collect())
}

/// An object as it would be applied, with what is there in fields that others may change: if they were left out, Helm would give them up, and they
/// would be gone where nobody else owns them.
pub(super) fn kept(mut wanted: Value, live: &Value, ignored: &[&str]) -> Value {
    for pointer in ignored {
        let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
        keep(&mut wanted, live, &keys.collect::<Vec<_>>());
    }
    wanted
}

fn keep(wanted: &mut Value, live: &Value, keys: &[String]) {
    let Some((key, rest)) = keys.split_first() else { return };
    let there = beside(wanted, live, key);
    let inner = match wanted {
        Value::Object(fields) if rest.is_empty() && there.is_none() => {
            fields.remove(key);
            None
        }
        Value::Object(fields) => fields.get_mut(key),
        Value::Array(items) => key.parse().ok().and_then(|n: usize| items.get_mut(n)),
        _ => None,
    };
    match (inner, there) {
        (Some(inner), Some(there)) if rest.is_empty() => *inner = there.clone(),
        (Some(inner), Some(there)) => keep(inner, there, rest),
        _ => {}
    }
}

/// What is there in the place of a field. An entry of a list is known by its name, if it has one: others may have added some before it.
fn beside<'l>(wanted: &Value, live: &'l Value, key: &str) -> Option<&'l Value> {
    let Value::Array(items) = wanted else { return live.get(key) };
    let n: usize = key.parse().ok()?;
    match items.get(n)?["name"].as_str() {
        Some(name) => live.as_array()?.iter().find(|item| item["name"] == name),
        None => live.get(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_named_without_what_the_server_writes() {
        let live = json!({
            "metadata": {"uid": "a", "generation": 2, "annotations": {"example.com/a": "1"}},
            "spec": {"replicas": 1, "ports": [{"port": 1}, {"port": 2}], "args": ["a"]}, "status": {"ready": 1},
        });
        let mut wanted = live.clone();
        wanted["metadata"]["generation"] = 3.into();
        wanted["metadata"]["annotations"]["example.com/a"] = "2".into();
        wanted["status"] = Value::Null;
        wanted["spec"]["ports"][1]["port"] = 3.into();
        wanted["spec"]["args"] = json!(["a", "b"]);
        let all = ["/metadata/annotations/example.com~1a", "/spec/args", "/spec/ports/1/port"];
        assert_eq!(differing(&live, &wanted, &[]), all);
        assert_eq!(differing(&live, &wanted, &["/spec/ports", "/spec/arg"]), all[..2]);
        assert_eq!(differing(&live, &live, &[]), [""; 0]);
        let less = json!({"metadata": live["metadata"].clone(), "spec": {"replicas": 1}});
        assert_eq!(differing(&less, &wanted, &["/metadata"]), ["/spec/args", "/spec/ports"]);
    }

    #[test]
    fn what_others_may_change_stays_as_it_is_there() {
        let wanted =
            json!({"spec": {"replicas": 1, "class": "a", "containers": [{"name": "c", "image": "1", "args": ["x"]}]}});
        let live = json!({"spec": {"replicas": 5, "containers": [{"name": "injected"}, {"name": "c", "image": "2"}]}});
        let all =
            ["/spec/replicas", "/spec/class", "/spec/containers/0/image", "/spec/other", "/spec/containers/7/image"];
        let expected = json!({"spec": {"replicas": 5, "containers": [{"name": "c", "image": "2", "args": ["x"]}]}});
        assert_eq!(kept(wanted.clone(), &live, &all), expected);
        assert_eq!(kept(wanted.clone(), &json!({}), &["/spec/containers/0/image"]), wanted, "it is not there at all");
    }

    #[test]
    fn what_others_may_change_is_named_by_kind_name_and_namespace() {
        let object = |name: &str| Object { kind: "Secret".into(), namespace: "shop".into(), name: name.into() };
        let rule = |name: &str, paths: &[&str]| Ignored {
            kind: "Secret".into(),
            name: name.into(),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            ..Ignored::default()
        };
        let all = [rule("a", &["/data"]), rule("", &["/type"]), rule("b", &[])];
        assert_eq!(ignored(&object("a"), &all), Some(vec!["/data", "/type"]));
        assert_eq!(ignored(&object("b"), &all), None, "all of it");
        assert_eq!(ignored(&object("c"), &all), Some(vec!["/type"]));
        let elsewhere = Object { namespace: "other".into(), ..object("a") };
        let there = Ignored { namespace: "shop".into(), ..rule("a", &["/data"]) };
        assert_eq!(ignored(&elsewhere, &[there]), Some(vec![]));
    }
}
