//! Where two objects differ.

use berth_plan::objects::diff::contains;
use serde_json::{Value, json};

/// More than these tell a person nothing.
const MOST: usize = 8;
/// Longer values are not shown.
const SHORT: usize = 60;
/// Nor are longer ones of flags.
const LONG: usize = 120;

/// Paths of `want` that `live` does not say, with both values where they are short.
pub(crate) fn differences(live: &Value, want: &Value) -> Vec<String> {
    let mut all = vec![];
    walk(live, want, "", &mut all);
    // The digest of the rest says nothing beside the rest.
    let digest = |p: &String| p.contains(berth_api::labels::APPLIED_DIGEST);
    if all.iter().any(|p| !digest(p)) {
        all.retain(|p| !digest(p));
    }
    if all.len() > MOST {
        let more = all.len() - MOST;
        all.truncate(MOST);
        all.push(format!("and {more} more"));
    }
    all
}

/// True if a field of `want` is not so in `live`. Together with its name, since how values compare depends on it.
pub(super) fn differs(live: Option<&Value>, want: &Value, name: &str) -> bool {
    let live = live.map_or_else(|| json!({}), |l| json!({(name): l}));
    !contains(&live, &json!({(name): want}))
}

fn walk(live: &Value, want: &Value, path: &str, all: &mut Vec<String>) {
    match (live, want) {
        (Value::Object(live), Value::Object(want)) => {
            let of = want.get("name").and_then(Value::as_str).unwrap_or("the container");
            for (name, want) in want.iter().filter(|(name, want)| differs(live.get(*name), want, name)) {
                let path = format!("{path}.{name}");
                match (live.get(name), want) {
                    (Some(Value::Array(live)), Value::Array(want)) if name == "args" => {
                        all.extend(flags(live, want, of));
                    }
                    (None, _) => {
                        all.push(format!("{path}: added{}", shown(want).map(|v| format!(", {v}")).unwrap_or_default()));
                    }
                    (Some(live), _) => step(live, want, &path, all),
                }
            }
        }
        (Value::Array(live), Value::Array(want)) if live.len() == want.len() => {
            for (i, (live, want)) in live.iter().zip(want).enumerate().filter(|(_, (l, w))| !contains(l, w)) {
                step(live, want, &format!("{path}[{i}]"), all);
            }
        }
        _ => all.push(leaf(live, want, path)),
    }
}

/// Flags of a container that differ, by their names: a person plans for them, and not for places in a list.
fn flags(live: &[Value], want: &[Value], of: &str) -> Vec<String> {
    let (live, want) = (by_flag(live), by_flag(want));
    let value = |all: &[&str]| {
        let joined = all.join(" and ");
        (joined.chars().count() <= LONG).then_some(joined)
    };
    let mut all = vec![];
    for (flag, new) in &want {
        match live.iter().find(|(name, _)| name == flag).map(|(_, old)| old) {
            Some(old) if old == new => {}
            Some(old) => match (value(old), value(new)) {
                (Some(old), Some(new)) => all.push(format!("flag {flag} of {of}: {old} → {new}")),
                _ => all.push(format!("flag {flag} of {of} differs")),
            },
            None => all.push(format!("flag {flag} of {of}: added{}", beside(value(new)))),
        }
    }
    let gone = live.iter().filter(|(flag, _)| want.iter().all(|(name, _)| name != flag));
    all.extend(gone.map(|(flag, old)| format!("flag {flag} of {of}: removed{}", beside(value(old)))));
    if all.is_empty() {
        all.push(format!("the order of the flags of {of} differs"));
    }
    all
}

fn beside(value: Option<String>) -> String {
    value.filter(|v| !v.is_empty()).map(|v| format!(", {v}")).unwrap_or_default()
}

/// Flags with their values, in the order in which they are given first.
fn by_flag(args: &[Value]) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = vec![];
    for arg in args.iter().filter_map(Value::as_str) {
        let (flag, value) = arg.split_once('=').unwrap_or((arg, ""));
        match all.iter_mut().find(|(name, _)| *name == flag) {
            Some((_, values)) => values.push(value),
            None => all.push((flag, vec![value])),
        }
    }
    all
}

/// Into a part that differs; it is named itself if no part of it does.
fn step(live: &Value, want: &Value, path: &str, all: &mut Vec<String>) {
    let before = all.len();
    walk(live, want, path, all);
    if all.len() == before {
        all.push(leaf(live, want, path));
    }
}

fn leaf(live: &Value, want: &Value, path: &str) -> String {
    match (shown(live), shown(want)) {
        (Some(live), Some(want)) => format!("{path}: {live} → {want}"),
        _ => format!("{path} differs"),
    }
}

fn shown(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return None,
    };
    (text.chars().count() <= SHORT && !text.contains('\n')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_values_and_no_noise() {
        let live = json!({
            "metadata": {"annotations": {"berth.dev/applied-digest": "a"}},
            "spec": {"replicas": 1, "extra": true, "list": [{"a": 1, "b": "x"}], "texts": ["a"], "m": {"resources": {"requests": {"memory": "1Gi"}}}},
        });
        let want = json!({
            "metadata": {"annotations": {"berth.dev/applied-digest": "b"}},
            "spec": {"replicas": 2, "new": "n", "list": [{"a": 1, "b": "y"}], "texts": ["a", "b"], "m": {"resources": {"requests": {"memory": "1024Mi"}}}},
        });
        let mut found = differences(&live, &want);
        found.sort();
        let expected =
            [".spec.list[0].b: x → y", ".spec.new: added, n", ".spec.replicas: 1 → 2", ".spec.texts differs"];
        assert_eq!(found, expected);
        assert!(differences(&live, &live).is_empty());
    }

    #[test]
    fn flags_are_named() {
        let of = |args: &[&str]| json!({"spec": {"containers": [{"name": "kube-apiserver", "args": args}]}});
        let live = of(&["--a=1", "--v=2", "--feature-gates=A=true", "--runtime-config=x", "--gone=1", "--long=1"]);
        let long = format!("--long={}", "x".repeat(200));
        let want =
            of(&["--a=1", "--feature-gates=A=true", "--feature-gates=B=true", "--new=n", "--bare", "--v=4", &long]);
        assert_eq!(
            differences(&live, &want),
            [
                "flag --feature-gates of kube-apiserver: A=true → A=true and B=true",
                "flag --new of kube-apiserver: added, n",
                "flag --bare of kube-apiserver: added",
                "flag --v of kube-apiserver: 2 → 4",
                "flag --long of kube-apiserver differs",
                "flag --runtime-config of kube-apiserver: removed, x",
                "flag --gone of kube-apiserver: removed, 1",
            ]
        );
        let moved = differences(&of(&["--a=1", "--b=1"]), &of(&["--b=1", "--a=1"]));
        assert_eq!(moved, ["the order of the flags of kube-apiserver differs"]);
    }

    #[test]
    fn quantities_that_differ_are_found_and_long_lists_are_cut() {
        let of = |m: &str| json!({"resources": {"requests": {"memory": m}}});
        assert_eq!(differences(&of("1Gi"), &of("2Gi")), [".resources.requests.memory: 1Gi → 2Gi"]);
        let many = |n: i32| Value::Object((0..12).map(|i| (format!("k{i}"), json!(n))).collect());
        assert_eq!(differences(&many(1), &many(2)).last().unwrap(), "and 4 more");
    }
}
