//! What the meta cluster's audit log says of the operator.

use anyhow::Context as _;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::SystemTime;

const USER: &str = "system:serviceaccount:berth-system:berth-operator";

/// What a request of the operator was; watches, and all about leases, aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Get or list.
    Read,
    /// A change that was only tried.
    DryRun,
    /// It made an object, and that is no Event.
    Created,
    /// Any other change.
    Changed,
}

impl Sort {
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Created | Self::Changed)
    }
}

/// One request of the operator.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// When it came.
    pub(crate) at: SystemTime,
    pub(crate) sort: Sort,
}

/// All of them so far.
pub(crate) fn requests(log: &Path) -> anyhow::Result<Vec<Request>> {
    let file = std::fs::File::open(log).with_context(|| format!("audit log {}", log.display()))?;
    let mut found = vec![];
    for line in BufReader::new(file).lines() {
        let line = line?;
        if !line.contains(USER) {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        found.extend(request(&event));
    }
    Ok(found)
}

/// Writes alone.
pub(crate) fn writes(log: &Path) -> anyhow::Result<Vec<Request>> {
    Ok(requests(log)?.into_iter().filter(|r| r.sort.is_write()).collect())
}

/// How many requests fit, whoever made them. They have that text somewhere.
pub(crate) fn count(log: &Path, text: &str, fits: impl Fn(&Value) -> bool) -> anyhow::Result<usize> {
    let file = std::fs::File::open(log).with_context(|| format!("audit log {}", log.display()))?;
    let mut found = 0;
    for line in BufReader::new(file).lines() {
        let line = line?;
        found += usize::from(line.contains(text) && serde_json::from_str(&line).is_ok_and(|event| fits(&event)));
    }
    Ok(found)
}

fn request(event: &Value) -> Option<Request> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let resource = text("/objectRef/resource");
    if resource == "leases" || text("/user/username") != USER {
        return None;
    }
    let created = event.pointer("/responseStatus/code") == Some(&201.into()) && resource != "events";
    let sort = match text("/verb") {
        "get" | "list" => Sort::Read,
        "create" | "update" | "patch" | "delete" | "deletecollection" => {
            if text("/requestURI").contains("dryRun=All") {
                Sort::DryRun
            } else if created {
                Sort::Created
            } else {
                Sort::Changed
            }
        }
        _ => return None,
    };
    let at: k8s_openapi::jiff::Timestamp = text("/requestReceivedTimestamp").parse().ok()?;
    Some(Request { at: at.into(), sort })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_are_sorted() {
        let event = json!({
            "verb": "patch", "user": {"username": USER}, "requestURI": "/api/v1/namespaces/a/services/b",
            "objectRef": {"resource": "services", "namespace": "a"}, "responseStatus": {"code": 201},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.5Z",
        });
        let with = |pointer: &str, value: Value| {
            let mut event = event.clone();
            *event.pointer_mut(pointer).unwrap() = value;
            request(&event).map(|r| r.sort)
        };
        assert_eq!(request(&event).map(|r| r.sort), Some(Sort::Created));
        assert_eq!(with("/responseStatus/code", json!(200)), Some(Sort::Changed));
        assert_eq!(with("/objectRef/resource", json!("events")), Some(Sort::Changed));
        assert_eq!(with("/verb", json!("list")), Some(Sort::Read));
        assert_eq!(with("/requestURI", json!("/x?dryRun=All")), Some(Sort::DryRun));
        for (pointer, value) in [("/verb", "watch"), ("/objectRef/resource", "leases"), ("/user/username", "somebody")]
        {
            assert_eq!(with(pointer, json!(value)), None, "{value}");
        }
    }
}
