//! What goes wrong, in words that hold no credential.

use berth_contract::backup::{At, Failure};

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// For the operator.
    pub failure: Failure,
    /// Another try would end the same way.
    pub lasting: bool,
    /// What is in the store under this key is somebody else's.
    pub taken: bool,
}

/// The longest message, in bytes: a termination message holds 4096.
const LONGEST: usize = 1500;

impl Problem {
    /// Another try may help.
    pub fn brief(at: At, message: impl Into<String>) -> Self {
        Self::new(at, message.into(), false)
    }

    /// Another try would end the same way.
    pub fn lasting(at: At, message: impl Into<String>) -> Self {
        Self::new(at, message.into(), true)
    }

    fn new(at: At, mut message: String, lasting: bool) -> Self {
        message.truncate(message.floor_char_boundary(LONGEST));
        Self { failure: Failure { at, message }, lasting, taken: false }
    }

    /// Another object is there. `place`: the store, as messages begin with it.
    pub fn taken(place: &str, key: &str) -> Self {
        let message = format!("{place}: another object is at {key} already; nothing is overwritten");
        Self { taken: true, ..Self::lasting(At::Store, message) }
    }

    /// Something about files. A full disk is told as what it is.
    pub fn file(what: &str, error: &std::io::Error) -> Self {
        let help =
            if error.kind() == std::io::ErrorKind::StorageFull { ": the volume for scratch is too small" } else { "" };
        Self::brief(At::Other, format!("{what}: {error}{help}"))
    }
}
