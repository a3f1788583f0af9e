//! Deadlines that a slow machine does not reach.

use std::sync::LazyLock;
use std::time::Duration;

/// How many times as slow this machine is as the one for which deadlines are written: `make test` measures it, and sets this.
pub const SLOWNESS: &str = "BERTH_SLOWNESS";

/// A deadline for what is expected to happen, as long as this machine needs. A deadline that is itself what a test shows stays as it is.
pub fn patience(deadline: Duration) -> Duration {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| factor(std::env::var(SLOWNESS).ok().as_deref()));
    deadline.mul_f64(*FACTOR)
}

/// A machine that is quicker waits as long: nobody waits for a deadline that is not reached.
fn factor(set: Option<&str>) -> f64 {
    set.and_then(|text| text.parse().ok()).filter(|factor: &f64| factor.is_finite()).unwrap_or(1.0).clamp(1.0, 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_makes_a_deadline_shorter_or_endless() {
        let of = |text| factor(Some(text)).to_string();
        assert_eq!(
            [of("1.5"), of("0.2"), of("1e9"), of("-3"), of("inf"), of("slow")],
            ["1.5", "1", "10", "1", "1", "1"]
        );
        assert_eq!(factor(None).to_string(), "1");
    }
}
