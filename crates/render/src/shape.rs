//! Rendering apart from values. What a template prints is a whole YAML scalar, list or map, so the text with marks in place of
//! values (its shape) is the same for all tenants with the same options. It is parsed once, and values are put in afterwards:
//! parsing YAML for each tenant in each reconcile was most of what an operator with many tenants did.

use crate::{RenderError, env, yaml};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// Begins a mark. No template holds it, and values never get into a shape.
const MARK: char = '\u{e000}';

/// The YAML documents that a template renders.
pub(crate) fn documents(path: &str, text: &str, context: &impl Serialize) -> Result<Vec<Value>, RenderError> {
    let broken = |source| RenderError::Yaml { template: path.to_owned(), source };
    let values = Arc::new(Mutex::new(vec![]));
    let printed = values.clone();
    let shape = env::render_printed(path, text, context, move |value| {
        let mut values = printed.lock().unwrap_or_else(PoisonError::into_inner);
        values.push(serde_json::to_value(value).ok());
        format!("\"{MARK}{}\"", values.len() - 1)
    })?;
    let values = std::mem::take(&mut *values.lock().unwrap_or_else(PoisonError::into_inner));
    let mut filled = Filled { values, used: 0 };
    let parsed = yaml::documents(&shape).map_err(broken)?;
    let documents: Option<Vec<Value>> = parsed.iter().map(|document| filled.fill(document)).collect();
    match documents {
        Some(documents) if filled.used == filled.values.len() => Ok(documents),
        // A template that prints a value in another place than a scalar's.
        _ => yaml::parse(&env::render(path, text, context)?).map_err(broken),
    }
}

/// Values on their way into a shape; each belongs to one place.
struct Filled {
    values: Vec<Option<Value>>,
    used: usize,
}

impl Filled {
    /// None: this is no shape that values can be put into.
    fn fill(&mut self, shape: &Value) -> Option<Value> {
        Some(match shape {
            Value::String(text) => match text.strip_prefix(MARK) {
                Some(number) => self.take(number)?,
                None => shape.clone(),
            },
            Value::Array(items) => Value::Array(items.iter().map(|i| self.fill(i)).collect::<Option<_>>()?),
            Value::Object(fields) => {
                let mut filled = Map::new();
                for (key, value) in fields {
                    let key = match key.strip_prefix(MARK) {
                        Some(number) => self.take(number)?.as_str()?.to_owned(),
                        None => key.clone(),
                    };
                    if filled.insert(key, self.fill(value)?).is_some() {
                        return None;
                    }
                }
                Value::Object(filled)
            }
            _ => shape.clone(),
        })
    }

    fn take(&mut self, number: &str) -> Option<Value> {
        let value = self.values.get_mut(number.parse::<usize>().ok()?)?.take()?;
        self.used += 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As it was before there were shapes.
    fn plain(text: &str, context: &Value) -> Result<Vec<Value>, String> {
        let rendered = env::render("t", text, context).map_err(|e| e.to_string())?;
        yaml::parse(&rendered).map_err(|e| e.to_string())
    }

    #[test]
    fn a_shape_with_its_values_is_what_the_text_says() {
        let context = json!({
            "s": "on", "n": 7, "b": true, "none": null, "list": ["a", "b: c"], "map": {"k": "v", "l": "\"\n- x"}, "mark": "\u{e000}0",
        });
        for text in [
            "a: {{ s }}\nb: {{ n }}\nc: {{ b }}\nd: {{ none }}\n",
            "a: {{ list }}\nb: {{ map }}\nc: [{{ s }}, {{ mark }}]\n",
            "a:\n{% for x in list %}\n  - {{ \"--f=\" ~ x }}\n{% endfor %}\n",
            "a:\n{% for k in map %}\n  {{ k }}: {{ map[k] }}\n{% endfor %}\n",
            "a: {{ mark }}\n---\n{% if b %}\nb: 1\n{% endif %}\n",
            "{{ map }}\n",
            "a: {{ s|safe }}\n",
            // Not as templates are to be written, and yet the same.
            "a: |\n  text {{ n }}\n",
            "a: 1 # {{ s }}\n",
        ] {
            assert_eq!(documents("t", text, &context).unwrap(), plain(text, &context).unwrap(), "{text}");
        }
    }

    #[test]
    fn keys_that_meet_are_an_error_as_in_the_text() {
        let context = json!({"k": "a"});
        let text = "a: 1\n{{ k }}: 2\n";
        plain(text, &context).unwrap_err();
        documents("t", text, &context).unwrap_err();
        documents("t", "a: {{ nosuch }}\n", &context).unwrap_err();
    }
}
