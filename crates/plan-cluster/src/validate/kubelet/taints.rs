//! Taints with which a node registers.

use super::fault::Not;
use serde_json::Value;

/// `pkg/util/taints`.
pub(super) fn check(all: &[Value], not: Not<'_>) {
    for (at, taint) in all.iter().enumerate() {
        let path = format!("registerWithTaints[{at}]");
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        let (prefix, name) =
            text("key").rsplit_once('/').map_or((None, text("key")), |(prefix, name)| (Some(prefix), name));
        if !is_name(name) || prefix.is_some_and(|prefix| !is_domain(prefix)) {
            not(&format!("{path}.key"), "has to be a name as a label has, such as example.com/gpu".into());
        }
        if !text("value").is_empty() && !is_name(text("value")) {
            not(&format!("{path}.value"), "has to be a value as a label has".into());
        }
        if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&text("effect")) {
            not(&format!("{path}.effect"), "has to be one of NoSchedule, PreferNoSchedule, NoExecute".into());
        }
        if !taint["timeAdded"].is_null() {
            not(&format!("{path}.timeAdded"), "cannot be set. Remove it".into());
        }
    }
}

/// The name of a label, without its prefix, or its value.
fn is_name(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    text.len() <= 63 && inside && ends(text.chars().next()) && ends(text.chars().last())
}

/// A DNS subdomain, as prefixes of labels are.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let inside = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        inside && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
