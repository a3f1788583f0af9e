//! One file per promise; what they share is here.

mod argocd;
mod ca;
mod clocks;
mod decision;
mod formats;
mod independent;
mod issuing;
mod kubeconfig;
mod properties;
mod purity;
mod root;
mod timing;

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};

use crate::inspect::verify_der;
use crate::{
    CA_LIFETIME, CertInfo, CertSpec, KeyPairPem, LEAF_LIFETIME, PkiError, Root, Usage, inspect_pair, issue, issue_ca,
    pem,
};

pub(super) const MINUTE: SignedDuration = SignedDuration::from_mins(1);
pub(super) const DAY: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn now() -> Timestamp {
    "2026-11-20T12:00:00.75Z".parse().unwrap()
}

pub(super) fn spec(common_name: &str, usage: Usage) -> CertSpec {
    let named = matches!(usage, Usage::Server | Usage::Peer);
    CertSpec {
        common_name: common_name.into(),
        organizations: vec![],
        dns_names: if named { vec!["acme.k8s.example.com".into(), "kubernetes.default".into()] } else { vec![] },
        ip_addresses: if named { vec![ip("172.20.0.10"), ip("fd00::a")] } else { vec![] },
        usage,
        lifetime: if usage == Usage::Ca { CA_LIFETIME } else { LEAF_LIFETIME },
    }
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn ca() -> KeyPairPem {
    issue_ca(&spec("kubernetes-ca-1", Usage::Ca), now()).unwrap()
}

pub(super) fn leaf(spec: &CertSpec, ca: &KeyPairPem) -> KeyPairPem {
    issue_at(spec, ca, now())
}

pub(super) fn issue_at(spec: &CertSpec, ca: &KeyPairPem, now: Timestamp) -> KeyPairPem {
    issue(spec, ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), now).unwrap()
}

/// Whether the CA signed the certificate.
pub(super) fn verify_issued_by(leaf: &[u8], ca: &[u8]) -> Result<(), PkiError> {
    let (leaf, ca) = (pem::certificates(leaf)?, pem::certificates(ca)?);
    verify_der(&leaf[0], &ca[0])
}

pub(super) fn info(pair: &KeyPairPem) -> CertInfo {
    inspect_pair(pair.cert_pem.as_bytes(), pair.key_pem.expose_bytes()).unwrap()
}

/// What the Secret of a CA with nothing beside it is read as.
pub(super) fn root(ca: &KeyPairPem) -> Root {
    Root::read(ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes(), None).unwrap()
}

/// Runs the `openssl` command in a directory. It is a verifier that shares no code with us, so a machine without it
/// fails the test: a skipped check would look like a passed one.
pub(super) fn openssl(dir: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("openssl").args(arguments).current_dir(dir).output().unwrap_or_else(|error| {
        panic!("this test needs the `openssl` command (Debian: apt-get install openssl): {error}")
    });
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

pub(super) fn openssl_ok(dir: &Path, arguments: &[&str]) -> String {
    let (ok, text) = openssl(dir, arguments);
    assert!(ok, "openssl {arguments:?}:\n{text}");
    text
}
