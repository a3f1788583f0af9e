//! What another rendering of a chart changes: objects, and the pods that are replaced for it.

use crate::paint::{faint, good, safe, warn};
use crate::plan::paths;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Kinds whose pods are replaced when their template changes.
const ROLLED: [&str; 3] = ["DaemonSet", "Deployment", "StatefulSet"];

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum What {
    Create,
    Change,
    Delete,
}

/// One object that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Change {
    pub(super) what: What,
    pub(super) object: String,
    /// Fields, with both values where they are short. Those of Secrets are not shown.
    pub(super) differences: Vec<String>,
    /// Pods of it are replaced.
    pub(super) restarts: bool,
    /// The chart makes something of it anew at each rendering, such as a password.
    pub(super) anew: bool,
}

/// Of one `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Foreseen {
    /// Objects that change.
    pub(super) objects: Vec<Change>,
    /// Why they cannot be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// What is another one when the release goes from the objects `old` to `new`. `again`: `new`, rendered once more. Objects without a
/// namespace are in `namespace`, or in none.
pub(super) fn changes(old: &[Value], new: &[Value], again: &[Value], namespace: &str) -> Vec<Change> {
    let (old, new, again) = (by_name(old, namespace), by_name(new, namespace), by_name(again, namespace));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let change = |name: &String| {
        let (before, after) = (old.get(name).copied(), new.get(name).copied());
        let anew = after.is_some_and(|after| again.get(name).copied() != Some(after));
        let of = |what, differences, restarts| Change { what, object: name.clone(), differences, restarts, anew };
        match (before, after) {
            (Some(before), Some(after)) if before == after => None,
            (Some(before), Some(after)) => {
                let rolled = ROLLED.iter().any(|kind| after["kind"] == *kind);
                let restarts = rolled && before["spec"]["template"] != after["spec"]["template"];
                Some(of(What::Change, differences(before, after), restarts))
            }
            (None, Some(_)) => Some(of(What::Create, vec![], false)),
            (Some(_), None) => Some(of(What::Delete, vec![], false)),
            (None, None) => None,
        }
    };
    names.into_iter().filter_map(change).collect()
}

/// The objects of a list, or the one. What has no name gets another one each time.
pub(super) fn flat(object: Value) -> Vec<Value> {
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object["items"].as_array().filter(|_| is_list) {
        Some(items) => items.iter().cloned().flat_map(flat).collect(),
        None if object["metadata"]["name"].is_string() => vec![object],
        None => vec![],
    }
}

/// A block for each set of changes, with the `Cluster`s that have it: most have the same.
pub(super) fn text(all: &[(&str, &Foreseen)]) -> String {
    let mut blocks: Vec<(Vec<&str>, &Foreseen)> = vec![];
    for (cluster, of) in all {
        match blocks.iter_mut().find(|(_, known)| known == of) {
            Some((clusters, _)) => clusters.push(cluster),
            None => blocks.push((vec![cluster], of)),
        }
    }
    let mut text = String::new();
    for (clusters, of) in blocks {
        let _ = write!(text, "\n{}\n{}", safe(&clusters.join(", ")), block(of));
    }
    text
}

fn block(of: &Foreseen) -> String {
    if let Some(problem) = &of.problem {
        return format!("  {} {}\n", warn("not known:"), safe(problem));
    }
    if of.objects.is_empty() {
        return format!("  {}\n", good("no object changes"));
    }
    let line = |change: &Change| {
        let what = match change.what {
            What::Create => "create",
            What::Change => "change",
            What::Delete => "delete",
        };
        let restarts = if change.restarts { format!("  {}", warn("its pods restart")) } else { String::new() };
        let anew = if change.anew { "  made anew at each rendering" } else { "" };
        let mut text = format!("  {what} {}{restarts}{anew}\n", safe(&change.object));
        for difference in &change.differences {
            let _ = writeln!(text, "    {}", faint(difference));
        }
        text
    };
    of.objects.iter().map(line).collect()
}

