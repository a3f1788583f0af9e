//! A CA that everything of a tenant trusts, and beside it another one while CAs are rotated.

use serde::Serialize;

use crate::inspect::has_key;
use crate::{CertInfo, PkiError, inspect_bundle, pem};

/// What the Secret of a CA holds. Its `tls.crt` is what verifiers trust: one certificate, and more during a rotation.
///
/// A rotation adds the next CA behind the current one, exchanges the two once every verifier trusts both, and drops the
/// former one once nothing that it issued is left. kube-controller-manager signs with a file of one certificate only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Root {
    /// Issues leaves. It comes first in `tls.crt`, and its key is in `tls.key`.
    pub current: CertInfo,
    /// The CA that is to come: it is trusted, too, and its key is in `next.key`.
    pub next: Option<CertInfo>,
    /// Is trusted, and issues nothing any more: its key is not in the Secret.
    pub former: Vec<CertInfo>,
    /// `tls.crt` as it is, for whoever is to trust it.
    pub trust_pem: String,
}

impl Root {
    /// Reads every certificate of `tls.crt`. The first that cannot be read, or is no CA, is named in the error, and so is a key that does
    /// not belong to the first certificate.
    pub fn read(trust_pem: &[u8], key_pem: &[u8], next_key_pem: Option<&[u8]>) -> Result<Self, PkiError> {
        let mut former = inspect_bundle(trust_pem)?;
        if let Some(other) = former.iter().find(|certificate| !certificate.is_ca) {
            return Err(PkiError::NotACa { subject: other.subject.clone(), problem: "it is not a CA certificate" });
        }
        if former.is_empty() {
            return Err(PkiError::garbled("certificate", "there is none"));
        }
        let key = pem::private_key(key_pem)?;
        let current = has_key(former.remove(0), &key)?;
        let next_key = next_key_pem.and_then(|key| pem::private_key(key).ok());
        let is_next = |ca: &CertInfo| next_key.as_ref().is_some_and(|key| has_key(ca.clone(), key).is_ok());
        let next = former.iter().position(is_next).map(|at| former.remove(at));
        Ok(Self { current, next, former, trust_pem: String::from_utf8_lossy(trust_pem).into_owned() })
    }

    /// The CAs that are trusted, the one that issues first.
    pub fn trusted(&self) -> impl Iterator<Item = &CertInfo> {
        std::iter::once(&self.current).chain(&self.next).chain(&self.former)
    }
}
