//! Verifiers that share no code with the issuer: webpki and OpenSSL.

use std::fs;
use std::time::Duration;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tempfile::TempDir;
use webpki::{EndEntityCert, Error, KeyUsage, anchor_from_trusted_cert, ring::ECDSA_P256_SHA256};

use super::{DAY, MINUTE, ca, leaf, now, openssl, openssl_ok, spec};
use crate::{KeyPairPem, Usage};

fn webpki_accepts(leaf: &KeyPairPem, ca: &KeyPairPem, usage: KeyUsage, at: jiff::Timestamp) -> Result<(), Error> {
    let ca = CertificateDer::from_pem_slice(ca.cert_pem.as_bytes()).unwrap();
    let leaf = CertificateDer::from_pem_slice(leaf.cert_pem.as_bytes()).unwrap();
    let anchor = anchor_from_trusted_cert(&ca).unwrap();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().try_into().unwrap()));
    let leaf = EndEntityCert::try_from(&leaf).unwrap();
    leaf.verify_for_usage(&[ECDSA_P256_SHA256], &[anchor], &[], at, usage, None, None).map(|_| ())
}

#[test]
fn webpki_accepts_each_usage_for_what_it_is_and_nothing_else() {
    let ca = ca();
    for (usage, server, client) in
        [(Usage::Server, true, false), (Usage::Client, false, true), (Usage::Peer, true, true)]
    {
        let leaf = leaf(&spec("leaf", usage), &ca);
        assert_eq!(webpki_accepts(&leaf, &ca, KeyUsage::server_auth(), now()).is_ok(), server, "{usage:?}");
        assert_eq!(webpki_accepts(&leaf, &ca, KeyUsage::client_auth(), now()).is_ok(), client, "{usage:?}");
    }
}

#[test]
fn webpki_refuses_another_ca_of_the_same_name_and_other_times() {
    let (ours, other) = (ca(), ca());
    let leaf = leaf(&spec("leaf", Usage::Server), &ours);
    let check = |ca, at| webpki_accepts(&leaf, ca, KeyUsage::server_auth(), at);
    assert!(check(&ours, now()).is_ok());
    assert!(check(&other, now()).is_err());
    assert!(check(&ours, now() - MINUTE * 4).is_ok(), "a verifier whose clock is 4 minutes behind");
    assert!(matches!(check(&ours, now() - MINUTE * 6), Err(Error::CertNotValidYet { .. })));
    assert!(check(&ours, now() + DAY * 90 - MINUTE).is_ok());
    assert!(matches!(check(&ours, now() + DAY * 90 + MINUTE), Err(Error::CertExpired { .. })));
}

#[test]
fn webpki_matches_every_name_and_address() {
    let ca = ca();
    let mut spec = spec("kube-apiserver", Usage::Server);
    spec.dns_names.push("*.Wild.example.com".into());
    let leaf = CertificateDer::from_pem_slice(leaf(&spec, &ca).cert_pem.as_bytes()).unwrap();
    let leaf = EndEntityCert::try_from(&leaf).unwrap();
    let matches = |name: &str| leaf.verify_is_valid_for_subject_name(&ServerName::try_from(name).unwrap()).is_ok();
    for name in ["acme.k8s.example.com", "kubernetes.default", "172.20.0.10", "fd00::a", "one.wild.example.com"] {
        assert!(matches(name), "{name}");
    }
    for name in ["kube-apiserver", "example.com", "172.20.0.11", "fd00::b", "two.one.wild.example.com"] {
        assert!(!matches(name), "{name}");
    }
}

#[test]
fn openssl_accepts_each_usage_for_what_it_is_and_shows_nothing_else() {
    let dir = TempDir::new().unwrap();
    let ca = ca();
    fs::write(dir.path().join("ca.pem"), &ca.cert_pem).unwrap();
    let at = now().as_second().to_string();
    let verify = |purpose: &str| {
        let arguments =
            ["verify", "-x509_strict", "-attime", &at, "-CAfile", "ca.pem", "-purpose", purpose, "leaf.pem"];
        openssl(dir.path(), &arguments)
    };
    for (usage, server, client, extended) in [
        (Usage::Server, true, false, "TLS Web Server Authentication"),
        (Usage::Client, false, true, "TLS Web Client Authentication"),
        (Usage::Peer, true, true, "TLS Web Server Authentication, TLS Web Client Authentication"),
    ] {
        let leaf = leaf(&spec("leaf", usage), &ca);
        fs::write(dir.path().join("leaf.pem"), &leaf.cert_pem).unwrap();
        for (purpose, accepted) in [("sslserver", server), ("sslclient", client)] {
            let (ok, text) = verify(purpose);
            assert_eq!(ok, accepted, "{usage:?} as {purpose}: {text}");
        }
        let text = openssl_ok(dir.path(), &["x509", "-in", "leaf.pem", "-noout", "-text"]);
        assert_eq!(extension(&text, "X509v3 Key Usage: critical"), "Digital Signature", "{text}");
        assert_eq!(extension(&text, "X509v3 Extended Key Usage:"), extended, "{text}");
        assert_eq!(extension(&text, "X509v3 Basic Constraints: critical"), "CA:FALSE", "{text}");
        assert!(text.contains("ASN1 OID: prime256v1") && text.contains("ecdsa-with-SHA256"), "{text}");
        let authority = extension(&text, "X509v3 Authority Key Identifier:");
        let ca_text = openssl_ok(dir.path(), &["x509", "-in", "ca.pem", "-noout", "-text"]);
        assert_eq!(authority, extension(&ca_text, "X509v3 Subject Key Identifier:"));
        assert_ne!(authority, extension(&text, "X509v3 Subject Key Identifier:"));
    }
}

#[test]
fn openssl_shows_a_ca_that_signs_leaves_only() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("ca.pem"), ca().cert_pem).unwrap();
    let at = now().as_second().to_string();
    openssl_ok(dir.path(), &["verify", "-x509_strict", "-attime", &at, "-CAfile", "ca.pem", "ca.pem"]);
    let text = openssl_ok(dir.path(), &["x509", "-in", "ca.pem", "-noout", "-text"]);
    assert_eq!(extension(&text, "X509v3 Basic Constraints: critical"), "CA:TRUE, pathlen:0", "{text}");
    assert_eq!(extension(&text, "X509v3 Key Usage: critical"), "Digital Signature, Certificate Sign, CRL Sign");
    assert!(!text.contains("Extended Key Usage") && !text.contains("rcgen"), "{text}");
    assert!(text.contains("Not Before: Nov 20 11:55:00 2026") && text.contains("Not After : Nov 17 12:00:00 2036"));
}

#[test]
fn openssl_shows_groups_and_user() {
    let dir = TempDir::new().unwrap();
    let mut spec = spec("kubernetes-admin", Usage::Client);
    spec.organizations = vec!["berth:operators".into(), "acme:admins".into()];
    fs::write(dir.path().join("leaf.pem"), leaf(&spec, &ca()).cert_pem).unwrap();
    let text = openssl_ok(dir.path(), &["x509", "-in", "leaf.pem", "-noout", "-subject"]);
    assert_eq!(text.trim(), "subject=O = acme:admins, O = berth:operators, CN = kubernetes-admin");
}

/// The line below a heading of `openssl x509 -text`.
fn extension<'a>(text: &'a str, heading: &str) -> &'a str {
    let mut lines = text.lines().skip_while(|line| line.trim() != heading);
    lines.nth(1).unwrap_or_else(|| panic!("no {heading} in\n{text}")).trim()
}
