//! Where charts may come from.

use berth_plan::settings::Apps;

/// Why an `App` in that namespace may have no chart from there.
pub(crate) fn refused(apps: &Apps, namespace: &str, source: &str) -> Option<String> {
    if apps.allows(namespace, source) {
        return None;
    }
    let allowed = match &apps.sources[..] {
        [] => "none is".to_owned(),
        sources => format!("only {} are", sources.join(", ")),
    };
    Some(format!(
        "charts from {source} are not allowed in this namespace: {allowed}. Set another one, or ask the platform team to add it to writers.apps.sources in the values of Berth's chart"
    ))
}
