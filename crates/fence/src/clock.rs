//! This machine's wall clock: the operator reads it here alone, so that a test can give one operator a wrong clock.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

/// In a debug build: how many seconds this process' clock is ahead of the machine's; behind it, if negative. No release knows it.
pub const TEST_AHEAD: &str = "BERTH_TEST_CLOCK_AHEAD";

/// Now.
pub fn wall() -> SystemTime {
    static AHEAD: LazyLock<i64> = LazyLock::new(ahead);
    moved(SystemTime::now(), *AHEAD)
}

fn ahead() -> i64 {
    let set = || std::env::var(TEST_AHEAD).ok()?.parse().ok();
    if cfg!(debug_assertions) { set().unwrap_or_default() } else { 0 }
}

fn moved(time: SystemTime, seconds: i64) -> SystemTime {
    let by = Duration::from_secs(seconds.unsigned_abs());
    let moved = if seconds < 0 { time.checked_sub(by) } else { time.checked_add(by) };
    moved.unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_moved_both_ways() {
        let then = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
        assert_eq!(moved(then, 60), then + Duration::from_mins(1));
        assert_eq!(moved(then, -60), then - Duration::from_mins(1));
        assert_eq!(moved(then, i64::MAX), then, "there is no such time");
    }
}
