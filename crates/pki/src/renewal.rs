//! When: the renewal point of a leaf, and the warnings of a CA. Arithmetic on given times, no clock.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::CertInfo;

/// The moment from which a leaf certificate is renewed.
///
/// It is two thirds of the life, counted from the moment of issue, with a jitter of at most ±5 % that depends on
/// `jitter_seed` alone. With the UID of the owner as the seed, tenants made together do not renew together, while the
/// certificates of one tenant do, and cost it one rollout. Never after the end of validity.
///
/// A certificate that lives longer than the spec allows is renewed as if it lived as long as the spec says; one that
/// lives shorter keeps its own time. So a changed lifetime takes effect at the next renewal, or at once when that is
/// overdue, and a new default does not renew a whole fleet on the day of the upgrade.
pub fn renew_at(info: &CertInfo, lifetime: SignedDuration, jitter_seed: &str) -> Timestamp {
    point(info, info.life().min(lifetime), jitter_seed)
}

/// The same for the certificate's own life, whatever the spec says now.
pub(crate) fn renew_at_by_age(info: &CertInfo, jitter_seed: &str) -> Timestamp {
    point(info, info.life(), jitter_seed)
}

fn point(info: &CertInfo, life: SignedDuration, jitter_seed: &str) -> Timestamp {
    let offset = life.as_secs() * 2 / 3;
    let jitter = offset * i64::from(per_myriad(jitter_seed)) / 10_000;
    let at = info.issued_at().saturating_add(SignedDuration::from_secs(offset + jitter)).unwrap_or(info.not_after);
    at.min(info.not_after)
}

/// -500 to 500.
fn per_myriad(seed: &str) -> i16 {
    let digest = Sha256::digest(seed.as_bytes());
    let number = digest.iter().take(8).fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    i16::try_from(number % 1001).unwrap_or(500) - 500
}

/// Warns when less than a quarter of a CA's life is left; with less than a tenth, leaf certificates may already be cut short. Only a
/// human can start a CA's rotation. The text changes three times in ten years, so that a condition made from it does not change often.
pub fn ca_expiry_warning(info: &CertInfo, now: Timestamp) -> Option<String> {
    let CertInfo { subject, not_after, .. } = info;
    let left = not_after.duration_since(now).as_secs();
    let life = info.life().as_secs();
    match () {
        () if left <= 0 => Some(format!("CA {subject} expired at {not_after}; nothing it signed is accepted")),
        () if left < life / 10 => Some(format!(
            "CA {subject} expires at {not_after}, and Berth cannot rotate CAs yet: move to a new Cluster now"
        )),
        () if left < life / 4 => Some(format!(
            "CA {subject} expires at {not_after}, and Berth cannot rotate CAs yet: plan a new Cluster before that"
        )),
        () => None,
    }
}
