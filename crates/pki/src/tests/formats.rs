//! PEM as it is found in the wild, keys from elsewhere, and secrets that stay secret.

use std::fs;

use tempfile::TempDir;

use super::{ca, info, issue_at, leaf, openssl_ok, spec, verify_issued_by};
use crate::{
    KeyPairPem, PkiError, Usage, check_encryption_key, generate_encryption_key, generate_service_account_key, inspect,
    inspect_bundle, inspect_pair, inspect_service_account,
};

#[test]
fn line_ends_text_around_and_further_certificates_do_not_matter() {
    let ca = ca();
    let made = leaf(&spec("leaf", Usage::Client), &ca);
    let plain = info(&made);
    let key = made.key_pem.expose_bytes();
    let crlf = made.cert_pem.replace('\n', "\r\n");
    let surrounded = format!("subject=CN = leaf\n\n{}\ntrailing garbage\0", made.cert_pem);
    let chain = format!("{}{}", made.cert_pem, ca.cert_pem);
    let unended = made.cert_pem.trim_end().to_owned();
    for text in [crlf, surrounded, chain, unended] {
        assert_eq!(inspect_pair(text.as_bytes(), key).as_ref(), Ok(&plain), "{text}");
    }
    let crlf_key = made.key_pem.expose().replace('\n', "\r\n");
    assert_eq!(inspect_pair(made.cert_pem.as_bytes(), crlf_key.as_bytes()), Ok(plain));
}

#[test]
fn bundles_are_read_in_their_order() {
    let (old, new) = (ca(), ca());
    let bundle = format!("{}{}", old.cert_pem, new.cert_pem);
    assert_eq!(inspect_bundle(bundle.as_bytes()), Ok(vec![info(&old), info(&new)]));
}