/// By kind, group, namespace and name, as a person reads them.
fn by_name<'a>(objects: &'a [Value], namespace: &str) -> BTreeMap<String, &'a Value> {
    let text = |object: &Value, at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = |object: &Value| {
        let group = text(object, "/apiVersion");
        let group = group.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
        let own = text(object, "/metadata/namespace");
        let namespace = if own.is_empty() { namespace } else { &own };
        format!("{}{group} {namespace}/{}", text(object, "/kind"), text(object, "/metadata/name"))
    };
    objects.iter().map(|object| (name(object), object)).collect()
}

/// Fields that are said otherwise, added, or left out by now.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    if new["kind"] == "Secret" {
        let fields = |object: &Value| -> BTreeSet<String> {
            object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
        };
        let keys: BTreeSet<String> = fields(old).union(&fields(new)).cloned().collect();
        return keys.into_iter().filter(|key| old[key] != new[key]).map(|key| format!(".{key} differs")).collect();
    }
    let mut all = paths::differences(old, new);
    all.extend(left_out(old, new, ""));
    if all.is_empty() {
        all.push("the order of its lists, or how a value is written".to_owned());
    }
    all
}

/// Paths of `old` that `new` does not have.
fn left_out(old: &Value, new: &Value, path: &str) -> Vec<String> {
    let empty = json!({});
    let (Value::Object(old), new) = (old, if new.is_object() { new } else { &empty }) else { return vec![] };
    old.iter()
        .flat_map(|(name, value)| match new.get(name) {
            None => vec![format!("{path}.{name}: removed")],
            Some(now) if value.is_object() && now.is_object() => left_out(value, now, &format!("{path}.{name}")),
            Some(_) => vec![],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, image: &str, replicas: i32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
        })
    }

    #[test]
    fn objects_come_change_and_go_and_pods_restart_by_their_template_alone() {
        let map =
            |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "x"}});
        let old = [workload("Deployment", "a:1", 1), workload("DaemonSet", "a:1", 1), map("gone"), map("same")];
        let new = [workload("Deployment", "a:2", 1), workload("DaemonSet", "a:1", 2), map("new"), map("same")];
        let found = changes(&old, &new, &new, "shop");
        let lines: Vec<_> = found
            .iter()
            .map(|c| format!("{:?} {} {:?} {}{}", c.what, c.object, c.differences, c.restarts, c.anew))
            .collect();
        assert_eq!(
            lines,
            [
                "Delete ConfigMap x/gone [] falsefalse",
                "Create ConfigMap x/new [] falsefalse",
                "Change DaemonSet.apps shop/web [\".spec.replicas: 1 → 2\"] falsefalse",
                "Change Deployment.apps shop/web [\".spec.template.spec.containers[0].image: a:1 → a:2\"] truefalse",
            ]
        );
        assert_eq!(changes(&new, &new, &new, "shop"), []);
    }

    #[test]
    fn clusters_with_the_same_changes_have_one_block() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        let list = json!({"kind": "ConfigMapList", "items": [map, {"kind": "X"}]});
        let objects = changes(&[], &flat(list), &[], "shop");
        let (same, other) =
            (Foreseen { objects, problem: None }, Foreseen { problem: Some("no chart".into()), ..Foreseen::default() });
        let text = text(&[("team-a/a", &same), ("team-a/b", &other), ("team-a/c", &same)]);
        let expected = "\nteam-a/a, team-a/c\n  create ConfigMap shop/m  made anew at each rendering\n\nteam-a/b\n  not known: no chart\n";
        assert_eq!(crate::paint::plain(&text), expected);
    }

    #[test]
    fn what_is_left_out_is_said_and_values_of_secrets_are_not() {
        let map =
            |data: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        let (old, new) = (map(&json!({"a": "1", "b": "2"})), map(&json!({"a": "1"})));
        let found = changes(&[old], std::slice::from_ref(&new), std::slice::from_ref(&new), "shop");
        assert_eq!(found[0].differences, [".data.b: removed"]);
        let secret =
            |text: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": text}});
        let found = changes(&[secret("b2xk")], &[secret("bmV3")], &[secret("b3RoZXI=")], "shop");
        assert_eq!((found[0].differences.clone(), found[0].anew), (vec![".data differs".to_owned()], true));
    }
}
