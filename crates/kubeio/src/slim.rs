//! JSON as the API server sends it, without `managedFields`: nothing here reads them, and they are up to half of an object.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// A value without `metadata.managedFields`, at any depth. They are passed over while parsing, so they cost no memory.
pub(crate) struct Slim(pub(crate) Value);

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Parser { metadata: false }.deserialize(deserializer).map(Self)
    }
}

/// Whether the value is that of a field `metadata`.
#[derive(Clone, Copy)]
struct Parser {
    metadata: bool,
}

impl<'de> DeserializeSeed<'de> for Parser {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parser {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = vec![];
        while let Some(item) = seq.next_element_seed(Self { metadata: false })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.metadata && key == "managedFields" {
                map.next_value::<IgnoredAny>()?;
            } else {
                let value = map.next_value_seed(Self { metadata: key == "metadata" })?;
                fields.insert(key, value);
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_but_managed_fields_is_as_it_was_sent() {
        let whole = json!({
            "items": [{
                "metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}], "generation": 3},
                "spec": {"managedFields": "a name like any other", "n": -1, "f": 1.5, "none": null, "yes": true},
            }],
            "metadata": {"resourceVersion": "7"},
        });
        let Slim(read) = serde_json::from_str(&whole.to_string()).unwrap();
        let mut expected = whole;
        expected["items"][0]["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(serde_json::from_str::<Slim>(r#"{"metadata": {"managedFields": ["#).is_err());
    }
}
