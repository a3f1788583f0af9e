//! Does what is there mean what is asked for? An API server, and admission before it, may write the same in another way.

use super::same_image::{is_pinned, same_image};
use berth_api::quantity;
use serde_json::Value;
use std::ops::ControlFlow;

/// Where a value is: fields, and items of lists by what identifies them, else by their place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    above: Option<&'a At<'a>>,
    name: &'a str,
}

impl<'a> At<'a> {
    /// The object itself.
    pub(crate) const ROOT: At<'static> = At { above: None, name: "" };

    pub(crate) fn below(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), name }
    }

    /// The names on the way, from the object on.
    pub(crate) fn steps(&self) -> Vec<&'a str> {
        let Some(above) = self.above else { return vec![] };
        let mut steps = above.steps();
        steps.push(self.name);
        steps
    }

    fn is_quantity(&self) -> bool {
        quantity::is_at(self.name) || self.above.is_some_and(|above| quantity::are_below(above.name))
    }

    /// The image of a container, or of an image volume.
    fn is_image(&self) -> bool {
        self.name == "image" || (self.name == "reference" && self.above.is_some_and(|above| above.name == "image"))
    }
}

/// What is told of each difference: where, what is there, and what was asked for. Who has heard enough breaks.
pub(crate) type Tell<'t> = &'t mut dyn FnMut(&At<'_>, Option<&Value>, &Value) -> ControlFlow<()>;

/// Whether what is there is the image that is asked for, by a digest: for webhooks that resolve tags no difference, for others one.
pub(crate) fn is_only_pinned(at: &At<'_>, live: Option<&Value>, want: &Value) -> bool {
    at.is_image() && live.and_then(Value::as_str).zip(want.as_str()).is_some_and(|(live, want)| is_pinned(live, want))
}

/// Tells every field of `want` that `live` has otherwise, and each image that [`is_only_pinned`]. Fields that only `live` has are the API server's defaults or other writers'
/// business, and so are named items of lists that are found by name.
pub(crate) fn differences(at: &At<'_>, live: Option<&Value>, want: &Value, tell: Tell<'_>) -> ControlFlow<()> {
    match (live.filter(|live| !live.is_null() || want.is_null()), want) {
        (Some(live), want) if !want.is_object() && (live == want || means(at, live, want)) => ControlFlow::Continue(()),
        (None, want) if is_dropped(at.name, want) => ControlFlow::Continue(()),
        (Some(Value::Array(live)), Value::Array(want)) => lists(at, live, want, tell),
        (live @ (None | Some(Value::Object(_))), Value::Object(fields)) if live.is_some() || !fields.is_empty() => {
            fields.iter().try_for_each(|(name, want)| {
                differences(&at.below(name), live.and_then(|live| live.get(name)), want, tell)
            })
        }
        (live, want) => tell(at, live, want),
    }
}

fn means(at: &At<'_>, live: &Value, want: &Value) -> bool {
    match (live, want) {
        (Value::String(live), Value::String(want)) if at.is_image() => same_image(live, want) && !is_pinned(live, want),
        (Value::String(_) | Value::Number(_), Value::String(_) | Value::Number(_)) if at.is_quantity() => {
            quantity::same(live, want)
        }
        _ => false,
    }
}

/// Fields that an API server leaves out where they are false. Of others nothing is not false.
const FALSE_IS_NOTHING: [&str; 9] =
    ["hostIPC", "hostNetwork", "hostPID", "optional", "paused", "publishNotReadyAddresses", "readOnly", "stdin", "tty"];

/// What an API server drops on the way in.
fn is_dropped(name: &str, want: &Value) -> bool {
    match want {
        Value::Null => true,
        Value::Bool(want) => !want && FALSE_IS_NOTHING.contains(&name),
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.iter().all(|(name, want)| is_dropped(name, want)),
        _ => false,
    }
}

fn lists(at: &At<'_>, live: &[Value], want: &[Value], tell: Tell<'_>) -> ControlFlow<()> {
    if matches!(at.name, "tolerations" | "accessModes" | "topologySpreadConstraints") {
        let same = same_set(at, live, want);
        return if same { ControlFlow::Continue(()) } else { tell(at, Some(&live.into()), &want.into()) };
    }
    let keys: Option<Vec<_>> = want.iter().map(|item| key(at.name, item)).collect();
    if let Some(keys) = keys {
        let found: Vec<_> = keys.iter().map(|wanted| place(at.name, live, wanted)).collect();
        // A variable may name one that stands before it, and no other. Others' may stand between them.
        if at.name == "env" && !found.iter().flatten().is_sorted() {
            return tell(at, Some(&live.into()), &want.into());
        }
        let mut all = keys.iter().zip(found).zip(want);
        return all.try_for_each(|((wanted, found), want)| {
            item(&at.below(wanted), found.and_then(|place| live.get(place)), want, tell)
        });
    }
    let names: Option<Vec<_>> = want.iter().map(|item| item["name"].as_str()).collect();
    match names {
        // Others may stand between them.
        Some(names) if live.len() > want.len() => names.iter().zip(want).try_for_each(|(name, want)| {
            let found = live.iter().find(|item| item["name"] == **name);
            item(&at.below(name), found, want, tell)
        }),
        Some(names) if names.iter().copied().eq(live.iter().filter_map(|item| item["name"].as_str())) => {
            let both = names.iter().zip(live.iter().zip(want));
            both.into_iter().try_for_each(|(name, (live, want))| differences(&at.below(name), Some(live), want, tell))
        }
        None if live.len() == want.len() && want.iter().all(Value::is_object) => {
            let mut both = live.iter().zip(want).enumerate();
            both.try_for_each(|(i, (live, want))| differences(&at.below(&i.to_string()), Some(live), want, tell))
        }
        _ => tell(at, Some(&live.into()), &want.into()),
    }
}

fn item(at: &At<'_>, live: Option<&Value>, want: &Value, tell: Tell<'_>) -> ControlFlow<()> {
    if live.is_some() { differences(at, live, want, tell) } else { tell(at, None, want) }
}

/// Where in `live` the item is that counts. Of variables of one name kubelet takes the last.
fn place(list: &str, live: &[Value], wanted: &str) -> Option<usize> {
    let is_it = |item: &Value| key(list, item).as_deref() == Some(wanted);
    if list == "env" { live.iter().rposition(is_it) } else { live.iter().position(is_it) }
}

/// What identifies an item of a list whose order means nothing, or, of variables, whose items may stand between others. Init containers run in theirs.
fn key(list: &str, item: &Value) -> Option<String> {
    let text = |field: &str| item[field].as_str().map(str::to_owned);
    match list {
        "containers" | "env" | "imagePullSecrets" | "volumes" => text("name"),
        "volumeMounts" => text("mountPath"),
        "hostAliases" => text("ip"),
        "ports" => text("name").or_else(|| {
            let number = ["containerPort", "port"].into_iter().find_map(|field| item.get(field))?;
            Some(format!("{number}/{}", item["protocol"].as_str().unwrap_or("TCP")))
        }),
        _ => None,
    }
}

/// Each item has its own on the other side.
fn same_set(at: &At<'_>, live: &[Value], want: &[Value]) -> bool {
    let mut left: Vec<&Value> = live.iter().collect();
    let same = |live: &Value, want: &Value| {
        differences(at, Some(live), want, &mut |_, _, _| ControlFlow::Break(())).is_continue()
    };
    let found = want.iter().all(|want| {
        let place = left.iter().position(|live| same(live, want));
        place.map(|place| left.swap_remove(place)).is_some()
    });
    found && left.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Where they differ.
    fn told(live: &Value, want: &Value) -> Vec<String> {
        let mut all = vec![];
        let found = differences(&At::ROOT, Some(live), want, &mut |at, live, want| {
            let pinned = if is_only_pinned(at, live, want) { ", pinned" } else { "" };
            all.push(at.steps().join("/") + pinned);
            ControlFlow::Continue(())
        });
        assert!(found.is_continue());
        all
    }

    fn container(live: Value, want: Value) -> (Value, Value) {
        let one = |mut fields: Value| {
            fields["name"] = "a".into();
            json!({"containers": [fields]})
        };
        (one(live), one(want))
    }

    #[test]
    fn what_means_the_same_is_no_difference() {
        let resources = |cpu: Value, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let env = |names: &[&str]| {
            let one = |name: &&str| json!({"name": name.trim_end_matches('\''), "value": name});
            json!({"env": names.iter().map(one).collect::<Vec<_>>()})
        };
        let mounts =
            |paths: [&str; 2]| json!({"volumeMounts": paths.map(|path| json!({"name": "v", "mountPath": path}))});
        let tolerations =
            |keys: &[&str]| json!({"tolerations": keys.iter().map(|k| json!({"key": k})).collect::<Vec<_>>()});
        let init =
            |names: [&str; 2]| json!({"initContainers": names.map(|name| json!({"name": name, "args": [name]}))});
        let table: Vec<(Value, Value, &[&str])> = vec![
            (resources(json!("0.5"), "1Gi"), resources(json!("500m"), "1024Mi"), &[]),
            (resources(json!(1), "1Gi"), resources(json!("1000m"), "1073741824"), &[]),
            (
                resources(json!("250m"), "1G"),
                resources(json!("100m"), "1Gi"),
                &["resources/requests/cpu", "resources/requests/memory"],
            ),
            (json!({}), resources(json!("100m"), "1Gi"), &["resources/requests/cpu", "resources/requests/memory"]),
            (json!({"hard": {"pods": "1k"}}), json!({"hard": {"pods": "1000"}}), &[]),
            (json!({"emptyDir": {"sizeLimit": "1Gi"}}), json!({"emptyDir": {"sizeLimit": "1024Mi"}}), &[]),
            (json!({"other": "1Gi"}), json!({"other": "1024Mi"}), &["other"]),
            (env(&["A", "B"]), env(&["B", "A"]), &["env"]),
            (env(&["X", "A", "Y", "B", "Z"]), env(&["A", "B"]), &[]),
            (env(&["B", "A", "B"]), env(&["A", "B"]), &[]),
            (env(&["A", "B", "A"]), env(&["A", "B"]), &["env"]),
            (env(&["A'", "A"]), env(&["A"]), &[]),
            (env(&["A", "A'"]), env(&["A"]), &["env/A/value"]),
            (json!({"env": [{"name": "A", "value": "x"}, {"name": "C"}]}), env(&["A", "B"]), &["env/A/value", "env/B"]),
            (mounts(["/a", "/b"]), mounts(["/b", "/a"]), &[]),
            (mounts(["/a", "/c"]), mounts(["/b", "/a"]), &["volumeMounts//b"]),
            (tolerations(&["a", "b"]), tolerations(&["b", "a"]), &[]),
            (tolerations(&["a", "b", "c"]), tolerations(&["b", "a"]), &["tolerations"]),
            (tolerations(&["a", "a"]), tolerations(&["b", "a"]), &["tolerations"]),
            (init(["a", "b"]), init(["b", "a"]), &["initContainers"]),
            (
                json!({"ports": [{"containerPort": 2, "protocol": "UDP"}, {"containerPort": 1, "protocol": "TCP"}]}),
                json!({"ports": [{"containerPort": 1}]}),
                &[],
            ),
            (
                json!({"ports": [{"containerPort": 1, "protocol": "UDP"}]}),
                json!({"ports": [{"containerPort": 1}]}),
                &["ports/1/TCP"],
            ),
            (
                json!({"imagePullSecrets": [{"name": "x"}, {"name": "y"}]}),
                json!({"imagePullSecrets": [{"name": "y"}]}),
                &[],
            ),
            (json!({"image": "k8s.io/a:v1@sha256:ab"}), json!({"image": "k8s.io/a:v1"}), &["image, pinned"]),
            (json!({"image": "k8s.io/a:v2@sha256:ab"}), json!({"image": "k8s.io/a:v1"}), &["image"]),
            (json!({"image": {"reference": "docker.io/library/a:1"}}), json!({"image": {"reference": "a:1"}}), &[]),
            (json!({"reference": "docker.io/library/a:1"}), json!({"reference": "a:1"}), &["reference"]),
            (json!({}), json!({"readOnly": false, "paused": false, "emptyDir": {}, "args": []}), &[]),
            (json!({}), json!({"automountServiceAccountToken": false}), &["automountServiceAccountToken"]),
            (json!({"readOnly": null}), json!({"readOnly": true}), &["readOnly"]),
            (json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]}), &["args"]),
            (json!({"args": ["a", "b"]}), json!({"args": ["a"]}), &["args"]),
        ];
        for (live, want, expected) in table {
            assert_eq!(told(&live, &want), expected, "{live} for {want}");
            let (live, want) = container(live, want);
            let expected: Vec<_> = expected.iter().map(|path| format!("containers/a/{path}")).collect();
            assert_eq!(told(&live, &want), expected, "{live} for {want}");
        }
    }
}
