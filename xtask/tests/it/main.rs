//! The charts, and `prepare.sh`.
#![expect(clippy::panic, reason = "tests; clippy's own exception does not reach their helpers")]

mod charts;
mod prepare;
