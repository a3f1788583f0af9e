//! One line for each `Cluster`.

use crate::age::age;
use crate::output::columns;
use crate::paint::{bad, good, safe, strong, warn};
use berth_api::Cluster;
use berth_api::conditions::{ConditionType, find};
use jiff::Timestamp;
use serde::Serialize;

/// What the line says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) available: bool,
    pub(super) phase: Option<String>,
    pub(super) version: Option<String>,
    pub(super) endpoint: Option<String>,
    /// Since when it is ready, or not.
    pub(super) since: Option<Timestamp>,
    /// What `Ready` says, if it is not true.
    pub(super) message: Option<String>,
}

/// The line of one.
pub(super) fn row(cluster: &Cluster) -> Row {
    let status = cluster.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready);
    let is = |type_| find(&status.conditions, type_).is_some_and(|c| c.status == "True");
    let observed = status.observed_generation.is_some() && status.observed_generation == cluster.metadata.generation;
    Row {
        namespace: cluster.metadata.namespace.clone().unwrap_or_default(),
        name: cluster.metadata.name.clone().unwrap_or_default(),
        ready: is(ConditionType::Ready) && observed,
        available: is(ConditionType::Available),
        phase: status.phase.clone(),
        version: status.version.clone(),
        endpoint: status.endpoints.first().map(|e| format!("{}:{}", e.host, e.port)),
        since: ready.map(|c| c.last_transition_time.0),
        message: ready.filter(|c| c.status != "True").map(|c| c.message.clone()),
    }
}

/// All lines.
pub(super) fn table(rows: &[Row], now: Timestamp, with_namespace: bool) -> String {
    let mut head = vec!["NAME", "PHASE", "AVAILABLE", "VERSION", "ENDPOINT", "SINCE", "MESSAGE"];
    if with_namespace {
        head.insert(0, "NAMESPACE");
    }
    let mut all = vec![head.into_iter().map(strong).collect()];
    for row in rows {
        let or_dash = |text: &Option<String>| safe(text.as_deref().unwrap_or("-"));
        let phase = row.phase.as_deref().unwrap_or("-");
        let paint = if row.ready {
            good
        } else if row.available {
            warn
        } else {
            bad
        };
        let mut line = vec![
            safe(&row.name),
            paint(phase),
            if row.available { "yes" } else { "no" }.to_owned(),
            or_dash(&row.version),
            or_dash(&row.endpoint),
            row.since.map_or_else(|| "-".to_owned(), |s| age(s, now)),
        ];
        line.extend(row.message.as_deref().map(cut));
        if with_namespace {
            line.insert(0, safe(&row.namespace));
        }
        all.push(line);
    }
    columns(&all)
}

/// A line is a line.
fn cut(message: &str) -> String {
    const MOST: usize = 80;
    let message = safe(message);
    if message.chars().count() <= MOST {
        return message;
    }
    let mut short: String = message.chars().take(MOST).collect();
    short.push('…');
    short
}
