//! PEM in, DER out, and back. The only module that knows how keys are wrapped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use rustls_pki_types::pem::{Error, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::PkiError;

/// Every certificate of a bundle, in its order. Text around the blocks and CRLF line ends are ignored; a damaged block
/// is an error, also when it is not the first. At least one is returned.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    all(pem, "certificate")
}

/// The first certificate. Those behind it must be PEM, too.
pub(crate) fn certificate(pem: &[u8]) -> Result<CertificateDer<'static>, PkiError> {
    certificates(pem).map(|mut all| all.swap_remove(0))
}

/// Every `PUBLIC KEY` block (PKIX). At least one is returned.
pub(crate) fn public_keys(pem: &[u8]) -> Result<Vec<SubjectPublicKeyInfoDer<'static>>, PkiError> {
    all(pem, "public key")
}

fn all<T: PemObject>(pem: &[u8], what: &'static str) -> Result<Vec<T>, PkiError> {
    let blocks = T::pem_slice_iter(pem).zip(1..);
    let read = blocks.map(|(block, number)| block.map_err(|error| unreadable(what, &error).numbered(number)));
    let found = read.collect::<Result<Vec<T>, _>>()?;
    if found.is_empty() {
        return Err(unreadable(what, &Error::NoItemsFound));
    }
    Ok(found)
}

/// The first private key: PKCS#8 (`PRIVATE KEY`), SEC1 (`EC PRIVATE KEY`, P-256 and P-384) or PKCS#1
/// (`RSA PRIVATE KEY`). Berth writes PKCS#8; the other two are what a CA from elsewhere comes as.
pub(crate) fn private_key(pem: &[u8]) -> Result<Zeroizing<KeyPair>, PkiError> {
    const WHAT: &str = "private key";
    let mut der = PrivateKeyDer::from_pem_slice(pem).map_err(|error| unreadable(WHAT, &error))?;
    let candidates: &[&[u8]] = match &der {
        PrivateKeyDer::Sec1(_) => &[EC_P256, EC_P384],
        PrivateKeyDer::Pkcs1(_) => &[RSA],
        _ => &[],
    };
    let pair = if candidates.is_empty() {
        KeyPair::try_from(&PrivatePkcs8KeyDer::from(der.secret_der())).ok()
    } else {
        candidates.iter().find_map(|algorithm| {
            let wrapped = pkcs8(algorithm, der.secret_der());
            KeyPair::try_from(&PrivatePkcs8KeyDer::from(wrapped.as_slice())).ok()
        })
    };
    der.zeroize();
    pair.map(Zeroizing::new)
        .ok_or_else(|| PkiError::garbled(WHAT, "it is not an ECDSA P-256/P-384, Ed25519 or RSA key"))
}

const EC_P256: &[u8] =
    &[0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const EC_P384: &[u8] = &[0x30, 0x10, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 5, 0x2b, 0x81, 4, 0, 0x22];
const RSA: &[u8] = &[0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];

/// `PrivateKeyInfo` of RFC 5208 around a key in its older form: ring reads nothing else.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let octets = tagged(0x04, key);
    let body = Zeroizing::new([&[0x02, 0x01, 0x00], algorithm, &octets].concat());
    tagged(0x30, &body)
}

fn tagged(tag: u8, content: &[u8]) -> Zeroizing<Vec<u8>> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|b| **b == 0).count()..];
    let mut out = Zeroizing::new(Vec::with_capacity(content.len() + 10));
    out.push(tag);
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
            out.extend_from_slice(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

/// One PEM block, 64 columns, LF, with a final newline, as OpenSSL and Go write it.
pub(crate) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(STANDARD.encode(der));
    // Large enough from the start: a text that grows leaves copies of the key behind.
    let mut out = Zeroizing::new(String::with_capacity(body.len() + body.len() / 64 + 2 * label.len() + 40));
    out.extend(["-----BEGIN ", label, "-----\n"]);
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        out.extend([line, "\n"]);
        rest = tail;
    }
    out.extend(["-----END ", label, "-----\n"]);
    out
}

/// Lower-case hexadecimal SHA-256.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Lower-case hexadecimal without separators.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// The parser's own messages quote lines of the input, which may be a key; these do not.
fn unreadable(what: &'static str, error: &Error) -> PkiError {
    let problem = match error {
        Error::NoItemsFound => "there is no such PEM block",
        Error::MissingSectionEnd { .. } => "the PEM block has no end",
        Error::IllegalSectionStart { .. } => "the PEM block begins with a broken line",
        Error::Base64Decode(_) => "the PEM block is not base64",
        _ => "it is not PEM",
    };
    PkiError::garbled(what, problem)
}
