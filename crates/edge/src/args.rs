//! Values of arguments.

use jiff::SignedDuration;
use std::time::Duration;

/// Such as 90s, 10m or 1h 30m.
///
/// # Errors
/// If it is no duration, or less than nothing.
pub fn duration(text: &str) -> anyhow::Result<Duration> {
    Ok(Duration::try_from(text.parse::<SignedDuration>()?)?)
}
