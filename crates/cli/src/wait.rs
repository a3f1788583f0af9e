//! Waiting for what Berth was asked for.

use crate::{output, paint};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// From one look to the next.
const PACE: Duration = Duration::from_secs(2);

/// Looks until it has ended, or for so long; None: not in time. What is said is printed when it changes.
pub(crate) async fn until<T, F>(timeout: SignedDuration, mut look: F) -> anyhow::Result<Option<T>>
where
    F: AsyncFnMut() -> anyhow::Result<(Option<T>, String)>,
{
    let end = Timestamp::now() + timeout;
    let mut said = String::new();
    loop {
        let (ended, message) = look().await?;
        if message != said {
            output::print(&format!("{}\n", paint::safe(&message)))?;
            said = message;
        }
        if ended.is_some() {
            return Ok(ended);
        }
        if Timestamp::now() >= end {
            output::note(&format!("not done within {timeout:#}; Berth goes on with it"));
            return Ok(None);
        }
        tokio::time::sleep(PACE).await;
    }
}
