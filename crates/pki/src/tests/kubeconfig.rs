//! Kubeconfigs, read back by a parser that knows only the upstream shape.

use serde_json::{Value, json};

use super::{DAY, ca, info, leaf, now, spec};
use crate::{
    Credentials, Decision, Kubeconfig, KubeconfigTarget, Lifetime, PemSource, PkiError, RenewReason, SecretString,
    Usage, decide_kubeconfig, parse_kubeconfig_certificate,
};

fn embedded(ca: &crate::KeyPairPem) -> Kubeconfig {
    let client = leaf(&spec("kubernetes-admin", Usage::Client), ca);
    Kubeconfig {
        cluster_name: "acme".into(),
        server: "https://acme.k8s.example.com:6443".into(),
        tls_server_name: None,
        ca: PemSource::Inline(ca.cert_pem.clone()),
        user: "kubernetes-admin".into(),
        credentials: Credentials::Inline { cert_pem: client.cert_pem, key_pem: client.key_pem },
        namespace: None,
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn embedded_credentials_have_the_upstream_shape() {
    let ca = ca();
    let config = embedded(&ca);
    let Credentials::Inline { cert_pem, key_pem } = &config.credentials else { unreachable!() };
    let yaml = config.to_yaml();
    assert_eq!(yaml, config.to_yaml(), "deterministic");
    let parsed: Value = serde_saphyr::from_str(&yaml).unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "acme", "cluster": {
            "server": "https://acme.k8s.example.com:6443", "certificate-authority-data": base64(&ca.cert_pem)}}],
        "users": [{"name": "kubernetes-admin", "user": {
            "client-certificate-data": base64(cert_pem), "client-key-data": base64(key_pem.expose())}}],
        "contexts": [{"name": "kubernetes-admin@acme", "context": {"cluster": "acme", "user": "kubernetes-admin"}}],
        "current-context": "kubernetes-admin@acme",
    });
    assert_eq!(parsed, expected);
}

#[test]
fn file_references_hold_nothing_secret_and_odd_names_stay_strings() {
    let config = Kubeconfig {
        cluster_name: "1e3".into(),
        server: "https://[fd00::a]:6443".into(),
        tls_server_name: Some("kubernetes".into()),
        ca: PemSource::File("/pki/ca.crt".into()),
        user: "yes: \"no\" # \\ {".into(),
        credentials: Credentials::Files { cert: "/pki/tls.crt".into(), key: "/pki/tls.key".into() },
        namespace: Some("null".into()),
    };
    let parsed: Value = serde_saphyr::from_str(&config.to_yaml()).unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "1e3", "cluster": {"server": "https://[fd00::a]:6443",
            "tls-server-name": "kubernetes", "certificate-authority": "/pki/ca.crt"}}],
        "users": [{"name": "yes: \"no\" # \\ {", "user": {
            "client-certificate": "/pki/tls.crt", "client-key": "/pki/tls.key"}}],
        "contexts": [{"name": "yes: \"no\" # \\ {@1e3", "context": {
            "cluster": "1e3", "user": "yes: \"no\" # \\ {", "namespace": "null"}}],
        "current-context": "yes: \"no\" # \\ {@1e3",
    });
    assert_eq!(parsed, expected);
    let error = parse_kubeconfig_certificate(config.to_yaml().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("no certificate-authority-data"), "{error}");
}

#[test]
fn what_is_written_is_read() {
    let ca = ca();
    let mut config = embedded(&ca);
    config.tls_server_name = Some("kubernetes.default".into());
    config.namespace = Some("web".into());
    let found = parse_kubeconfig_certificate(config.to_yaml().as_bytes()).unwrap();
    assert_eq!(found.server, config.server);
    assert_eq!(found.tls_server_name, config.tls_server_name);
    assert_eq!(found.namespace, config.namespace);
    assert_eq!(found.client.common_name, "kubernetes-admin");
    assert_eq!(found.ca_fingerprints, [info(&ca).fingerprint_sha256]);
}

