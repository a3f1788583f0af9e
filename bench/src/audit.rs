//! What the meta cluster's audit log says of the operator.

use anyhow::Context as _;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::SystemTime;

const USER: &str = "system:serviceaccount:berth-system:berth-operator";

/// One request of the operator that changed something, leases and dry runs aside.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// When it came.
    pub(crate) at: SystemTime,
    /// It made an object, and that is no Event.
    pub(crate) made: bool,
}

/// All of them so far.
pub(crate) fn writes(log: &Path) -> anyhow::Result<Vec<Write>> {
    let file = std::fs::File::open(log).with_context(|| format!("audit log {}", log.display()))?;
    let mut found = vec![];
    for line in BufReader::new(file).lines() {
        let line = line?;
        if !line.contains(USER) {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        found.extend(write(&event));
    }
    Ok(found)
}

fn write(event: &Value) -> Option<Write> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let verb = ["create", "update", "patch", "delete", "deletecollection"].contains(&text("/verb"));
    let resource = text("/objectRef/resource");
    let dry = text("/requestURI").contains("dryRun=All");
    if !verb || dry || resource == "leases" || text("/user/username") != USER {
        return None;
    }
    let at: k8s_openapi::jiff::Timestamp = text("/requestReceivedTimestamp").parse().ok()?;
    Some(Write {
        at: at.into(),
        made: event.pointer("/responseStatus/code") == Some(&201.into()) && resource != "events",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_counts_as_a_write() {
        let event = json!({
            "verb": "patch", "user": {"username": USER}, "requestURI": "/api/v1/namespaces/a/services/b",
            "objectRef": {"resource": "services", "namespace": "a"}, "responseStatus": {"code": 201},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.5Z",
        });
        let with = |pointer: &str, value: Value| {
            let mut event = event.clone();
            *event.pointer_mut(pointer).unwrap() = value;
            write(&event)
        };
        assert!(write(&event).unwrap().made);
        assert!(!with("/responseStatus/code", json!(200)).unwrap().made);
        assert!(!with("/objectRef/resource", json!("events")).unwrap().made);
        assert!(with("/verb", json!("get")).is_none());
        assert!(with("/objectRef/resource", json!("leases")).is_none());
        assert!(with("/requestURI", json!("/x?dryRun=All")).is_none());
        assert!(with("/user/username", json!("somebody")).is_none());
    }
}
