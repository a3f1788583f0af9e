//! Server-side apply.

use serde_json::{Map, Value};

/// Lays what is given over what is there. What the same writer gave before, and gives no more, goes; what others wrote stays. Items of
/// lists belong together by their names; a list without names is replaced as a whole.
pub(super) fn apply(live: &mut Value, former: &Value, given: Value) {
    match (live, given) {
        (Value::Object(live), Value::Object(given)) => {
            for (field, former) in former.as_object().into_iter().flatten().filter(|(f, _)| !given.contains_key(*f)) {
                take_away(live, field, former);
            }
            for (field, given) in given {
                let former = &former[&field];
                apply(live.entry(field).or_insert(Value::Null), former, given);
            }
        }
        (Value::Array(live), Value::Array(given)) if live.iter().chain(&given).all(|item| item["name"].is_string()) => {
            let formers = former.as_array().map_or(&[][..], Vec::as_slice);
            let of_others = |item: &&Value| named(&given, item).or(named(formers, item)).is_none();
            let others: Vec<_> = live.iter().filter(of_others).cloned().collect();
            let merged = given.into_iter().map(|item| {
                let mut merged = named(live, &item).cloned().unwrap_or_default();
                apply(&mut merged, named(formers, &item).unwrap_or(&Value::Null), item);
                merged
            });
            *live = merged.chain(others).collect();
        }
        (live, given) => *live = given,
    }
}

/// A field that is given no more. Of a map only what was given goes.
fn take_away(live: &mut Map<String, Value>, field: &str, former: &Value) {
    if let (Some(inner @ Value::Object(_)), true) = (live.get_mut(field), former.is_object()) {
        apply(inner, former, Value::Object(Map::new()));
        if inner.as_object().is_some_and(|left| !left.is_empty()) {
            return;
        }
    }
    live.remove(field);
}

fn named<'a>(items: &'a [Value], like: &Value) -> Option<&'a Value> {
    items.iter().find(|item| item["name"] == like["name"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_given_no_more_goes_and_what_others_wrote_stays() {
        let former = json!({"labels": {"a": "1", "b": "1"}, "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1"}}, {"name": "w"}]});
        let mut live = former.clone();
        live["labels"]["theirs"] = json!("x");
        live["volumes"][0]["default"] = json!(true);
        live["volumes"].as_array_mut().unwrap().push(json!({"name": "sidecar"}));
        let given = json!({"labels": {"a": "2"}, "volumes": [{"name": "v", "image": {}}]});
        apply(&mut live, &former, given);
        let volumes = json!([{"name": "v", "image": {}, "default": true}, {"name": "sidecar"}]);
        assert_eq!(live, json!({"labels": {"a": "2", "theirs": "x"}, "volumes": volumes}));
    }
}
