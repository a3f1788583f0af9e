//! Pages of a tenant's lists.

use crate::calls::encode;
use serde_json::Value;

/// Where a tenant says that a list goes on.
pub(super) enum Next {
    /// It does not.
    None,
    /// There: the end of a query.
    At(String),
    /// No API server says that.
    Odd,
}

/// A token of a real API server has some hundred bytes.
const TOKEN: usize = 4 << 10;

/// Where that list goes on.
pub(super) fn next_page(table: &Value) -> Next {
    match table.pointer("/metadata/continue").and_then(Value::as_str) {
        None | Some("") => Next::None,
        Some(token) if token.len() <= TOKEN => Next::At(format!("&continue={}", encode(token))),
        Some(_) => Next::Odd,
    }
}
