//! What CNI's runtime is told when something fails.

use std::fmt;

/// CNI's numbers of errors; plugins may use those from 100 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The protocol's version is not spoken.
    Version = 1,
    /// A variable of the environment is missing or wrong.
    Environment = 4,
    /// A file or a pipe.
    Io = 5,
    /// The configuration on standard input cannot be used.
    Config = 7,
    /// The API server gave no usable answer.
    Api = 100,
    /// A pod's annotation or a NetworkAttachmentDefinition cannot be used.
    Selection = 101,
    /// A plugin that was called has failed.
    Delegate = 102,
}

/// A failure. The message names the object and the field: it becomes an Event of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn selection(message: impl Into<String>) -> Self {
        Self::new(Code::Selection, message)
    }

    pub(crate) fn io(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(Code::Io, format!("{what}: {error}"))
    }
}
