//! Why something is renewed, in values for code and in words for people.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// Why a certificate is not right. `Display` is for humans; the text is the same as long as the cause is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum RenewReason {
    /// It cannot be read.
    Garbled {
        /// The error, without any of the content.
        problem: String,
    },
    /// The private key belongs to another certificate.
    KeyMismatch,
    /// It becomes valid in the future: a clock was ahead when it was made.
    NotYetValid {
        /// Start of its validity.
        not_before: Timestamp,
    },
    /// Another CA issued it, or the CA has a new key.
    IssuerChanged {
        /// Subject of the CA that issued it.
        was: String,
        /// Subject of the CA that should.
        now: String,
    },
    /// It is for something else.
    UsageChanged {
        /// What it is for: "CA" or its extended key usages.
        was: String,
        /// What it should be for.
        now: String,
    },
    /// Another common name or other organizations.
    SubjectChanged {
        /// What it says.
        was: String,
        /// What it should say.
        now: String,
    },
    /// Other names or addresses.
    SansChanged {
        /// Wanted, but not in the certificate.
        missing: Vec<String>,
        /// In the certificate, but not wanted.
        extra: Vec<String>,
    },
    /// It has reached its renewal point.
    Age {
        /// When it was due.
        due: Timestamp,
        /// End of its validity, which may have passed.
        not_after: Timestamp,
    },
    /// It lives longer than the spec now allows, and would be due under the new lifetime.
    LifetimeChanged {
        /// When it was due under the new lifetime.
        due: Timestamp,
        /// End of its validity.
        not_after: Timestamp,
    },
    /// The kubeconfig points elsewhere.
    EndpointChanged {
        /// What it says.
        was: String,
        /// What it should say.
        now: String,
    },
    /// The kubeconfig trusts other CAs.
    TrustChanged,
}

impl fmt::Display for RenewReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbled { problem } => write!(f, "{problem}"),
            Self::KeyMismatch => write!(f, "the private key does not belong to the certificate"),
            Self::NotYetValid { not_before } => write!(f, "it is not valid before {not_before}; check the clocks"),
            Self::IssuerChanged { was, now } if was == now => write!(f, "it was issued by an earlier key of {now}"),
            Self::IssuerChanged { was, now } => write!(f, "it was issued by {was}, and should be by {now}"),
            Self::UsageChanged { was, now } => write!(f, "it is for {was}, and should be for {now}"),
            Self::SubjectChanged { was, now } => write!(f, "its subject is {was}, and should be {now}"),
            Self::SansChanged { missing, extra } => {
                let part = |word: &str, list: &[String]| match list {
                    [] => None,
                    list => Some(format!("{word} {}", list.join(", "))),
                };
                let parts: Vec<_> =
                    [part("it lacks", missing), part("it should not have", extra)].into_iter().flatten().collect();
                write!(f, "{}", parts.join("; "))
            }
            Self::Age { due, not_after } => write!(f, "it was due for renewal at {due} and expires at {not_after}"),
            Self::LifetimeChanged { due, not_after } => {
                write!(f, "with its new lifetime it was due at {due}; it expires at {not_after}")
            }
            Self::EndpointChanged { was, now } => write!(f, "it points to {was}, and should to {now}"),
            Self::TrustChanged => write!(f, "it trusts other CA certificates than it should"),
        }
    }
}
