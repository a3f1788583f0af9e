//! What is made inside of a Secret. No plan holds a private key.

use berth_pki::CertSpec;
use berth_render::ObjectKey;
use serde::Serialize;
use std::collections::BTreeMap;

/// How to make or complete a Secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SecretPlan {
    /// Which Secret.
    pub key: ObjectKey,
    /// Its type.
    pub type_: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// UID and resourceVersion of what is there; None: it is created, and never overwritten.
    pub existing: Option<(String, String)>,
    /// What to make; the rest of the Secret stays.
    pub entries: Vec<SecretEntry>,
}

/// One thing to have or to make inside a Secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum SecretEntry {
    /// A CA, in `tls.crt` and `tls.key`.
    Ca(CertSpec),
    /// A certificate, in `<name>.crt` and `<name>.key`.
    Leaf {
        /// Name of the two keys.
        name: String,
        /// What it says.
        spec: CertSpec,
        /// Secret of the CA.
        issuer: ObjectKey,
        /// Why it is made. Empty where it is only wanted.
        why: String,
    },
    /// A copy of what a CA's Secret says to trust.
    CaCopy {
        /// Key in the Secret.
        name: String,
        /// Secret of the CA.
        issuer: ObjectKey,
    },
    /// A copy of one key of another Secret.
    Copy {
        /// Key in the Secret.
        name: String,
        /// The other Secret.
        source: ObjectKey,
        /// Key in that one.
        of: String,
    },
    /// The kubeconfig of an audit webhook's Secret, as API servers get it, in `kubeconfig`.
    AuditWebhook {
        /// The other Secret.
        source: ObjectKey,
    },
    /// A service-account key pair: `tls.crt` public, `tls.key` private.
    ServiceAccountKey,
    /// An `EncryptionConfiguration` with a new secretbox key, in `encryption.yaml`.
    EncryptionConfig,
    /// A kubeconfig with a certificate of its own, in `value`.
    Kubeconfig {
        /// Name of the cluster entry.
        cluster: String,
        /// `https://host:port`.
        server: String,
        /// The user's certificate.
        spec: CertSpec,
        /// Secret of the CA that issues and that is trusted.
        issuer: ObjectKey,
        /// Why it is made. Empty where it is only wanted.
        why: String,
    },
}

impl SecretEntry {
    /// A certificate as it should be.
    pub fn leaf(name: impl Into<String>, spec: CertSpec, issuer: ObjectKey) -> Self {
        Self::Leaf { name: name.into(), spec, issuer, why: String::new() }
    }

    /// A copy of one key of another Secret, under the same name.
    pub fn copy(name: impl Into<String>, source: ObjectKey) -> Self {
        let name = name.into();
        Self::Copy { of: name.clone(), name, source }
    }

    /// Made once and never replaced; everything else follows its specification.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Self::Ca(_) | Self::ServiceAccountKey | Self::EncryptionConfig)
    }

    pub(crate) fn because(mut self, reason: String) -> Self {
        if let Self::Leaf { why, .. } | Self::Kubeconfig { why, .. } = &mut self {
            *why = reason;
        }
        self
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Ca(spec) => format!("CA {}", spec.common_name),
            Self::Leaf { name, why, .. } => format!("certificate {name} ({why})"),
            Self::CaCopy { name, .. } => format!("copy of the CA in {name}"),
            Self::Copy { of, source, .. } => format!("copy of {of} of {source}"),
            Self::AuditWebhook { source } => format!("kubeconfig of {source}"),
            Self::ServiceAccountKey => "service-account key".into(),
            Self::EncryptionConfig => "encryption key".into(),
            Self::Kubeconfig { why, .. } => format!("kubeconfig ({why})"),
        }
    }
}
