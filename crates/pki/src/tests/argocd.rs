//! What Argo CD is told of a cluster, read back by a parser that knows only the shape that its documentation has.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{ca, leaf, spec};
use crate::{Kubeconfig, KubeconfigInfo, Usage, argocd_cluster, parse_argocd_cluster, parse_kubeconfig_certificate};

fn kubeconfig() -> (String, Kubeconfig) {
    let ca = ca();
    let client = leaf(&spec("berth:argocd", Usage::Client), &ca);
    let kubeconfig = Kubeconfig {
        cluster_name: "acme".into(),
        server: "https://acme.k8s.example.com:6443".into(),
        ca_pem: ca.cert_pem,
        user: "berth:argocd".into(),
        cert_pem: client.cert_pem,
        key_pem: client.key_pem,
    };
    (kubeconfig.to_yaml(), kubeconfig)
}

/// As a policy needs it, which cannot decode base64.
fn padded(pem: &str) -> String {
    format!("{pem}{}", "\n".repeat(pem.len().next_multiple_of(9) - pem.len()))
}

fn read(server: &str, config: &str) -> Result<KubeconfigInfo, String> {
    parse_argocd_cluster(server, config.as_bytes()).map_err(|error| format!("{error} {error:?}"))
}

#[test]
fn it_has_the_documented_shape_and_says_what_the_kubeconfig_says() {
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(padded(text));
    let (yaml, of) = kubeconfig();
    let told = argocd_cluster(yaml.as_bytes()).unwrap();
    let expected = json!({"tlsClientConfig": {
        "caData": base64(&of.ca_pem), "certData": base64(&of.cert_pem), "keyData": base64(of.key_pem.expose()),
    }});
    assert_eq!(serde_json::from_str::<Value>(told.config.expose()).unwrap(), expected);
    for part in ["{\"tlsClientConfig\":{\"caData\":\"", "\", \"certData\":\"", "\",  \"keyData\":\"", "\"}}"] {
        let at = told.config.expose().find(part).unwrap();
        assert_eq!((at % 3, part.len() % 3), (0, 0), "{part}");
    }
    assert!(!format!("{told:?}").contains("tlsClientConfig"));
    let info = parse_kubeconfig_certificate(yaml.as_bytes()).unwrap();
    assert_eq!(read(&told.server, told.config.expose()), Ok(info));
}

#[test]
fn whatever_else_is_in_it_is_written_anew_and_never_quoted() {
    let (yaml, of) = kubeconfig();
    let told = argocd_cluster(yaml.as_bytes()).unwrap();
    let good = told.config.expose();
    let secret = &good[good.find("keyData").unwrap() + 40..][..40];
    let other = kubeconfig().1;
    let another = base64::engine::general_purpose::STANDARD.encode(&other.cert_pem);
    let own = base64::engine::general_purpose::STANDARD.encode(padded(&of.cert_pem));
    for (config, expected) in [
        (String::new(), "not what Berth tells Argo CD"),
        (good.replace("{\"tls", "{\"bearerToken\":\"x\",\"tls"), "not what Berth tells Argo CD"),
        (good.replace("{\"caData", "{\"serverName\":\"x\",\"caData"), "not what Berth tells Argo CD"),
        (good.replace("{\"caData", "{\"insecure\":true,\"caData"), "does not ask for the server's certificate"),
        (good.replace("\"certData\":\"", "\"certData\":\"%"), "not base64"),
        (good.replace(&own, &another), "does not belong"),
    ] {
        let error = read("https://a", &config).unwrap_err();
        assert!(error.contains(expected) && !error.contains(secret), "{expected}: {error}");
    }
    assert!(argocd_cluster(b"nonsense").is_err());
}
