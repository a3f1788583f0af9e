//! The audit log of the test server: who did what, as the server saw it.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

/// One finished request (stage `ResponseComplete` or `Panic`) at level Metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// User, the impersonated one where there is one.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name, with `/status` and the like for a subresource; empty for other paths.
    pub resource: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Object name, empty for lists and for a `create` with `generateName`.
    pub name: String,
    /// HTTP status.
    pub code: u16,
    /// Whether it was asked with `dryRun=All`.
    pub dry_run: bool,
    /// The client's `User-Agent`.
    pub user_agent: String,
    /// Path and query.
    pub uri: String,
}

impl AuditEvent {
    /// Whether it changed something: a mutating verb that succeeded and was no dry run.
    pub fn is_write(&self) -> bool {
        let mutating = matches!(&*self.verb, "create" | "update" | "patch" | "delete" | "deletecollection");
        mutating && !self.dry_run && (200..300).contains(&self.code) && !self.is_review()
    }

    /// Reviews are POSTs that store nothing.
    fn is_review(&self) -> bool {
        matches!(&*self.group, "authorization.k8s.io" | "authentication.k8s.io")
    }
}

/// Bytes of complete lines from `offset` on.
pub(crate) fn read(path: &Path, offset: u64) -> Result<Vec<AuditEvent>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let bytes = &bytes[usize::try_from(offset)?.min(bytes.len())..];
    let complete = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    bytes[..complete]
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(serde_json::from_slice::<Value>)
        .filter(|line| line.as_ref().map_or(true, |v| v["stage"] != "ResponseStarted"))
        .map(|line| Ok(parse(&line?)))
        .collect()
}

fn parse(line: &Value) -> AuditEvent {
    let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let user = [text("/impersonatedUser/username"), text("/user/username")].into_iter().find(|u| !u.is_empty());
    let (resource, sub) = (text("/objectRef/resource"), text("/objectRef/subresource"));
    let uri = text("/requestURI");
    AuditEvent {
        user: user.unwrap_or_default(),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource: if sub.is_empty() { resource } else { format!("{resource}/{sub}") },
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: line.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0).try_into().unwrap_or(0),
        dry_run: uri.split(['?', '&']).any(|p| p.starts_with("dryRun=All")),
        user_agent: text("/userAgent"),
        uri,
    }
}
