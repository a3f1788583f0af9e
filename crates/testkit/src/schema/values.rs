//! Values that may trip a field, by what its schema says of it.

use serde_json::{Map, Value, json};

use super::place::{example, key, number};
use super::{Field, Samples};

/// What is tried with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// null.
    Null,
    /// Empty text, list, map or object.
    Empty,
    /// The least that the schema lets pass, or 0 where it says nothing.
    Min,
    /// The most.
    Max,
    /// One less.
    BelowMin,
    /// One more.
    AboveMax,
    /// Far more than anybody has thought of.
    Huge,
    /// Letters, signs and bytes that few expect.
    Odd,
    /// Of another type.
    WrongType,
    /// A name that is not in the schema.
    Unknown,
    /// One of the values that the schema lists, or of true and false.
    Each,
    /// A good value by hand.
    Sample,
}

impl Class {
    /// Whether the schema has to refuse it.
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::BelowMin | Self::AboveMax | Self::WrongType | Self::Unknown)
    }
}

/// A value to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Try {
    /// Why.
    pub class: Class,
    /// The value.
    pub value: Value,
}

/// The number of a sample: one that no list of examples reaches, since something may be left of what a list had, such as former names
/// in a certificate.
const OWN: usize = 77;

/// What is tried with a field, always the same and in the same order.
pub fn tries(field: &Field, samples: &dyn Samples) -> Vec<Try> {
    let schema = &field.schema;
    let mut all = Tries(vec![]);
    let listed = schema["enum"].as_array();
    for value in listed.into_iter().flatten() {
        all.add(Class::Each, value.clone());
    }
    match schema["type"].as_str() {
        Some("integer") => integer(schema, listed.is_some(), &mut all),
        Some("string") => string(schema, listed.is_some(), &mut all),
        Some("boolean") => {
            all.add(Class::Each, json!(true));
            all.add(Class::Each, json!(false));
            all.add(Class::WrongType, json!("text"));
        }
        Some("array") => array(field, samples, &mut all),
        Some("object") => object(field, samples, &mut all),
        _ if schema["x-kubernetes-int-or-string"] == true => {
            all.add(Class::Min, json!(0));
            all.add(Class::Max, json!(i64::from(i32::MAX)));
            all.add(Class::Empty, json!(""));
            all.add(Class::Odd, json!(-1));
            all.add(Class::Odd, json!("-1"));
            all.add(Class::Odd, json!("one"));
            all.add(Class::Huge, json!("9".repeat(40)));
            all.add(Class::Huge, json!("9".repeat(20_000)));
            all.add(Class::WrongType, json!([1]));
        }
        other => panic!("{}: a type that the sweep does not know: {other:?}", field.path),
    }
    if !field.path.ends_with("{key}") {
        all.add(Class::Null, Value::Null);
    }
    for sample in samples.of(&field.path) {
        all.add(Class::Sample, super::numbered(&sample, OWN));
    }
    if field.path.ends_with("{key}") {
        all.0.retain(|t| t.value.is_string());
    }
    all.0
}

struct Tries(Vec<Try>);

impl Tries {
    fn add(&mut self, class: Class, value: Value) {
        if self.0.iter().all(|t| t.value != value) {
            self.0.push(Try { class, value });
        }
    }
}

fn integer(schema: &Value, listed: bool, all: &mut Tries) {
    let (min, max) = (number(&schema["minimum"]), number(&schema["maximum"]));
    let small = schema["format"] == "int32";
    if let Some(min) = min {
        all.add(Class::Min, json!(min));
        all.add(Class::BelowMin, json!(min - 1));
    } else if listed {
        all.add(Class::BelowMin, json!(0));
        all.add(Class::BelowMin, json!(-1));
    } else {
        all.add(Class::Min, json!(0));
        all.add(Class::Odd, json!(-1));
    }
    if let Some(max) = max {
        all.add(Class::Max, json!(max));
        all.add(Class::AboveMax, json!(max + 1));
    } else if listed {
        all.add(Class::AboveMax, json!(2));
        all.add(Class::AboveMax, json!(i32::MAX));
    } else {
        all.add(Class::Huge, json!(i64::from(i32::MAX)));
    }
    if small {
        all.add(Class::AboveMax, json!(i64::from(i32::MAX) + 1));
    }
    let wrong = max.is_some() || listed || small;
    all.add(if wrong { Class::AboveMax } else { Class::Huge }, json!(i64::MAX));
    all.add(Class::WrongType, json!("text"));
    all.add(Class::WrongType, json!(1.5));
}

