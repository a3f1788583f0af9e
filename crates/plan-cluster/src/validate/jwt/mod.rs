//! Rules of kube-apiserver for its JWT authenticators (`apiserver.config.k8s.io/v1`): one that breaks them ends the process at its start.
//!
//! Each value that passes here starts kube-apiserver, but for what only the compiler of its expressions knows
//! (`crates/plan-cluster/tests/it/jwt` has the few).

mod cel;
mod claims;
pub(super) mod fault;
mod issuer;
pub(crate) mod platform;
mod service_accounts;
pub(super) mod shape;
mod url;

pub use fault::Fault;
pub use service_accounts::issuer_faults;

use serde_json::Value;
use shape::text;
use std::collections::BTreeSet;

/// The field of the spec.
const FIELD: &str = "spec.apiServer.authentication.jwt";

/// Why kube-apiserver would not start with these authenticators and issuers, and how many faults there are beside. `issuers`: those of
/// tokens of service accounts, which no authenticator may have.
pub(crate) fn refusal(jwt: &[Value], issuers: &[String]) -> Option<String> {
    if let Some(fault) = issuer_faults(issuers).first() {
        return Some(fault.to_string());
    }
    fault::told(&faults(jwt, issuers), FIELD)
}

/// All faults of these authenticators, in their order; `issuers` as in [`refusal`]. Where fields are unknown or of another type, kube-apiserver reads no further, and so does this.
pub fn faults(jwt: &[Value], issuers: &[String]) -> Vec<Fault> {
    let mut faults = vec![];
    for (at, one) in jwt.iter().enumerate() {
        shape::check(one, &format!("authentication.jwt[{at}]"), &shape::AUTHENTICATOR, &mut faults);
    }
    if !faults.is_empty() {
        return faults;
    }
    let (mut urls, mut discovery) = (BTreeSet::new(), BTreeSet::new());
    for (at, one) in jwt.iter().enumerate() {
        let path = format!("authentication.jwt[{at}]");
        issuer::check(&one["issuer"], &format!("{path}.issuer"), issuers, &mut faults);
        claims::check(one, &path, &mut faults);
        let mut once = |field: &str, seen: &mut BTreeSet<String>| {
            let url = text(&one["issuer"], field);
            if !url.is_empty() && !seen.insert(url.to_owned()) {
                let why = "another authenticator has the same one. Remove one of the two";
                faults.push(Fault::new(format!("{path}.issuer.{field}"), why));
            }
        };
        once("url", &mut urls);
        once("discoveryURL", &mut discovery);
    }
    faults
}

#[cfg(test)]
mod tests;
