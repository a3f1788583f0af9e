//! Waiting on state, with deadlines that only a hang reaches.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use berth_testkit::{fixtures::LATE, patience::patience};

/// How long [`until`] waits: eight minutes, or `$BERTH_E2E_DEADLINE` seconds.
fn deadline() -> Duration {
    let seconds = std::env::var("BERTH_E2E_DEADLINE").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(480))
}

/// Tries again until `check` succeeds; its last error says what was missing.
pub fn until<T>(what: &str, check: impl FnMut() -> Result<T>) -> Result<T> {
    until_within(deadline(), what, check)
}

/// [`until`] with another deadline.
pub fn until_within<T>(deadline: Duration, what: &str, mut check: impl FnMut() -> Result<T>) -> Result<T> {
    let (start, deadline) = (Instant::now(), patience(deadline));
    loop {
        match check() {
            Ok(value) => {
                if start.elapsed() > Duration::from_secs(1) {
                    println!("    {what} ({:.0} s)", start.elapsed().as_secs_f32());
                }
                return Ok(value);
            }
            Err(error) if start.elapsed() > deadline => {
                return Err(error.context(format!("{LATE} waited {:.0?} for: {what}", start.elapsed())));
            }
            Err(_) => thread::sleep(Duration::from_millis(250)),
        }
    }
}

/// Looks again and again for `time`: what holds must hold all along.
pub fn stays(what: &str, time: Duration, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        check().with_context(|| anyhow!("{what}, after {:.0?}", start.elapsed()))?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
