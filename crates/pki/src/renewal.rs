//! When: the renewal point of a leaf, and the warnings of a CA. Arithmetic on given times, no clock.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{CertInfo, Lifetime};

/// The moment from which a leaf certificate is renewed.
///
/// It is the fraction of the life, counted from the moment of issue, with a jitter of at most ±5 % that depends on
/// `jitter_seed` alone. With the UID of the owner as the seed, tenants made together do not renew together, while the
/// certificates of one tenant do, and cost it one rollout. Never after the end of validity.
///
/// A certificate that lives longer than the spec allows is renewed as if it lived as long as the spec says; one that
/// lives shorter keeps its own time. So a changed lifetime takes effect at the next renewal, or at once when that is
/// overdue, and a new default does not renew a whole fleet on the day of the upgrade.
pub fn renew_at(info: &CertInfo, lifetime: Lifetime, jitter_seed: &str) -> Timestamp {
    point(info, lifetime, info.life().min(lifetime.total), jitter_seed)
}

/// The same for the certificate's own life, whatever the spec says now.
pub(crate) fn renew_at_by_age(info: &CertInfo, lifetime: Lifetime, jitter_seed: &str) -> Timestamp {
    point(info, lifetime, info.life(), jitter_seed)
}

fn point(info: &CertInfo, lifetime: Lifetime, life: SignedDuration, jitter_seed: &str) -> Timestamp {
    let offset = lifetime.renew_offset(life);
    let jitter = i128::from(offset.as_secs()) * i128::from(per_myriad(jitter_seed)) / 10_000;
    let jitter = SignedDuration::from_secs(i64::try_from(jitter).unwrap_or(0));
    let at = info.issued_at().saturating_add(offset.saturating_add(jitter)).unwrap_or(info.not_after);
    at.min(info.not_after)
}

/// -500 to 500.
fn per_myriad(seed: &str) -> i16 {
    let digest = Sha256::digest(seed.as_bytes());
    let number = digest.iter().take(8).fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    i16::try_from(number % 1001).unwrap_or(500) - 500
}

/// How urgent the end of a CA is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Severity {
    /// Less than a quarter of its life is left: plan a rotation.
    Soon,
    /// Less than a tenth is left: leaf certificates may already be cut short.
    Urgent,
    /// It has expired: nothing that it signed is accepted any more.
    Expired,
}

/// A CA that nears its end. Only a human can start its rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaWarning {
    /// How urgent it is.
    pub severity: Severity,
    /// Subject of the CA.
    pub subject: String,
    /// End of its validity.
    pub not_after: Timestamp,
}

impl fmt::Display for CaWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, subject, not_after } = self;
        match severity {
            Severity::Soon => write!(f, "CA {subject} expires at {not_after}; plan its rotation"),
            Severity::Urgent => write!(f, "CA {subject} expires at {not_after}; rotate it now"),
            Severity::Expired => write!(f, "CA {subject} expired at {not_after}; nothing it signed is accepted"),
        }
    }
}

/// Warns when less than a quarter of a CA's life is left. The text depends on the certificate and the severity only, so
/// that a condition made from it changes three times in ten years.
pub fn ca_expiry_warning(info: &CertInfo, now: Timestamp) -> Option<CaWarning> {
    let left = info.not_after.duration_since(now).as_secs();
    let life = info.life().as_secs();
    let severity = match () {
        () if left <= 0 => Severity::Expired,
        () if left < life / 10 => Severity::Urgent,
        () if left < life / 4 => Severity::Soon,
        () => return None,
    };
    Some(CaWarning { severity, subject: info.subject.clone(), not_after: info.not_after })
}