#[test]
fn damage_is_told_apart_and_never_quoted() {
    let pair = ca();
    let (cert, key) = (&pair.cert_pem, pair.key_pem.expose());
    let cut = &cert[..cert.len() / 2];
    let holed = cert.replacen("MII", "M!I", 1);
    let no_cert = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    for (text, expected) in [
        ("", "no such PEM block"),
        ("hello", "no such PEM block"),
        (key, "no such PEM block"),
        (cut, "has no end"),
        (no_cert, "not an X.509 certificate"),
        (&holed, "not base64"),
        ("-----BEGIN CERTIFICATE\nx", "broken line"),
    ] {
        let error = inspect(text.as_bytes()).unwrap_err();
        assert!(matches!(error, PkiError::Garbled { what: "certificate", .. }), "{error}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    let secret = key.lines().nth(1).unwrap();
    let cut_key = &key[..key.len() / 2];
    let broken_key = key.replacen("PRIVATE KEY-----", &format!("PRIVATE KEY {secret}"), 1);
    let short_key = key.replacen(&secret[..8], "", 1);
    for text in ["", cert, cut_key, &broken_key, &short_key] {
        let error = inspect_pair(cert.as_bytes(), text.as_bytes()).unwrap_err();
        assert!(matches!(error, PkiError::Garbled { what: "private key", .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains(&secret[..16]), "{error}");
    }
}

#[test]
fn a_ca_that_openssl_made_can_be_adopted() {
    let dir = TempDir::new().unwrap();
    let run = |arguments: &str| openssl_ok(dir.path(), &arguments.split(' ').collect::<Vec<_>>());
    run("ecparam -name prime256v1 -genkey -out ec256.pem"); // EC PARAMETERS, then SEC1
    run("ecparam -name secp384r1 -genkey -noout -out ec384.pem");
    run("genrsa -traditional -out rsa.pem 2048"); // PKCS#1, what kubeadm writes
    run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa8.pem");
    for key in ["ec256", "ec384", "rsa", "rsa8"] {
        run(&format!("req -x509 -new -key {key}.pem -subj /O=Old/CN=kubernetes -days 3650 -out {key}-ca.pem"));
        let read = |name: String| fs::read_to_string(dir.path().join(name)).unwrap();
        let adopted =
            KeyPairPem { cert_pem: read(format!("{key}-ca.pem")), key_pem: read(format!("{key}.pem")).into() };
        let ca = info(&adopted);
        let made = issue_at(&spec("leaf", Usage::Client), &adopted, ca.not_before + super::MINUTE);
        verify_issued_by(made.cert_pem.as_bytes(), adopted.cert_pem.as_bytes()).unwrap();
        fs::write(dir.path().join("leaf.pem"), &made.cert_pem).unwrap();
        let at = (ca.not_before + super::MINUTE).as_second();
        run(&format!("verify -attime {at} -purpose sslclient -CAfile {key}-ca.pem leaf.pem"));
    }
}

#[test]
fn openssl_reads_the_keys_that_are_made() {
    let dir = TempDir::new().unwrap();
    let key = generate_service_account_key().unwrap();
    fs::write(dir.path().join("sa.key"), key.private_pem.expose()).unwrap();
    fs::write(dir.path().join("sa.pub"), &key.public_pem).unwrap();
    assert_eq!(openssl_ok(dir.path(), &["pkey", "-in", "sa.key", "-check", "-pubout", "-out", "-"]).lines().count(), 5);
    assert_eq!(openssl_ok(dir.path(), &["pkey", "-in", "sa.key", "-pubout"]), key.public_pem);
    let text = openssl_ok(dir.path(), &["pkey", "-pubin", "-in", "sa.pub", "-noout", "-text"]);
    assert!(text.contains("prime256v1"), "{text}");
}

#[test]
fn service_account_files_belong_together() {
    let (one, two) = (generate_service_account_key().unwrap(), generate_service_account_key().unwrap());
    let both = format!("{}{}", two.public_pem, one.public_pem);
    let alone = inspect_service_account(one.public_pem.as_bytes(), one.private_pem.expose_bytes()).unwrap();
    let rotating = inspect_service_account(both.as_bytes(), one.private_pem.expose_bytes()).unwrap();
    assert_eq!(alone, rotating);
    let wrong = inspect_service_account(two.public_pem.as_bytes(), one.private_pem.expose_bytes());
    assert!(matches!(wrong, Err(PkiError::KeyMismatch { .. })));
    let swapped = inspect_service_account(one.private_pem.expose_bytes(), one.public_pem.as_bytes());
    assert!(matches!(swapped, Err(PkiError::Garbled { what: "public key", .. })));
}

#[test]
fn encryption_keys_are_32_bytes() {
    let (one, two) = (generate_encryption_key().unwrap(), generate_encryption_key().unwrap());
    assert_ne!(one.expose(), two.expose());
    assert_eq!(check_encryption_key(one.expose()), Ok(()));
    assert_eq!(check_encryption_key(&format!("{}\n", one.expose())), Ok(()));
    assert!(check_encryption_key("c2hvcnQ=").unwrap_err().to_string().contains("32 bytes"));
    assert!(check_encryption_key("not base64!").unwrap_err().to_string().contains("base64"));
}

#[test]
fn debug_shows_no_secret() {
    let pair = ca();
    let key = generate_service_account_key().unwrap();
    let encryption = generate_encryption_key().unwrap();
    let text = format!("{pair:?} {key:?} {encryption:?} {:#?}", (&pair, &key, &encryption));
    for secret in [&pair.key_pem, &key.private_pem, &encryption] {
        for line in secret.expose().lines().filter(|line| !line.starts_with("-----")) {
            assert!(!text.contains(line), "{text}");
        }
    }
    assert!(!text.contains("PRIVATE") && text.contains("not shown"), "{text}");
}

#[test]
fn foreign_certificates_are_read_for_what_they_are() {
    let dir = TempDir::new().unwrap();
    let make = |name: &str, extensions: &[&str]| {
        let file = format!("{name}.pem");
        let mut arguments = vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        arguments.extend(["-subj", "/CN=foreign", "-keyout", "/dev/null", "-out", &file]);
        arguments.extend(extensions.iter().flat_map(|e| ["-addext", e]));
        openssl_ok(dir.path(), &arguments);
        inspect(&fs::read(dir.path().join(&file)).unwrap()).unwrap()
    };
    let signer = "basicConstraints=critical,CA:TRUE";
    assert_eq!(make("ca", &[signer, "keyUsage=keyCertSign"]).usage(), Some(Usage::Ca));
    assert!(!make("powerless", &[signer, "keyUsage=digitalSignature"]).is_ca, "a CA that may not sign is none");

    let names = "subjectAltName=DNS:a.example,URI:spiffe://a/b,email:a@example.com,IP:10.0.0.1";
    let other = make("names", &["basicConstraints=CA:FALSE", "extendedKeyUsage=serverAuth,codeSigning,1.2.3.4", names]);
    assert_eq!(other.dns_names, ["a.example"]);
    assert_eq!(other.other_names, ["URI spiffe://a/b", "e-mail a@example.com"]);
    assert_eq!(other.ekus, ["1.2.3.4", "codeSigning", "serverAuth"]);
    assert_eq!(other.usage(), None);

    let mut wanted = spec("foreign", Usage::Server);
    (wanted.dns_names, wanted.ip_addresses) = (vec!["a.example".into()], vec!["10.0.0.1".parse().unwrap()]);
    let plain = make("plain", &["basicConstraints=CA:FALSE", "extendedKeyUsage=serverAuth", names]);
    let extra = plain.other_names.clone();
    let own = crate::Root { current: plain.clone(), next: None, former: vec![], trust_pem: String::new() };
    let decision = crate::decide(&wanted, Some(Ok(&plain)), &own, plain.not_before, "uid");
    let why = crate::RenewReason::SansChanged { missing: vec![], extra };
    assert_eq!(decision, crate::Decision::Renew { why });
}
