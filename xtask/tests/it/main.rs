//! The charts, the page of messages, and `prepare.sh`.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests; clippy's own exception does not reach their helpers")]

mod charts;
mod messages;
mod prepare;
