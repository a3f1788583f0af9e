//! When an open connection is ended by a gateway that ends itself.

use std::time::Duration;

/// After how long of `drain`. Connections that follow each other are far apart, and any number of them is spread evenly: their clients come back to
/// the other gateway a few at a time, and list anew a few at a time.
pub(crate) fn after(number: u64, drain: Duration) -> Duration {
    // Multiples of the golden ratio, modulo one.
    let share = u32::try_from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or_default();
    drain.mul_f64(f64::from(share) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_are_still_open_they_are_spread() {
        let drain = Duration::from_mins(10);
        for (what, of) in [
            ("the first", (0..1000).collect::<Vec<u64>>()),
            ("late ones", (5_000_000..5_001_000).collect()),
            ("every tenth", (0..10_000).step_by(10).collect()),
        ] {
            let mut each_minute = [0; 11];
            for number in of {
                let when = after(number, drain);
                assert!(when <= drain);
                each_minute[usize::try_from(when.as_secs() / 60).unwrap()] += 1;
            }
            assert!(each_minute[..10].iter().all(|count| (80..=120).contains(count)), "{what}: {each_minute:?}");
        }
        let (one, next) = (after(7, drain), after(8, drain));
        assert!(one.abs_diff(next) > Duration::from_mins(3), "{one:?} {next:?}");
        assert_eq!(after(7, Duration::ZERO), Duration::ZERO);
    }
}
