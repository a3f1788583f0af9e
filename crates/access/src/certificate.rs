//! The certificate that callers see: files of a mounted Secret, read again when they change.

use anyhow::{Context as _, Result, ensure};
use parking_lot::RwLock;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// What is shown from now on.
#[derive(Debug)]
pub(crate) struct Certificate {
    folder: PathBuf,
    files: RwLock<(Vec<u8>, Vec<u8>)>,
    now: RwLock<Arc<CertifiedKey>>,
}

impl Certificate {
    /// From `tls.crt` and `tls.key` in that folder.
    pub(crate) fn read(folder: &Path) -> Result<Arc<Self>> {
        let files = files(folder)?;
        let now = Arc::new(pair(&files)?);
        Ok(Arc::new(Self { folder: folder.to_owned(), files: RwLock::new(files), now: RwLock::new(now) }))
    }

    /// For ever. What cannot be used is said, and what was there stays.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut said = String::new();
        loop {
            tokio::time::sleep(LOOK).await;
            match self.look() {
                Ok(is_new) => {
                    said.clear();
                    if is_new {
                        eprintln!("berth-access: shows the new certificate of {}", self.folder.display());
                    }
                }
                Err(error) => {
                    let text = format!("{error:#}");
                    if said != text {
                        eprintln!("berth-access: cannot use the new certificate, and shows the former one: {text}");
                        said = text;
                    }
                }
            }
        }
    }

    /// When the first of the chain expires, in seconds since 1970. None: what is shown cannot be read as X.509.
    pub(crate) fn expires(&self) -> Option<i64> {
        let now = self.now.read().clone();
        let end =
            |der: &CertificateDer<'_>| Some(x509_parser::parse_x509_certificate(der).ok()?.1.validity().not_after);
        let ends = now.cert.iter().map(end).collect::<Option<Vec<_>>>()?;
        ends.iter().map(x509_parser::time::ASN1Time::timestamp).min()
    }

    fn look(&self) -> Result<bool> {
        let files = files(&self.folder)?;
        if *self.files.read() == files {
            return Ok(false);
        }
        *self.now.write() = Arc::new(pair(&files)?);
        *self.files.write() = files;
        Ok(true)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now.read().clone())
    }
}

fn files(folder: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok((read("tls.crt")?, read("tls.key")?))
}

fn pair((certificate, key): &(Vec<u8>, Vec<u8>)) -> Result<CertifiedKey> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().context("tls.crt")?;
    ensure!(!chain.is_empty(), "tls.crt has no certificate");
    let key = PrivateKeyDer::from_pem_slice(key).context("tls.key")?;
    let pair = CertifiedKey::new(chain, any_supported_type(&key).context("tls.key")?);
    // In a Secret that is written in two steps one may be the older.
    pair.keys_match().context("tls.key does not belong to tls.crt")?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::KeyPair;

    fn write(folder: &Path, name: &str, key: &KeyPair) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2040, 1, 2);
        let made = params.self_signed(key).unwrap();
        std::fs::write(folder.join("tls.crt"), made.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
        made.der().to_vec()
    }

    #[test]
    fn a_new_one_is_shown_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert!(format!("{:#}", Certificate::read(folder.path()).unwrap_err()).contains("tls.crt"));
        let (first, second) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let shown = |certificate: &Certificate| certificate.now.read().cert[0].to_vec();
        let was = write(folder.path(), "access.example.com", &first);
        let certificate = Certificate::read(folder.path()).unwrap();
        assert!(!certificate.look().unwrap());
        assert_eq!(certificate.expires(), Some(2_209_075_200));
        let is = write(folder.path(), "access.example.com", &second);
        std::fs::write(folder.path().join("tls.key"), first.serialize_pem()).unwrap();
        assert_eq!(certificate.look().unwrap_err().to_string(), "tls.key does not belong to tls.crt");
        assert_eq!(shown(&certificate), was);
        std::fs::write(folder.path().join("tls.key"), second.serialize_pem()).unwrap();
        assert!(certificate.look().unwrap());
        assert_eq!(shown(&certificate), is);
    }
}
