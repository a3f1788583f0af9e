//! What a Secret holds, as far as plans may know.

use crate::digest::sha256;
use berth_api::backup::{STORE_SECRET, keys};
use berth_api::cluster::{AUDIT_KUBECONFIG, AUDIT_SECRET};
use berth_pki::{CertInfo, KubeconfigInfo, PkiError, Root};
use serde_json::Value;
use std::collections::BTreeMap;

/// What was read of something, or why it could not be. Boxed, since facts of every Secret are remembered: a map has room for eleven values
/// from the first on, and most hold one.
pub type Read<T> = Box<Result<T, PkiError>>;

/// Facts about a Secret, none of them secret.
#[derive(Clone, Debug, Default)]
pub struct SecretFacts {
    /// Type.
    pub type_: String,
    /// Key pairs by name: `tls` for `tls.crt` and `tls.key`, unless these are a CA's.
    pub pairs: BTreeMap<String, Read<CertInfo>>,
    /// The CA in `tls.crt` and `tls.key`, with the one beside it. Boxed for itself, since most Secrets hold none.
    pub root: Option<Result<Box<Root>, PkiError>>,
    /// The service-account key pair in `tls.crt` and `tls.key`, if that is what it holds.
    pub service_account: Option<Result<String, PkiError>>,
    /// The kubeconfig in `value`.
    pub kubeconfig: Option<Read<KubeconfigInfo>>,
    /// SHA-256 of every key's bytes, in hexadecimal.
    pub digests: BTreeMap<String, String>,
    /// False if `encryption.yaml` is there and does not hold a usable key.
    pub encryption_ok: bool,
    /// What makes names that tell nothing of what they are for, from `encryption.yaml`, in hexadecimal. Nothing shows it, other than
    /// the digest of that file, which a backup records.
    pub naming_key: Option<String>,
    /// What a store's Secret says that is no secret: where it is.
    pub store: BTreeMap<String, String>,
    /// What an audit webhook's Secret holds: SHA-256 of the kubeconfig as API servers get it, in hexadecimal, or what is wrong with it.
    pub audit_webhook: Option<Result<String, String>>,
    /// Why nothing is known of a team's Secret: what the API server answered to the dry run by which it is read.
    pub refused: Option<String>,
}

impl SecretFacts {
    /// Reads a Secret's data.
    pub fn read(type_: &str, data: &BTreeMap<String, Vec<u8>>) -> Self {
        let tls = data.get("tls.crt").zip(data.get("tls.key"));
        let next_key = data.get("next.key").map(Vec::as_slice);
        let root = tls.map(|(trust, key)| Root::read(trust, key, next_key).map(Box::new));
        let mut pairs = BTreeMap::new();
        for (name, cert) in data.iter().filter_map(|(k, v)| k.strip_suffix(".crt").map(|n| (n, v))) {
            let is_root = name == "tls" && matches!(root, Some(Ok(_)));
            if let (false, Some(key)) = (is_root, data.get(&format!("{name}.key"))) {
                pairs.insert(name.to_owned(), Box::new(berth_pki::inspect_pair(cert, key)));
            }
        }
        let service_account = tls
            .filter(|(public, _)| !is_certificate(public))
            .map(|(public, private)| berth_pki::inspect_service_account(public, private));
        let kubeconfig = data.get("value").map(|v| Box::new(berth_pki::parse_kubeconfig_certificate(v)));
        let encryption_ok = data.get("encryption.yaml").is_some_and(|v| encryption_ok(v));
        let naming_key =
            data.get("encryption.yaml").map(|v| sha256(&[b"berth.dev/names-of-copies:", v.as_slice()].concat()));
        let digests = data.iter().map(|(k, v)| (k.clone(), sha256(v))).collect();
        let plain =
            |key: &&str| Some(((*key).to_owned(), std::str::from_utf8(data.get(*key)?).ok()?.trim().to_owned()));
        let store =
            if type_ == STORE_SECRET { keys::PLAIN.iter().filter_map(plain).collect() } else { BTreeMap::new() };
        let audit_webhook = (type_ == AUDIT_SECRET).then(|| audit_webhook(data));
        let type_ = type_.into();
        Self {
            type_,
            pairs,
            root,
            service_account,
            kubeconfig,
            digests,
            encryption_ok,
            naming_key,
            store,
            audit_webhook,
            refused: None,
        }
    }

    /// What is said of a team's Secret that the API server refuses to show, and the way out: the end of a sentence.
    pub fn refusal(&self) -> Option<String> {
        let why = self.refused.as_ref()?;
        Some(format!(
            "cannot be read: the API server refuses an empty dry run of a change: {why}. Correct what refuses it"
        ))
    }

    /// The key pair of that name.
    pub fn pair(&self, name: &str) -> Option<Result<&CertInfo, &PkiError>> {
        self.pairs.get(name).map(|read| (**read).as_ref())
    }

    /// The CA that it holds.
    pub fn root(&self) -> Option<Result<&Root, &PkiError>> {
        self.root.as_ref().map(|read| read.as_ref().map(AsRef::as_ref))
    }

    /// The kubeconfig in `value`.
    pub fn kubeconfig(&self) -> Option<Result<&KubeconfigInfo, &PkiError>> {
        self.kubeconfig.as_ref().map(|read| (**read).as_ref())
    }
}

fn audit_webhook(data: &BTreeMap<String, Vec<u8>>) -> Result<String, String> {
    let text = data.get(AUDIT_KUBECONFIG).ok_or_else(|| "is not there".to_owned())?;
    berth_pki::webhook_kubeconfig(text).map(|kubeconfig| sha256(kubeconfig.expose_bytes()))
}

fn is_certificate(pem: &[u8]) -> bool {
    pem.windows(17).any(|w| w == b"BEGIN CERTIFICATE")
}

fn encryption_ok(yaml: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(yaml) else { return false };
    let Ok(v) = serde_json::from_str::<Value>(text) else { return false };
    v.pointer("/resources/0/providers/0/secretbox/keys/0/secret")
        .and_then(Value::as_str)
        .is_some_and(|k| berth_pki::check_encryption_key(k).is_ok())
}
