//! Names and numbers of Go's crypto/tls, with which kubelet serves.

use super::fault::Not;
use serde_json::Value;

/// `crypto/tls` of Go, as `component-base/cli/flag` lists them.
const CIPHERS: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Key exchanges of Go 1.26.
const CURVES: [i64; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// Cipher suites and key exchanges.
pub(super) fn check(suites: &[Value], curves: &[Value], not: Not<'_>) {
    for (at, suite) in suites.iter().enumerate() {
        if suite.as_str().is_none_or(|name| !CIPHERS.contains(&name)) {
            not(&format!("tlsCipherSuites[{at}]"), "is no cipher suite of Go's crypto/tls".into());
        }
    }
    for (at, curve) in curves.iter().enumerate() {
        let is_known = curve.as_i64().is_some_and(|id| CURVES.contains(&id));
        if !is_known || curves.iter().take(at).any(|before| before == curve) {
            not(
                &format!("tlsCurvePreferences[{at}]"),
                "has to be the number of a CurveID of Go's crypto/tls, listed once".into(),
            );
        }
    }
}
