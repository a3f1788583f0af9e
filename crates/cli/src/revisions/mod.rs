//! The releases of a `Cluster`: `history`, `diff` and `rollback`.

pub(crate) mod history;
pub(crate) mod rollback;

use crate::access::Access;
use anyhow::{bail, ensure};
use berth_api::revision::RevisionOutcome;
use berth_api::{Cluster, ClusterRevision, names};
use berth_kubeio::ErrorKind;
use berth_render::Kind;
use serde_json::Value;

/// A revision as it is there, and as this build reads it. None: it cannot.
struct Revision {
    number: i64,
    live: Value,
    read: Option<ClusterRevision>,
}

impl Revision {
    /// Whether it ran, so that it may be set again.
    fn succeeded(&self) -> bool {
        let status = self.read.as_ref().and_then(|revision| revision.status.as_ref());
        status.is_some_and(|status| status.outcome == Some(RevisionOutcome::Succeeded))
    }
}

/// All of a `Cluster`, the newest first.
async fn all(access: &Access, cluster: &Cluster, name: &str) -> anyhow::Result<Vec<Revision>> {
    let home = access.control_plane_namespace(cluster, name);
    let listed = access.io.list(Kind::ClusterRevision, &*home, None).await;
    let listed = listed.map_err(|error| match error.kind {
        ErrorKind::Forbidden => anyhow::anyhow!(
            "{error}. Releases are recorded as ClusterRevisions in namespace {home}, which the platform team reads. Status.history of the Cluster has a summary: kubectl berth history {name} -n {}",
            access.namespace
        ),
        _ => access.explain(error),
    })?;
    let read = |live: Value| {
        let number = live["metadata"]["name"].as_str()?.strip_prefix("revision-")?.parse().ok()?;
        let read = serde_json::from_value::<ClusterRevision>(live.clone()).ok();
        Some(Revision { number, live, read: read.filter(|read| read.spec.number == number) })
    };
    let mut all: Vec<_> = listed.into_iter().filter_map(read).collect();
    all.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    Ok(all)
}

/// The one of that number.
fn numbered<'a>(all: &'a [Revision], number: i64, of: &str) -> anyhow::Result<&'a Revision> {
    let Some(found) = all.iter().find(|revision| revision.number == number) else {
        bail!("{of}: revision {number} is not there: {}", there(all))
    };
    ensure!(found.read.is_some(), "{of}: this version of kubectl-berth cannot read {}", names::revision(number));
    Ok(found)
}

/// The numbers of those that are there.
fn there(all: &[Revision]) -> String {
    let numbers: Vec<_> = all.iter().map(|revision| revision.number.to_string()).collect();
    if numbers.is_empty() { "none is recorded yet".into() } else { format!("there are {}", numbers.join(", ")) }
}

/// Fields of one release that differ in another, each with both values.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut all = vec![];
    walk(old, new, "spec", &mut all);
    all
}

fn walk(old: &Value, new: &Value, path: &str, all: &mut Vec<String>) {
    let (Value::Object(a), Value::Object(b)) = (old, new) else {
        if old != new {
            let shown = |value: &Value| if value.is_null() { "not set".to_owned() } else { value.to_string() };
            all.push(format!("{path}: {} → {}", shown(old), shown(new)));
        }
        return;
    };
    let mut keys: Vec<_> = a.keys().chain(b.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        walk(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let old = json!({"version": "1.36.2", "apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}});
        let new = json!({"version": "1.36.3", "apiServer": {}});
        let said = [
            "spec.apiServer.extraArgs: [{\"name\":\"v\",\"value\":\"2\"}] → not set",
            "spec.version: \"1.36.2\" → \"1.36.3\"",
        ];
        assert_eq!(differences(&old, &new), said);
        assert!(differences(&old, &old).is_empty());
    }
}