#[test]
fn broken_kubeconfigs_say_what_is_wrong_without_the_key() {
    let ca = ca();
    let config = embedded(&ca);
    let yaml = config.to_yaml();
    let key_line = yaml.lines().find(|l| l.contains("client-key-data")).unwrap();
    let secret = &key_line.trim()[40..80];
    for (text, expected) in [
        (String::new(), "not a kubeconfig"),
        ("- a\n- b\n".into(), "not a kubeconfig"),
        (yaml.replace("    client-key-data", "   client-key-data"), "not a kubeconfig"),
        (yaml.replace("current-context: \"kube", "current-context: \"cube"), "no context"),
        (yaml.replace("    cluster: \"acme\"", "    cluster: \"other\""), "no cluster \"other\""),
        (yaml.replace(key_line, ""), "no client-key-data"),
        (yaml.replace("client-certificate-data: ", "client-certificate-data: \"%\" #"), "not base64"),
    ] {
        let error = parse_kubeconfig_certificate(text.as_bytes()).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(expected) && !shown.contains(secret), "{expected}: {shown}");
    }
    let Credentials::Inline { cert_pem, .. } = config.credentials.clone() else { unreachable!() };
    let foreign: SecretString = ca.key_pem.clone();
    let mixed = Kubeconfig { credentials: Credentials::Inline { cert_pem, key_pem: foreign }, ..config.clone() };
    let error = parse_kubeconfig_certificate(mixed.to_yaml().as_bytes()).unwrap_err();
    assert!(matches!(error, PkiError::KeyMismatch { .. }), "{error}");
    assert!(!format!("{mixed:?}").contains("PRIVATE KEY"));
}

#[test]
fn a_kubeconfig_is_made_anew_for_its_server_its_trust_and_its_certificate() {
    let (ca, other) = (ca(), ca());
    let spec = spec("kubernetes-admin", Usage::Client);
    let config = embedded(&ca);
    let found = parse_kubeconfig_certificate(config.to_yaml().as_bytes()).unwrap();
    let (one, both) = ([info(&ca)], [info(&other), info(&ca)]);
    let target = KubeconfigTarget { server: &config.server, tls_server_name: None, trust: &one };
    let decide = |target, at| decide_kubeconfig(&spec, target, Some(Ok(&found)), &info(&ca), at, "uid");
    let reason = |decision| match decision {
        Decision::Renew { why } => why,
        other => panic!("{other:?}"),
    };

    assert!(matches!(decide(target, now()), Decision::Keep { .. }));
    assert_eq!(decide_kubeconfig(&spec, target, None, &info(&ca), now(), "uid"), Decision::Issue);
    let moved = KubeconfigTarget { server: "https://10.0.0.1:6443", ..target };
    assert!(matches!(reason(decide(moved, now())), RenewReason::EndpointChanged { .. }));
    let named = KubeconfigTarget { tls_server_name: Some("kubernetes"), ..target };
    assert!(matches!(reason(decide(named, now())), RenewReason::EndpointChanged { .. }));
    let rotating = KubeconfigTarget { trust: &both, ..target };
    assert_eq!(reason(decide(rotating, now())), RenewReason::TrustChanged);
    assert!(matches!(reason(decide(target, now() + DAY * 64)), RenewReason::Age { .. }));
    let error = parse_kubeconfig_certificate(b"nonsense").unwrap_err();
    let garbled = decide_kubeconfig(&spec, target, Some(Err(&error)), &info(&ca), now(), "uid");
    assert!(matches!(reason(garbled), RenewReason::Garbled { .. }));
    let short = crate::CertSpec { lifetime: Lifetime::leaf(DAY), ..spec.clone() };
    let decision = decide_kubeconfig(&short, target, Some(Ok(&found)), &info(&ca), now() + DAY, "uid");
    assert!(matches!(reason(decision), RenewReason::LifetimeChanged { .. }));
}
