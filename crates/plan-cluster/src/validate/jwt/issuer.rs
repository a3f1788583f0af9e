//! The issuer of an authenticator.

use super::fault::Fault;
use super::shape::{list, text};
use super::url;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn check(issuer: &Value, path: &str, of_service_accounts: &[String], faults: &mut Vec<Fault>) {
    let mut fault = |field: &str, why: &str| faults.push(Fault::new(format!("{path}.{field}"), why));
    let (own, discovery) = (text(issuer, "url"), text(issuer, "discoveryURL"));
    if own.is_empty() {
        fault("url", "is missing. Set the URL that tokens have as iss");
    } else if of_service_accounts.iter().any(|other| other == own) {
        fault(
            "url",
            "is an issuer of service-account tokens, which kube-apiserver accepts without an authenticator. Remove this one",
        );
    }
    for why in url::faults(own).into_iter().filter(|_| !own.is_empty()) {
        fault("url", why);
    }
    if !discovery.is_empty() {
        if !own.is_empty() && own.trim_end_matches('/') == discovery.trim_end_matches('/') {
            fault("discoveryURL", "is the same as url. Remove it");
        }
        for why in url::faults(discovery) {
            fault("discoveryURL", why);
        }
    }
    audiences(issuer, &mut fault);
    let bundle = text(issuer, "certificateAuthority");
    if !bundle.is_empty() && !is_bundle(bundle) {
        fault("certificateAuthority", "has no certificate, or one that cannot be read. Set one or more in PEM");
    }
    if !["", "cluster", "controlplane"].contains(&text(issuer, "egressSelectorType")) {
        fault("egressSelectorType", "has to be cluster or controlplane");
    }
}

fn audiences(issuer: &Value, fault: &mut impl FnMut(&str, &str)) {
    let all = list(issuer, "audiences");
    if all.is_empty() {
        fault("audiences", "is empty. List what tokens have as aud, such as the ID of the client");
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, one) in all.iter().enumerate() {
        let (field, one) = (format!("audiences[{at}]"), one.as_str().unwrap_or_default());
        if one.is_empty() {
            fault(&field, "is empty");
        }
        if !seen.insert(one) {
            fault(&field, "is listed twice");
        }
    }
    match (all.len(), text(issuer, "audienceMatchPolicy")) {
        (_, "MatchAny") | (1, "") => {}
        (1, _) => fault("audienceMatchPolicy", "has to be MatchAny, or not set"),
        _ => fault("audienceMatchPolicy", "has to be MatchAny, since there are several audiences"),
    }
}

/// Whether kube-apiserver finds a certificate, and can read all that it finds.
fn is_bundle(pem: &str) -> bool {
    berth_pki::inspect_bundle(pem.as_bytes()).is_ok_and(|all| !all.is_empty())
}
