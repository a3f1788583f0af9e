//! What to do with a certificate: a pure comparison of what should be with what was found.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

use crate::renewal::{renew_at, renew_at_by_age};
use crate::{CertInfo, CertSpec, KubeconfigInfo, PkiError, RenewReason, Root};

/// What to do with one certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Decision {
    /// It is right. Look again at this time; for a CA this is its end, before which nothing happens by itself.
    Keep {
        /// When the answer changes, if nothing else does.
        renew_at: Timestamp,
    },
    /// There is none: make it. For a CA only when no record says that there was one.
    Issue,
    /// Make a new one in its place.
    Renew {
        /// The first difference that was found.
        why: RenewReason,
    },
    /// A CA that must not be touched by a machine: everything trusts it. Show the reason to a human.
    Hold {
        /// What is wrong with it.
        why: RenewReason,
    },
}

/// Decides about a leaf certificate.
///
/// `found` is what [`crate::inspect_pair`] said, or `None` when there is nothing; from an `Option<Result<_, _>>` that is
/// `.as_ref().map(Result::as_ref)`. `root` has the CAs of which one should have signed it. `jitter_seed` is the UID of the
/// owner, see [`renew_at`]. What [`crate::issue`] makes from a spec is kept at once: there is no loop.
pub fn decide(
    spec: &CertSpec,
    found: Option<Result<&CertInfo, &PkiError>>,
    root: &Root,
    now: Timestamp,
    jitter_seed: &str,
) -> Decision {
    match found {
        None => Decision::Issue,
        Some(Err(PkiError::KeyMismatch { .. })) => Decision::Renew { why: RenewReason::KeyMismatch },
        Some(Err(error)) => Decision::Renew { why: RenewReason::Garbled { problem: error.to_string() } },
        Some(Ok(info)) => decide_leaf(&spec.normalized(), info, root, now, jitter_seed),
    }
}

/// Decides about a CA: it is kept for whatever age and name it has, held when it is damaged or outside of its validity,
/// and never renewed. See [`crate::ca_expiry_warning`] for its end, and for that of the one beside it, which issues nothing.
pub fn decide_ca(found: Option<Result<&Root, &PkiError>>, now: Timestamp) -> Decision {
    let info = match found {
        None => return Decision::Issue,
        Some(Err(error)) => return Decision::Hold { why: RenewReason::Garbled { problem: error.to_string() } },
        Some(Ok(root)) => &root.current,
    };
    if now < info.not_before {
        Decision::Hold { why: RenewReason::NotYetValid { not_before: info.not_before } }
    } else if now >= info.not_after {
        Decision::Hold { why: RenewReason::Age { due: info.not_after, not_after: info.not_after } }
    } else {
        Decision::Keep { renew_at: info.not_after }
    }
}

/// Decides about a kubeconfig with an embedded client certificate, which is regenerated as a whole. `server` is the URL of
/// the API, and `found` what [`crate::parse_kubeconfig_certificate`] said; the rest is as for [`decide`].
pub fn decide_kubeconfig(
    spec: &CertSpec,
    server: &str,
    found: Option<Result<&KubeconfigInfo, &PkiError>>,
    root: &Root,
    now: Timestamp,
    jitter_seed: &str,
) -> Decision {
    if let Some(Ok(info)) = found {
        // Berth writes no other name to expect in the server's certificate than its host.
        let was = match &info.tls_server_name {
            Some(name) => format!("{} as {name}", info.server),
            None => info.server.clone(),
        };
        if was != server {
            return Decision::Renew { why: RenewReason::EndpointChanged { was, now: server.to_owned() } };
        }
        let trusted: BTreeSet<_> = root.trusted().map(|ca| &ca.fingerprint_sha256).collect();
        if info.ca_fingerprints.iter().collect::<BTreeSet<_>>() != trusted {
            return Decision::Renew { why: RenewReason::TrustChanged };
        }
    }
    decide(spec, found.map(|result| result.map(|info| &info.client)), root, now, jitter_seed)
}

/// `spec` is normalized.
fn decide_leaf(spec: &CertSpec, info: &CertInfo, root: &Root, now: Timestamp, jitter_seed: &str) -> Decision {
    if let Some(why) = difference(spec, info, root, now) {
        return Decision::Renew { why };
    }
    let not_after = info.not_after;
    let due = renew_at(info, spec.lifetime, jitter_seed);
    if now < due {
        return Decision::Keep { renew_at: due };
    }
    // At the end of a CA's life a new certificate would end with the CA, just as this one does: renewing it again and
    // again would only roll the pods. The CA's own warning is what helps.
    let issuer = &root.current;
    let next_end = now.saturating_add(spec.lifetime).unwrap_or(Timestamp::MAX);
    if now < not_after && not_after >= issuer.not_after && next_end >= issuer.not_after {
        return Decision::Keep { renew_at: not_after };
    }
    let why = if now >= renew_at_by_age(info, jitter_seed) {
        RenewReason::Age { due, not_after }
    } else {
        RenewReason::LifetimeChanged { due, not_after }
    };
    Decision::Renew { why }
}

fn difference(spec: &CertSpec, info: &CertInfo, root: &Root, now: Timestamp) -> Option<RenewReason> {
    let issuer = &root.current;
    if !root.trusted().any(|ca| info.names_as_issuer(ca)) {
        return Some(RenewReason::IssuerChanged { was: info.issuer.clone(), now: issuer.subject.clone() });
    }
    if info.usage() != Some(spec.usage) {
        let now = spec.usage.extended().join("+");
        return Some(RenewReason::UsageChanged { was: describe_usage(info), now });
    }
    if info.common_name != spec.common_name || info.organizations != spec.organizations {
        let parts = spec.organizations.iter().map(|o| format!("O={o}"));
        let now = parts.chain([format!("CN={}", spec.common_name)]).collect::<Vec<_>>().join(", ");
        return Some(RenewReason::SubjectChanged { was: info.subject.clone(), now });
    }
    let text = |names: &[String], addresses: &[IpAddr]| -> BTreeSet<String> {
        names.iter().cloned().chain(addresses.iter().map(ToString::to_string)).collect()
    };
    let wanted = text(&spec.dns_names, &spec.ip_addresses);
    let mut present = text(&info.dns_names, &info.ip_addresses);
    present.extend(info.other_names.iter().cloned());
    if wanted != present {
        let (missing, extra) = (&wanted - &present, &present - &wanted);
        let (missing, extra) = (missing.into_iter().collect(), extra.into_iter().collect());
        return Some(RenewReason::SansChanged { missing, extra });
    }
    // Before its CA is valid none can be better.
    if now < info.not_before && now >= issuer.not_before {
        return Some(RenewReason::NotYetValid { not_before: info.not_before });
    }
    None
}

fn describe_usage(info: &CertInfo) -> String {
    match (info.is_ca, info.ekus.is_empty()) {
        (true, _) => "CA".into(),
        (false, true) => "anything".into(),
        (false, false) => info.ekus.join("+"),
    }
}
