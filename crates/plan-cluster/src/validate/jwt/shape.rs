//! Fields and types of what kube-apiserver reads as a file. It takes null for any field; what it does not know, it refuses or never reads.

use super::fault::Fault;
use berth_api::text::printable;
use serde_json::Value;

/// What a value has to be.
pub(crate) enum Shape {
    Text,
    Flag,
    /// 32 bits.
    Number,
    List(&'static Shape),
    Fields(&'static [(&'static str, Shape)]),
}

use Shape::{Fields, Flag, List, Number, Text};

const MAPPING: &[(&str, Shape)] = &[("claim", Text), ("prefix", Text), ("expression", Text)];

/// An authenticator.
pub(crate) static AUTHENTICATOR: Shape = Fields(&[
    (
        "issuer",
        Fields(&[
            ("url", Text),
            ("discoveryURL", Text),
            ("certificateAuthority", Text),
            ("audiences", List(&Text)),
            ("audienceMatchPolicy", Text),
            ("egressSelectorType", Text),
        ]),
    ),
    (
        "claimValidationRules",
        List(&Fields(&[("claim", Text), ("requiredValue", Text), ("expression", Text), ("message", Text)])),
    ),
    (
        "claimMappings",
        Fields(&[
            ("username", Fields(MAPPING)),
            ("groups", Fields(MAPPING)),
            ("uid", Fields(&[("claim", Text), ("expression", Text)])),
            ("extra", List(&Fields(&[("key", Text), ("valueExpression", Text)]))),
        ]),
    ),
    ("userValidationRules", List(&Fields(&[("expression", Text), ("message", Text)]))),
]);

/// Appends what is of another type, or unknown.
pub(crate) fn check(value: &Value, path: &str, shape: &Shape, faults: &mut Vec<Fault>) {
    let mut not = |what: &str| faults.push(Fault::new(path, format!("has to be {what}")));
    match (shape, value) {
        (_, Value::Null) | (Text, Value::String(_)) | (Flag, Value::Bool(_)) => {}
        (Text, _) => not("a string"),
        (Flag, _) => not("true or false"),
        (Number, Value::Number(number)) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {}
        (Number, _) => not("a whole number of at most 2147483647"),
        (List(of), Value::Array(all)) => {
            for (at, one) in all.iter().enumerate() {
                check(one, &format!("{path}[{at}]"), of, faults);
            }
        }
        (List(_), _) => not("a list"),
        (Fields(fields), Value::Object(all)) => {
            for (name, value) in all {
                if let Some((_, shape)) = fields.iter().find(|(known, _)| known == name) {
                    check(value, &format!("{path}.{name}"), shape, faults);
                } else {
                    let known = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                    let name = printable(name).chars().take(63).collect::<String>();
                    faults.push(Fault::new(format!("{path}.{name}"), format!("is no field. Known are {known}")));
                }
            }
        }
        (Fields(_), _) => not("an object"),
    }
}

/// A text; what is not set, or null, is empty.
pub(crate) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

/// A list; what is not set, or null, is empty.
pub(crate) fn list<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of[field].as_array().map(Vec::as_slice).unwrap_or_default()
}
