//! Whether a value that was accepted is seen in what changed.

use super::subject::Kind;
use super::table::{Effect, Table};
use super::{Case, place};
use anyhow::{Result, ensure};
use berth_api::cluster::ClusterSpec;
use berth_api::etcd_cluster::EtcdClusterSpec;
use berth_plan_cluster::components;
use berth_testkit::oracle::Change;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// Whether a spec that was stored is seen in what changed.
pub(super) fn effect(kind: Kind, table: &Table, case: &Case, stored: &Value, changed: &[Change]) -> Result<()> {
    let effect = table.effect(&case.field.path).expect("every field has a row");
    let (Effect::At(at) | Effect::Changes(at)) = effect else { return Ok(()) };
    let there: Vec<&Change> = changed.iter().filter(|c| place(c).contains(at)).collect();
    let places = || changed.iter().map(place).collect::<Vec<_>>().join("\n");
    if meaning(kind, stored) == meaning(kind, &case.without) {
        return Ok(());
    }
    ensure!(!there.is_empty(), "accepted, and nothing changed at {at}; changed:\n{}", places());
    // Nothing given is the default.
    let default = case.value.value.is_null() || case.value.value == case.field.schema["default"];
    if default || matches!(effect, Effect::Changes(_)) {
        return Ok(());
    }
    for leaf in leaves(&case.value.value) {
        ensure!(
            there.iter().any(|c| shows(&leaf, c)),
            "accepted, and {leaf} is not seen at {at}; changed:\n{}",
            places()
        );
    }
    Ok(())
}

/// What a spec asks for: defaults in place of what is not given, and without what is empty and asks for nothing.
fn meaning(kind: Kind, spec: &Value) -> Value {
    let filled = match kind {
        Kind::Cluster => ClusterSpec::deserialize(spec).and_then(serde_json::to_value),
        Kind::Etcd => EtcdClusterSpec::deserialize(spec).and_then(serde_json::to_value),
    };
    let mut spec = filled.unwrap_or_else(|_| spec.clone());
    if kind == Kind::Cluster {
        for field in components::ALL.map(components::Component::field) {
            if spec[field]["replicas"].is_null() {
                spec[field]["replicas"] = spec["replicas"].clone();
            }
        }
    }
    without_empty(&mut spec);
    spec
}

fn without_empty(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_empty),
        Value::Object(map) => {
            map.values_mut().for_each(without_empty);
            map.retain(|_, v| !v.is_null() && *v != json!({}) && *v != json!([]));
        }
        _ => {}
    }
}

/// What of a value can be found again.
fn leaves(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.iter().flat_map(leaves).collect(),
        Value::Object(map) => map.iter().flat_map(|(_, v)| leaves(v)).collect(),
        Value::Null | Value::Bool(_) => vec![],
        Value::String(text) if text.trim().is_empty() => vec![],
        other => vec![other.clone()],
    }
}

fn shows(leaf: &Value, change: &Change) -> bool {
    fn within(leaf: &Value, value: &Value) -> bool {
        match (leaf, value) {
            (_, Value::Object(map)) => {
                map.iter().any(|(k, v)| within(leaf, v) || leaf.as_str().is_some_and(|l| k.contains(l)))
            }
            (_, Value::Array(list)) => list.iter().any(|v| within(leaf, v)),
            (Value::String(leaf), Value::String(text)) => text.contains(&**leaf),
            (Value::Number(leaf), Value::String(text)) => {
                text.split(|c: char| !c.is_ascii_digit()).any(|word| word == leaf.to_string())
            }
            (leaf, value) => leaf == value,
        }
    }
    within(leaf, &change.after) || leaf.as_str().is_some_and(|l| change.path.contains(l))
}

/// A client that is taken away has no name that could be found again.
#[test]
fn what_is_emptied_has_to_be_seen() {
    let (kind, table) = (Kind::Etcd, Table::new(Kind::Etcd));
    let case = |path: &str, value: Value| {
        let all = super::cases(kind, &table);
        all.into_iter().find(|c| c.field.path == path && c.value.value == value).expect("a case")
    };
    let gone = Change {
        object: "TEAM/Secret/acme-client-app".into(),
        path: String::new(),
        before: json!({"data": {}}),
        after: Value::Null,
    };
    for value in [json!([]), Value::Null] {
        let emptied = case("clients", value);
        let stored = json!({"version": "3.6.16", "replicas": 1, "clients": []});
        assert!(effect(kind, &table, &emptied, &stored, &[]).is_err(), "nothing changed");
        effect(kind, &table, &emptied, &stored, std::slice::from_ref(&gone)).expect("its Secret is gone");
        effect(kind, &table, &emptied, &kind.first(), &[]).expect("nothing is emptied");
    }
    // What is empty as before asks for nothing.
    let empty = case("placement", json!({}));
    let mut stored = kind.first();
    stored["placement"] = json!({"antiAffinity": "Preferred", "tolerations": [], "nodeSelector": {}});
    effect(kind, &table, &empty, &stored, &[]).expect("the default");
    stored["placement"]["antiAffinity"] = json!("Required");
    assert!(effect(kind, &table, &empty, &stored, &[]).is_err());
    // A component has as many replicas as the whole unless it says so.
    let (kind, table) = (Kind::Cluster, Table::new(Kind::Cluster));
    let cases = super::cases(kind, &table);
    for (number, seen) in [(1, true), (10, false)] {
        let of = |c: &&Case| c.field.path == "scheduler.replicas" && c.value.value == number;
        let case = cases.iter().find(of).expect("a case");
        assert_eq!(effect(kind, &table, case, &case.spec, &[]).is_ok(), seen, "{number}");
    }
}
