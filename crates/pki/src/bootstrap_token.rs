//! Bootstrap tokens: <https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/>.

use crate::{PkiError, SecretString, issue};

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 6;
const SECRET: usize = 16;

/// A token by which a machine joins a cluster: `<id>.<secret>`. The ID is public.
#[derive(Clone, Debug)]
pub struct BootstrapToken(SecretString);

impl BootstrapToken {
    /// A new one, of 82 random bits beside its ID.
    pub fn generate() -> Result<Self, PkiError> {
        let mut text = String::with_capacity(ID + 1 + SECRET);
        while text.len() < ID + 1 + SECRET {
            if text.len() == ID {
                text.push('.');
            }
            let mut byte = [0u8; 1];
            issue::fill_random(&mut byte)?;
            // Bytes from the last multiple of 36 on would make some characters likelier than others.
            if byte[0] < 252 {
                text.push(char::from(ALPHABET[usize::from(byte[0] % 36)]));
            }
        }
        Ok(Self(text.into()))
    }

    /// The part that names it.
    pub fn id(&self) -> &str {
        &self.0.expose()[..ID]
    }

    /// The part that proves it.
    pub fn secret(&self) -> &str {
        &self.0.expose()[ID + 1..]
    }

    /// The whole token.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_form_that_kubernetes_asks_for() {
        for _ in 0..100 {
            let token = BootstrapToken::generate().unwrap();
            assert_eq!((token.id().len(), token.secret().len()), (6, 16));
            assert_eq!(token.expose(), format!("{}.{}", token.id(), token.secret()));
            assert!([token.id(), token.secret()].concat().bytes().all(|b| ALPHABET.contains(&b)));
            assert!(!format!("{token:?}").contains(token.secret()));
        }
    }
}
