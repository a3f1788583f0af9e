//! One line for each `Cluster`.

use super::report::Report;
use crate::age::age;
use crate::output::columns;
use crate::paint::{safe, strong};
use berth_api::conditions::shortened;
use jiff::Timestamp;

/// All lines.
pub(super) fn table(rows: &[Report], now: Timestamp, with_namespace: bool) -> String {
    let mut head = vec!["NAME", "PHASE", "AVAILABLE", "VERSION", "ENDPOINT", "SINCE", "MESSAGE"];
    if with_namespace {
        head.insert(0, "NAMESPACE");
    }
    let mut all = vec![head.into_iter().map(strong).collect()];
    for row in rows {
        let or_dash = |text: &Option<String>| safe(text.as_deref().unwrap_or("-"));
        let phase = row.phase.as_deref().unwrap_or("-");
        let mut line = vec![
            safe(&row.name),
            row.painted(phase),
            if row.available { "yes" } else { "no" }.to_owned(),
            or_dash(&row.version),
            or_dash(&row.endpoint),
            row.since.map_or_else(|| "-".to_owned(), |s| age(s, now)),
        ];
        line.extend(row.not_ready().map(cut));
        if with_namespace {
            line.insert(0, safe(&row.namespace));
        }
        all.push(line);
    }
    columns(&all)
}

/// A line is a line; `status NAME` shows the whole message.
fn cut(message: &str) -> String {
    shortened(&safe(message), 80)
}
