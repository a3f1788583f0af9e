//! How often to look at what is being deleted.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Two seconds at first; then a quarter of the time that it has taken so far, half a minute at most. The ends of namespaces and
/// pods are announced; and where many are deleted at once, looking at each of them all the time is what slows them down.
pub(crate) fn pace(meta: &ObjectMeta, now: Timestamp) -> SignedDuration {
    let since = meta.deletion_timestamp.as_ref().map_or(SignedDuration::ZERO, |at| now.duration_since(at.0));
    (since / 4).clamp(SignedDuration::from_secs(2), SignedDuration::from_secs(30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn what_takes_long_is_looked_at_less_often() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |seconds| {
            let at = Time(now - SignedDuration::from_secs(seconds));
            pace(&ObjectMeta { deletion_timestamp: Some(at), ..ObjectMeta::default() }, now).as_secs()
        };
        // The API server's clock may be ahead.
        assert_eq!([-60, 0, 8, 40, 100, 100_000].map(after), [2, 2, 2, 10, 25, 30]);
        assert_eq!(pace(&ObjectMeta::default(), now).as_secs(), 2);
    }
}
