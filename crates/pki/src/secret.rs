//! A string that does not leak by accident.

use std::fmt;

use zeroize::Zeroizing;

/// A private key, an encryption key, or another text that must not be printed.
///
/// It has no `Display`, no `Serialize`, and its `Debug` shows only the length; the memory is wiped when it is dropped.
/// Read it with [`SecretString::expose`], a word that a reviewer can search for.
#[derive(Clone)]
pub struct SecretString(Zeroizing<String>);

impl SecretString {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The secret itself, as the bytes of a Secret's value.
    pub fn expose_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for SecretString {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl From<Zeroizing<String>> for SecretString {
    fn from(text: Zeroizing<String>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretString([{} bytes, not shown])", self.0.len())
    }
}
