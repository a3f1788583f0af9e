//! Times of many calls.

use std::time::{Duration, Instant};

/// Milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    /// How long this takes; what fails is not a time.
    pub(crate) async fn time<T>(&mut self, call: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let begin = Instant::now();
        let outcome = call.await?;
        self.add(begin.elapsed());
        Ok(outcome)
    }

    /// What that share of them does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank"
        )]
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_them() {
        let mut samples = Samples::default();
        assert!(samples.quantile(0.99).is_nan(), "nothing was measured");
        for ms in (1..=200).rev() {
            samples.add(Duration::from_millis(ms));
        }
        let of = |share| samples.quantile(share).round().to_string();
        assert_eq!([of(0.0), of(0.5), of(0.99), of(1.0)], ["1", "100", "198", "200"]);
    }
}
