//! Keys without a certificate: the one that signs service-account tokens, and the one that encrypts Secrets at rest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::PublicKeyData;
use zeroize::Zeroizing;

use crate::{PkiError, SecretString, issue, pem};

/// The key pair for `--service-account-signing-key-file` and `--service-account-key-file`.
#[derive(Debug, Clone)]
pub struct ServiceAccountKey {
    /// PKCS#8 (`PRIVATE KEY`), ECDSA P-256: tokens are signed with ES256.
    pub private_pem: SecretString,
    /// PKIX (`PUBLIC KEY`).
    pub public_pem: String,
}

/// Makes a key that signs service-account tokens.
pub fn generate_service_account_key() -> Result<ServiceAccountKey, PkiError> {
    let key = issue::generate_key()?;
    Ok(ServiceAccountKey {
        private_pem: pem::encode("PRIVATE KEY", key.serialized_der()).into(),
        public_pem: pem::encode("PUBLIC KEY", &key.subject_public_key_info()).to_string(),
    })
}

/// SHA-256 of the public key that belongs to the private one, in hexadecimal. [`PkiError::KeyMismatch`] when the public file, which
/// may hold several while keys are being rotated, lacks that key, since the API server would then refuse the tokens that it signs.
pub fn inspect_service_account(public_pem: &[u8], private_pem: &[u8]) -> Result<String, PkiError> {
    let trusted = pem::public_keys(public_pem)?;
    let own = pem::private_key(private_pem)?.subject_public_key_info();
    if !trusted.iter().any(|key| **key == own[..]) {
        return Err(PkiError::KeyMismatch { other_half: "the service-account public key".into() });
    }
    Ok(pem::sha256_hex(&own))
}

/// 32 random bytes in base64, for the `secretbox` provider of an `EncryptionConfiguration`.
pub fn generate_encryption_key() -> Result<SecretString, PkiError> {
    let mut bytes = Zeroizing::new([0u8; 32]);
    issue::fill_random(&mut bytes[..])?;
    Ok(STANDARD.encode(&bytes[..]).into())
}

/// Whether a text is a key as [`generate_encryption_key`] makes it. A damaged one is for a human: a new key would make
/// every Secret in the tenant unreadable.
pub fn check_encryption_key(text: &str) -> Result<(), PkiError> {
    let decoded = STANDARD.decode(text.trim()).map(Zeroizing::new);
    match decoded.as_ref().map(|bytes| bytes.len()) {
        Ok(32) => Ok(()),
        Ok(_) => Err(PkiError::garbled("encryption key", "it is not 32 bytes long")),
        Err(_) => Err(PkiError::garbled("encryption key", "it is not base64")),
    }
}
