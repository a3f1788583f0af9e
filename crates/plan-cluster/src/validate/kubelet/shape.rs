//! Types, ranges and names of fields. kubelet does not start with a value of another type, and drops a field that it does not know.

use super::fault::Fault;
use super::own::is_own;
use super::parse;
use berth_api::text::printable;
use serde_json::{Map, Value};

/// What a value has to be.
pub(super) enum Shape {
    Bool,
    /// A whole number, from the first to the second.
    Int(i64, i64),
    Float,
    Text,
    /// One of these texts, or the empty one for the default.
    OneOf(&'static [&'static str]),
    /// A length of time, as Go writes it.
    Duration,
    /// Likewise, and also a whole number of nanoseconds.
    DurationOrNanos,
    /// A quantity, also as a number.
    Quantity,
    /// A quantity as a string.
    Size,
    List(&'static Shape),
    /// An object whose names are free.
    Map(&'static Shape),
    Fields(&'static [(&'static str, Shape)]),
}

use Shape::{Bool, Duration, DurationOrNanos, Fields, Float, Int, List, OneOf, Quantity, Size, Text};

/// So unlike may a name be that it is taken for a known one.
const NEAR: usize = 3;

/// Appends what is of another type, out of its range, or unknown.
pub(super) fn fields(all: &Map<String, Value>, path: &str, known: &[(&str, Shape)], faults: &mut Vec<Fault>) {
    for (name, value) in all {
        let at = below(path, name);
        if is_own(&at) {
            continue;
        }
        match known.iter().find(|(known, _)| known == name) {
            Some((_, shape)) => value_of(value, &at, shape, faults),
            None => faults.push(Fault::new(&at, unknown(name, known.iter().map(|(name, _)| *name)))),
        }
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What is said of a name that is none.
pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let lower = printable(name).to_ascii_lowercase();
    let all: Vec<_> = known.collect();
    let distance =
        |known: &&str| strsim::osa_distance(&lower.chars().take(63).collect::<String>(), &known.to_ascii_lowercase());
    let nearest = all.iter().copied().min_by_key(distance).filter(|known| distance(known) <= NEAR.min(known.len() / 2));
    match nearest {
        Some(known) => format!("is no field of KubeletConfiguration. Did you mean {known}?"),
        None if all.len() <= 12 => format!("is no field of KubeletConfiguration. Known are {}", all.join(", ")),
        None => "is no field of KubeletConfiguration (kubelet.config.k8s.io/v1beta1). Remove it".to_owned(),
    }
}

fn value_of(value: &Value, path: &str, shape: &Shape, faults: &mut Vec<Fault>) {
    let mut not = |what: String| faults.push(Fault::new(path, format!("has to be {what}")));
    match (shape, value) {
        (_, Value::Null) | (Bool, Value::Bool(_)) | (Text, Value::String(_)) | (Float | Quantity, Value::Number(_)) => {
        }
        (Bool, _) => not("true or false".into()),
        (Int(least, most), Value::Number(number)) if number.as_i64().is_some_and(|n| (*least..=*most).contains(&n)) => {
        }
        (Int(least, most), _) => not(format!("a whole number from {least} to {most}")),
        (Float, _) => not("a number".into()),
        (Text, _) => not("a string".into()),
        (OneOf(all), Value::String(text)) if text.is_empty() || all.contains(&&**text) => {}
        (OneOf(all), _) => not(format!("one of {}", all.join(", "))),
        (Duration | DurationOrNanos, Value::String(text)) if parse::duration(text).is_some() => {}
        (DurationOrNanos, Value::Number(number)) if number.is_i64() => {}
        (Duration | DurationOrNanos, _) => not("a length of time as a string, such as \"90s\" or \"1h30m\"".into()),
        (Quantity | Size, Value::String(text)) if parse::is_quantity(text) => {}
        (Quantity, _) => not("a quantity, such as 100Mi".into()),
        (Size, _) => not("a quantity as a string, such as \"100Mi\"".into()),
        (List(of), Value::Array(all)) => {
            for (at, one) in all.iter().enumerate() {
                value_of(one, &format!("{path}[{at}]"), of, faults);
            }
        }
        (List(_), _) => not("a list".into()),
        (Shape::Map(of), Value::Object(all)) => {
            for (name, value) in all {
                value_of(value, &below(path, name), of, faults);
            }
        }
        (Fields(known), Value::Object(all)) => fields(all, path, known, faults),
        (Shape::Map(_) | Fields(_), _) => not("an object".into()),
    }
}
