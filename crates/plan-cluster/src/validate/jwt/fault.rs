//! What is wrong with a part of `spec.apiServer`.

use std::fmt;

/// What kube-apiserver would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Such as `authentication.jwt[0].issuer.url`, within `spec.apiServer`.
    path: String,
    /// What is wrong and what to set: a sentence without its end, and nothing of what the user wrote but names.
    why: String,
}

impl Fault {
    /// The same, in a place where the field is not below `spec.apiServer`.
    pub(super) fn elsewhere(&self) -> String {
        format!("{}: {}", self.path, self.why)
    }

    pub(crate) fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }
}

/// What is told of these faults, all within one field of the spec. None: there are none.
pub(crate) fn told(faults: &[Fault], field: &str) -> Option<String> {
    let (first, more) = faults.split_first()?;
    let more = match more.len() {
        0 => String::new(),
        n => format!(". {field} has {n} more of such faults"),
    };
    Some(format!("{first}{more}"))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.apiServer.{}: {}", self.path, self.why)
    }
}
