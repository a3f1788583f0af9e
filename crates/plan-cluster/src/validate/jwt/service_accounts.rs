//! Issuers of service-account tokens.

use super::fault::Fault;
use super::url;
use std::collections::BTreeSet;

/// What kube-apiserver refuses of them, by their places in `spec.apiServer.serviceAccountIssuers`.
pub fn issuer_faults(issuers: &[String]) -> Vec<Fault> {
    let mut seen = BTreeSet::new();
    let of = |(at, issuer): (usize, &String)| {
        let why = if issuer.is_empty() {
            "is empty"
        } else if issuer.contains(':') && !url::is_readable(issuer) {
            "has a colon and is no URL that can be read"
        } else if !seen.insert(issuer.clone()) {
            "is listed twice. Remove one of the two"
        } else {
            return None;
        };
        Some(Fault::new(format!("serviceAccountIssuers[{at}]"), why))
    };
    issuers.iter().enumerate().filter_map(of).collect()
}
