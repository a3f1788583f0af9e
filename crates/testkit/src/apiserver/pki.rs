//! Keys and certificates of one test server: a CA, the serving certificate, service-account keys, users.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// Names and addresses in the server's certificate: where it is, and where clients of a tenant's would find it.
const SERVER_NAMES: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "api.example.com",
    "192.0.2.10",
];

/// How many groups fit into a user's certificate.
pub(crate) const MAX_GROUPS: usize = 2;

/// The PKI of a test server; user certificates are issued on demand.
pub(crate) struct Pki {
    dir: PathBuf,
    ca: Issuer<'static, KeyPair>,
    ca_pem: String,
    ca_der: Vec<u8>,
    users: Mutex<BTreeMap<String, (PathBuf, PathBuf)>>,
}

impl Pki {
    /// Creates the CA, the serving certificate and the service-account key pair in `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, "berth-testkit");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let cert = params.self_signed(&key)?;
        let pki = Self {
            dir: dir.to_owned(),
            ca_pem: cert.pem(),
            ca_der: cert.der().to_vec(),
            ca: Issuer::new(params, key),
            users: Mutex::default(),
        };
        write(&dir.join("ca.crt"), &pki.ca_pem)?;

        let mut serving = CertificateParams::new(SERVER_NAMES.map(String::from))?;
        serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pki.issue(&serving, "apiserver")?;

        let accounts = KeyPair::generate()?;
        write(&dir.join("sa.key"), &accounts.serialize_pem())?;
        write(&dir.join("sa.pub"), &accounts.public_key_pem())?;
        Ok(pki)
    }

    /// The CA certificate, PEM.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The CA certificate, DER.
    pub(crate) fn ca_der(&self) -> Vec<u8> {
        self.ca_der.clone()
    }

    /// Paths of a client certificate and key for `user` in `groups`, at most [`MAX_GROUPS`] of them.
    pub(crate) fn user(&self, user: &str, groups: &[&str]) -> Result<(PathBuf, PathBuf)> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{user:?} {groups:?}");
        if let Some(paths) = users.get(&key) {
            return Ok(paths.clone());
        }
        let paths = self.new_user(user, groups, &format!("user-{}", users.len()))?;
        users.insert(key, paths.clone());
        Ok(paths)
    }

    fn new_user(&self, user: &str, groups: &[&str], stem: &str) -> Result<(PathBuf, PathBuf)> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        ensure!(groups.len() <= MAX_GROUPS, "a certificate of the testkit carries at most {MAX_GROUPS} groups");
        // rcgen keeps one value per attribute type; the same type spelled as an OID counts as another.
        let spellings = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        for (spelling, group) in spellings.into_iter().zip(groups) {
            params.distinguished_name.push(spelling, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(&params, stem)
    }

    fn issue(&self, params: &CertificateParams, stem: &str) -> Result<(PathBuf, PathBuf)> {
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.ca)?;
        let paths = (self.dir.join(format!("{stem}.crt")), self.dir.join(format!("{stem}.key")));
        write(&paths.0, &cert.pem())?;
        write(&paths.1, &key.serialize_pem())?;
        Ok(paths)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))
}
