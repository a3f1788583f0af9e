//! docs/status-fields.md has every field of `status -o json`, with its type: for one and for many.

use super::super::sizes::tests::sizes;
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Types by path: `etcd.members[].name`.
type Fields = BTreeMap<String, BTreeSet<&'static str>>;

fn walk(value: &Value, path: &str, all: &mut Fields) {
    let mut put = |type_| {
        all.entry(path.to_owned()).or_default().insert(type_);
    };
    match value {
        Value::Null => put("null"),
        Value::Bool(_) => put("boolean"),
        Value::Number(_) => put("number"),
        Value::String(text) if text.parse::<Timestamp>().is_ok() => put("time"),
        Value::String(_) => put("string"),
        Value::Array(items) => {
            put("list");
            for item in items {
                walk(item, &format!("{path}[]"), all);
            }
        }
        Value::Object(fields) => {
            if !path.is_empty() {
                put("object");
            }
            let dot = if path.is_empty() { "" } else { "." };
            for (name, value) in fields {
                walk(value, &format!("{path}{dot}{name}"), all);
            }
        }
    }
}

/// Every field with a value, and every one without that may lack one.
fn samples() -> Vec<Seen> {
    let mut full = healthy();
    let etcd = full.etcd.as_mut().unwrap().status.as_mut().unwrap();
    etcd.conditions = serde_json::from_value(json!([condition("Ready", "True", "AsExpected", "m")])).unwrap();
    let mut second = etcd.members[0].clone();
    (second.name, second.message) = ("etcd-1".into(), Some("m".into()));
    etcd.members.push(second);
    let image =
        json!({"containerStatuses": [{"name": "c", "image": "x", "state": {"waiting": {"reason": "ErrImagePull"}}}]});
    full.pods.extend([pod("kube-scheduler-1", "kube-scheduler", image.clone()), pod("etcd-1", "etcd", image)]);
    full.notes.push("not shown".into());
    full.sizes = sizes(true);
    full.cluster.status.as_mut().unwrap().hibernation = serde_json::from_value(asleep()).unwrap();

    let mut bare = Seen { sizes: sizes(false), ..healthy() };
    bare.cluster.status.as_mut().unwrap().components[0].version = None;
    let mut by_hand = asleep();
    by_hand["next"].take();
    bare.cluster.status.as_mut().unwrap().hibernation = serde_json::from_value(by_hand).unwrap();
    let etcd = bare.etcd.as_mut().unwrap().status.as_mut().unwrap();
    (etcd.version, etcd.ready_members) = (None, None);
    let mut without_pod = etcd.members[0].clone();
    without_pod.name = "etcd-9".into();
    etcd.members.push(without_pod);
    for pod in &mut bare.pods {
        pod["metadata"]["creationTimestamp"].take();
    }
    vec![full, bare, healthy(), seen(cluster(json!({})))]
}

/// As the page writes them: `string or null`, `list of object`.
fn written(fields: &Fields) -> BTreeMap<String, String> {
    let scalar = |path: &str| fields.get(path).into_iter().flatten().find(|t| **t != "null").copied();
    let one = |(path, types): (&String, &BTreeSet<&'static str>)| {
        let mut text = match scalar(path)? {
            "list" => format!("list of {}", scalar(&format!("{path}[]")).unwrap_or("nothing")),
            other => other.to_owned(),
        };
        if types.contains("null") {
            text.push_str(" or null");
        }
        (!path.ends_with("[]")).then(|| (path.clone(), text))
    };
    fields.iter().filter_map(one).collect()
}

/// The rows of the table below `| field | type |`.
fn documented() -> BTreeMap<String, String> {
    let page = include_str!("../../../../../docs/status-fields.md");
    let table = page.split_once("| field | type | |\n|---|---|---|\n").unwrap().1;
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let field = cells.next()?.trim_matches('`').to_owned();
        Some((field, cells.next()?.to_owned()))
    };
    table.lines().take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

#[test]
fn every_field_is_on_the_page_with_its_type() {
    let mut fields = Fields::new();
    for seen in samples() {
        walk(&same_in_both_forms(&report::report(&seen, now())), "", &mut fields);
    }
    assert_eq!(written(&fields), documented());
}

#[test]
fn each_of_many_is_as_one_of_which_no_more_could_be_read() {
    let object = cluster(status("Ready", &conditions(&[])));
    let clusters = [&object, &cluster(json!({}))].map(|object| serde_json::from_value(object.clone()).unwrap());
    let many = same_in_both_forms(&rows(clusters.into(), now()));
    assert_eq!(many[0], same_in_both_forms(&report::report(&seen(object), now())));
    let paths = |value: &Value| {
        let mut fields = Fields::new();
        walk(value, "", &mut fields);
        written(&fields)
    };
    let page = documented();
    for one in many.as_array().unwrap() {
        for (path, _) in paths(one) {
            assert!(page.contains_key(&path), "{path}");
        }
        // No field is left out: what is not known is null, or an empty list.
        let top = page.keys().filter(|path| !path.contains(['.', '[']));
        assert!(top.clone().all(|path| one.get(path).is_some()), "{one:#}");
    }
    assert_eq!(many[0]["endpoint"], "https://10.96.114.7:6443");
    assert_eq!(many[0]["conditions"].as_array().unwrap().len(), 7, "those that are well, too");
}
