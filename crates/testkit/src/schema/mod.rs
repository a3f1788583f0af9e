//! Every field of a CustomResourceDefinition, and values that may trip it: made from the schema, so that nobody has to
//! remember a new field.
//!
//! A path is `endpoint.port`, `clients[].name` for what is in a list, `annotations{}` for a value of a map and
//! `annotations{key}` for its keys.

mod place;
mod values;

use serde_json::Value;

pub use place::put;
pub use values::{Class, Try, tries};

/// A place in a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// See the module.
    pub path: String,
    /// Its part of the schema. That of a map's keys is `{"type": "string"}`.
    pub schema: Value,
    /// The schema of the object, list or map that it is in.
    pub parent: Value,
}

impl Field {
    /// The name that a message about it has to contain: its own, or that of the list or map that it is in.
    pub fn name(&self) -> &str {
        let last = self.path.rsplit('.').next().unwrap_or_default();
        last.split(['[', '{']).next().unwrap_or_default()
    }
}

/// Every field inside of a schema of type object, in the schema's order.
pub fn fields(schema: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    walk(schema, "", &mut all);
    all
}

fn walk(schema: &Value, path: &str, all: &mut Vec<Field>) {
    let mut inside = Vec::new();
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        inside.push((path, child.clone()));
    }
    if schema["items"].is_object() {
        inside.push((format!("{path}[]"), schema["items"].clone()));
    }
    if schema["additionalProperties"].is_object() {
        inside.push((format!("{path}{{key}}"), serde_json::json!({"type": "string"})));
        inside.push((format!("{path}{{}}"), schema["additionalProperties"].clone()));
    }
    for (path, child) in inside {
        all.push(Field { path: path.clone(), schema: child.clone(), parent: schema.clone() });
        walk(&child, &path, all);
    }
}

/// Good values by path, for what the schema does not tell (patterns, rules). `{n}` in a text becomes a number where several
/// are needed that differ.
pub trait Samples {
    /// Good values of this field, none if the schema says enough.
    fn of(&self, path: &str) -> Vec<Value>;

    /// The first good value, made different by a number.
    fn nth(&self, path: &str, n: usize) -> Option<Value> {
        self.of(path).first().map(|v| numbered(v, n))
    }
}

fn numbered(value: &Value, n: usize) -> Value {
    match value {
        Value::String(text) => text.replace("{n}", &n.to_string()).into(),
        Value::Array(list) => list.iter().map(|v| numbered(v, n)).collect(),
        Value::Object(map) => {
            let entry = |(k, v): (&String, &Value)| (k.replace("{n}", &n.to_string()), numbered(v, n));
            Value::Object(map.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct None_;
    impl Samples for None_ {
        fn of(&self, path: &str) -> Vec<Value> {
            if path == "list[].name" { vec![json!("a-{n}")] } else { vec![] }
        }
    }

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 5},
            "list": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "items": {
                "type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "maxLength": 9}, "kind": {"type": "string", "enum": ["A", "B"]}}}},
            "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        }})
    }

    #[test]
    fn fields_are_found_wherever_they_are() {
        let all = fields(&schema());
        let paths: Vec<_> = all.iter().map(|f| &*f.path).collect();
        assert_eq!(paths, ["count", "list", "list[]", "list[].kind", "list[].name", "map", "map{key}", "map{}"]);
        assert_eq!(all[4].name(), "name");
        assert_eq!(all[7].name(), "map");
    }

    #[test]
    fn values_are_put_where_nothing_was() {
        let schema = schema();
        let placed = |path: &str, value: Value| {
            let mut spec = json!({"count": 2});
            put(&mut spec, &schema, path, Some(value), &None_);
            spec
        };
        assert_eq!(placed("count", json!(null)), json!({"count": null}));
        assert_eq!(placed("list[].kind", json!("B")), json!({"count": 2, "list": [{"name": "a-1", "kind": "B"}]}));
        assert_eq!(placed("map{}", json!("")), json!({"count": 2, "map": {"sweep": ""}}));
        assert_eq!(placed("map{key}", json!("k")), json!({"count": 2, "map": {"k": "a"}}));
        assert_eq!(placed("map", json!({"x": "y"})), json!({"count": 2, "map": {"x": "y"}}));
    }

    #[test]
    fn bounds_are_tried_from_both_sides() {
        let of = |path: &str| {
            let field = fields(&schema()).into_iter().find(|f| f.path == path).unwrap();
            tries(&field, &None_)
        };
        let count: Vec<_> = of("count").into_iter().map(|t| (t.class, t.value)).collect();
        for (class, value) in [
            (Class::Min, json!(1)),
            (Class::Max, json!(5)),
            (Class::BelowMin, json!(0)),
            (Class::AboveMax, json!(6)),
            (Class::Null, json!(null)),
            (Class::WrongType, json!("text")),
        ] {
            assert!(count.contains(&(class, value.clone())), "{class:?} {value}: {count:?}");
        }
        let list = of("list");
        let sized = |class: Class| list.iter().find(|t| t.class == class).unwrap().value.as_array().unwrap().clone();
        assert_eq!((sized(Class::Max).len(), sized(Class::AboveMax).len()), (3, 4));
        assert_ne!(sized(Class::Max)[0], sized(Class::Max)[1], "keys of a map-list differ");
        assert!(of("list[].kind").iter().any(|t| t.class == Class::Each && t.value == "B"));
        assert!(of("map{}").iter().all(|t| t.class != Class::Max || t.value.is_string()));
    }
}
