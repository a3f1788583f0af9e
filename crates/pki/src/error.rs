//! What can be wrong. No message quotes its input, so that an error can be logged and shown in a condition.

use jiff::Timestamp;

/// Why a certificate, key or kubeconfig could not be read or made.
///
/// The values are plain data, so that what was observed can be kept, compared and printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PkiError {
    /// Not PEM, not DER, or not the kind of object that was expected.
    #[error("the {what} cannot be read: {problem}")]
    Garbled {
        /// The object: "certificate", "private key", …
        what: &'static str,
        /// What is wrong with it, without its content.
        problem: String,
    },
    /// The private key belongs to another certificate or public key.
    #[error("the private key does not belong to {other_half}")]
    KeyMismatch {
        /// The certificate, by its subject, or the name of the public key.
        other_half: String,
    },
    /// The certificate was not signed by this CA.
    #[error("{subject} was not issued by {issuer}: {problem}")]
    NotIssuedBy {
        /// Subject of the leaf.
        subject: String,
        /// Subject of the CA it was compared with.
        issuer: String,
        /// Which check failed.
        problem: &'static str,
    },
    /// A certificate was used as a CA that is none.
    #[error("{subject} cannot sign certificates: {problem}")]
    NotACa {
        /// Subject of the certificate.
        subject: String,
        /// What it lacks.
        problem: &'static str,
    },
    /// The CA has expired or is not valid yet, so that nothing it signs would be accepted.
    #[error("CA {subject} is valid from {not_before} to {not_after}, and it is {now}")]
    IssuerNotValid {
        /// Subject of the CA.
        subject: String,
        /// Start of its validity.
        not_before: Timestamp,
        /// End of its validity.
        not_after: Timestamp,
        /// The time that was passed in.
        now: Timestamp,
    },
    /// The request makes no sense; nothing was generated.
    #[error("certificate \"{common_name}\" cannot be made as asked: {problem}")]
    Spec {
        /// Common name of the spec.
        common_name: String,
        /// What to change.
        problem: String,
    },
    /// A kubeconfig that cannot be used.
    #[error("the kubeconfig cannot be used: {problem}")]
    Kubeconfig {
        /// What is missing or wrong, without its content.
        problem: String,
    },
    /// The cryptographic library refused.
    #[error("cannot {what}: {problem}")]
    Crypto {
        /// What was attempted.
        what: &'static str,
        /// The library's words.
        problem: String,
    },
}

impl PkiError {
    pub(crate) fn garbled(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Garbled { what, problem: problem.into() }
    }

    /// Says which certificate of several cannot be read. Nobody counts the first.
    pub(crate) fn numbered(self, number: usize) -> Self {
        match self {
            Self::Garbled { what, problem } if number > 1 => Self::garbled(what, format!("number {number}: {problem}")),
            other => other,
        }
    }

    pub(crate) fn spec(spec: &crate::CertSpec, problem: impl Into<String>) -> Self {
        Self::Spec { common_name: spec.common_name.clone(), problem: problem.into() }
    }

    pub(crate) fn kubeconfig(problem: impl Into<String>) -> Self {
        Self::Kubeconfig { problem: problem.into() }
    }

    pub(crate) fn crypto(what: &'static str, problem: impl std::fmt::Display) -> Self {
        Self::Crypto { what, problem: problem.to_string() }
    }
}
