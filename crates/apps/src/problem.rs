//! What goes wrong.

use berth_contract::apps::{At, Failure};
use std::path::Path;

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// For the operator.
    pub failure: Failure,
    /// Another try within a minute would end the same way.
    pub lasting: bool,
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

    /// Something about files. A full disk is told as what it is.
    pub fn file(what: &Path, error: &std::io::Error) -> Self {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        let help = if full { ": the chart, unpacked, is larger than the volume for scratch" } else { "" };
        Self::brief(At::Other, format!("{}: {error}{help}", what.display()))
    }

    pub(crate) fn new(at: At, message: String, lasting: bool) -> Self {
        Self { failure: Failure { at, message }, lasting }
    }

    /// With a message that fits: after what is no one's to read was taken out of it, since half of that would not be found.
    #[must_use]
    pub fn cut(mut self) -> Self {
        let message = &mut self.failure.message;
        // Helm says what failed first, and why last.
        if message.len() > LONGEST {
            let (head, tail) = (LONGEST / 3, message.len() - LONGEST / 2);
            let (head, tail) = (message.floor_char_boundary(head), message.ceil_char_boundary(tail));
            *message = format!("{} … {}", &message[..head], &message[tail..]);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_its_ends() {
        let text = format!("Error: UPGRADE FAILED {} denied", "é".repeat(4000));
        let message = Problem::brief(At::Release, text).cut().failure.message;
        assert!(message.len() <= LONGEST && message.starts_with("Error: UPGRADE") && message.ends_with(" denied"));
    }
}
