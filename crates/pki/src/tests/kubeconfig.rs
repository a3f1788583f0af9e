//! Kubeconfigs, read back by a parser that knows only the upstream shape.

use serde_json::{Value, json};

use super::{DAY, ca, info, leaf, now, root, spec};
use crate::{
    Decision, Kubeconfig, PkiError, RenewReason, Root, Usage, decide_kubeconfig, parse_kubeconfig_certificate,
};

fn embedded(ca: &crate::KeyPairPem) -> Kubeconfig {
    let client = leaf(&spec("kubernetes-admin", Usage::Client), ca);
    Kubeconfig {
        cluster_name: "acme".into(),
        server: "https://acme.k8s.example.com:6443".into(),
        ca_pem: ca.cert_pem.clone(),
        user: "kubernetes-admin".into(),
        cert_pem: client.cert_pem,
        key_pem: client.key_pem,
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
    let (cert_pem, key_pem) = (&config.cert_pem, &config.key_pem);
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
fn odd_names_stay_strings() {
    let mut config = embedded(&ca());
    config.cluster_name = "1e3".into();
    config.user = "yes: \"no\" # \\ {".into();
    let parsed: Value = serde_saphyr::from_str(&config.to_yaml()).unwrap();
    assert_eq!((&parsed["clusters"][0]["name"], &parsed["users"][0]["name"]), (&json!("1e3"), &json!(config.user)));
    assert_eq!(parsed["current-context"], format!("{}@1e3", config.user));
}

#[test]
fn what_is_written_is_read() {
    let ca = ca();
    let config = embedded(&ca);
    let found = parse_kubeconfig_certificate(config.to_yaml().as_bytes()).unwrap();
    assert_eq!(found.server, config.server);
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
    let mixed = Kubeconfig { key_pem: ca.key_pem.clone(), ..config.clone() };
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
    let one = root(&ca);
    let server = &*config.server;
    let decide = |server, at| decide_kubeconfig(&spec, server, Some(Ok(&found)), &one, at, "uid");
    let reason = |decision| match decision {
        Decision::Renew { why } => why,
        other => panic!("{other:?}"),
    };

    assert!(matches!(decide(server, now()), Decision::Keep { .. }));
    assert_eq!(decide_kubeconfig(&spec, server, None, &one, now(), "uid"), Decision::Issue);
    assert!(matches!(reason(decide("https://10.0.0.1:6443", now())), RenewReason::EndpointChanged { .. }));
    let named =
        config.to_yaml().replace("certificate-authority-data", "tls-server-name: x\n    certificate-authority-data");
    let named = parse_kubeconfig_certificate(named.as_bytes()).unwrap();
    let named = decide_kubeconfig(&spec, server, Some(Ok(&named)), &one, now(), "uid");
    assert!(matches!(reason(named), RenewReason::EndpointChanged { .. }));
    let rotating = Root { next: Some(info(&other)), ..one.clone() };
    let decision = decide_kubeconfig(&spec, server, Some(Ok(&found)), &rotating, now(), "uid");
    assert_eq!(reason(decision), RenewReason::TrustChanged);
    assert!(matches!(reason(decide(server, now() + DAY * 64)), RenewReason::Age { .. }));
    let error = parse_kubeconfig_certificate(b"nonsense").unwrap_err();
    let garbled = decide_kubeconfig(&spec, server, Some(Err(&error)), &one, now(), "uid");
    assert!(matches!(reason(garbled), RenewReason::Garbled { .. }));
    let short = crate::CertSpec { lifetime: DAY, ..spec.clone() };
    let decision = decide_kubeconfig(&short, server, Some(Ok(&found)), &one, now() + DAY, "uid");
    assert!(matches!(reason(decision), RenewReason::LifetimeChanged { .. }));
}
