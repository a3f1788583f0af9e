//! The only place that parses YAML, so that the choice of parser stays one file wide.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Texts that are kept parsed; parsing is nine tenths of what rendering costs. What is parsed are shapes, which tenants share
/// ([`crate::shape`]): a dozen for each minor and combination of options.
const KEPT: usize = 512;

pub(crate) type Parsed = Arc<Vec<Value>>;

/// The same text always parses to the same documents, so that remembering them changes nothing but the time it takes.
static MEMORY: LazyLock<Mutex<HashMap<String, Parsed>>> = LazyLock::new(Mutex::default);

/// [`parse`], but the same text only once in a while.
pub(crate) fn documents(text: &str) -> Result<Parsed, Box<serde_saphyr::Error>> {
    let memory = || MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let known = memory().get(text).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let parsed = Arc::new(parse(text)?);
    let mut memory = memory();
    if memory.len() >= KEPT {
        memory.clear();
    }
    memory.insert(text.to_owned(), parsed.clone());
    Ok(parsed)
}

/// Parses zero or more documents. `yes`, `on` and the like stay strings, as in YAML 1.2; duplicate keys are errors; documents that
/// are empty or hold nothing but comments are left out.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>, Box<serde_saphyr::Error>> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).map_err(Box::new)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_1_2_only() {
        assert_eq!(*documents("a: on\nb: true\nc: 1\n").unwrap(), [json!({"a": "on", "b": true, "c": 1})]);
        assert_eq!(*documents("a: 1\n---\n# nothing\n---\nb: 2\n").unwrap(), [json!({"a": 1}), json!({"b": 2})]);
        assert!(documents("# only a comment\n").unwrap().is_empty());
        documents("a: 1\na: 2\n").unwrap_err();
    }
}