fn string(schema: &Value, listed: bool, all: &mut Tries) {
    all.add(Class::WrongType, json!(7));
    if listed {
        all.add(Class::AboveMax, json!("SweepNoSuchValue"));
        all.add(Class::AboveMax, json!(""));
        return;
    }
    let text = |n: i64| json!("a".repeat(usize::try_from(n).unwrap_or(0)));
    let min = number(&schema["minLength"]).unwrap_or(0);
    all.add(if min > 0 { Class::BelowMin } else { Class::Empty }, json!(""));
    all.add(Class::Min, text(min.max(1)));
    if let Some(max) = number(&schema["maxLength"]) {
        all.add(Class::Max, text(max));
        all.add(Class::AboveMax, text(max + 1));
        all.add(Class::AboveMax, text(200_000));
    } else {
        all.add(Class::Huge, text(200_000));
    }
    all.add(Class::Odd, json!(" "));
    all.add(Class::Odd, json!("-"));
    all.add(Class::Odd, json!("a\nb: {{ c }} \"'\\ $(D) ${E} #"));
    all.add(Class::Odd, json!("ä☃\u{202e}\u{0}"));
}

fn array(field: &Field, samples: &dyn Samples, all: &mut Tries) {
    let item = |n: usize| example(&field.schema["items"], &format!("{}[]", field.path), n, samples);
    let items = |n: usize| json!((1..=n).map(item).collect::<Vec<_>>());
    let size = |bound: &str| number(&field.schema[bound]).and_then(|n| usize::try_from(n).ok());
    all.add(if size("minItems").unwrap_or(0) > 0 { Class::BelowMin } else { Class::Empty }, json!([]));
    all.add(Class::Min, items(1));
    match size("maxItems") {
        Some(max) => {
            all.add(Class::Max, items(max));
            all.add(Class::AboveMax, items(max + 1));
        }
        None => all.add(Class::Huge, items(300)),
    }
    if matches!(field.schema["x-kubernetes-list-type"].as_str(), Some("set" | "map")) {
        all.add(Class::AboveMax, json!([item(1), item(1)]));
    }
    all.add(Class::WrongType, json!("text"));
}

fn object(field: &Field, samples: &dyn Samples, all: &mut Tries) {
    let schema = &field.schema;
    all.add(Class::WrongType, json!("text"));
    let whole = example(schema, &field.path, 1, samples);
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        all.add(Class::Empty, json!({}));
        return;
    }
    let entries = &schema["additionalProperties"];
    if !entries.is_object() {
        all.add(Class::Empty, whole.clone());
        let mut more = whole;
        more["sweepNoSuchField"] = json!(1);
        all.add(Class::Unknown, more);
        return;
    }
    let path = format!("{}{{}}", field.path);
    let map = |n: usize| {
        let entry = |n| (key(&path, n, samples), example(entries, &path, n, samples));
        Value::Object((1..=n).map(entry).collect::<Map<_, _>>())
    };
    all.add(Class::Empty, json!({}));
    all.add(Class::Min, map(1));
    match number(&schema["maxProperties"]).and_then(|n| usize::try_from(n).ok()) {
        Some(max) => {
            all.add(Class::Max, map(max));
            all.add(Class::AboveMax, map(max + 1));
        }
        None => all.add(Class::Huge, map(300)),
    }
}
