//! What Helm renders, as objects.

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// Each document, as kubectl takes it. Err: what is no YAML.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let read = |document: &String| {
        let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
        serde_saphyr::from_str_with_options::<Value>(document, options).map_err(|error| error.to_string())
    };
    texts(text).iter().map(read).collect()
}

/// One after the other: a chart may render more than one document's worth of what a parser takes at once.
fn texts(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            all.push(String::new());
        } else if let Some(last) = all.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let says = |document: &String| document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    all.retain(says);
    all
}
