//! What nobody may give, and what teams may give only where the platform lets them.

use crate::validate::writers::allowed;
use berth_api::ClusterAccess;
use berth_api::cluster_access::RESERVED;
use berth_api::conditions::Reason;
use berth_plan::settings::Writers;

/// Why it is given nowhere. `platform`: the operator's namespace, in which everything may be given.
pub fn refusal(access: &ClusterAccess, writers: &Writers, platform: Option<&str>) -> Option<(Reason, String)> {
    let spec = &access.spec;
    let own = access.metadata.namespace.as_deref().unwrap_or_default();
    // The schema refuses it, too; one of an older release may not.
    let reserved = |name: &str| RESERVED.iter().find(|prefix| name.starts_with(**prefix));
    if let Some((subject, prefix)) = spec.subjects.iter().find_map(|s| Some((s, reserved(&s.name)?))) {
        return Some((
            Reason::InvalidSpec,
            format!(
                "spec.subjects: {} begins with {prefix}, which nobody is given. Name a user or a group of yours",
                subject.name
            ),
        ));
    }
    if let Some(until) = spec.expires_at.as_ref().filter(|until| until.time().is_none()) {
        return Some((
            Reason::InvalidSpec,
            format!(
                "spec.expiresAt: {} is no time that Berth knows, so nothing is given. Set one such as 2026-12-01T18:00:00Z, or leave it out for no end",
                until.as_str()
            ),
        ));
    }
    if Some(own) == platform {
        return None;
    }
    let other = spec.cluster_refs.iter().find_map(|named| named.namespace.as_deref().filter(|of| *of != own));
    if let Some(other) = other {
        return Some((
            Reason::NotAllowed,
            format!(
                "spec.clusterRefs: namespace {other} is another one than {own}. Leave it out; only in the operator's namespace Clusters of all namespaces can be named"
            ),
        ));
    }
    let mine = writers.access.iter().filter(|rule| allowed(&rule.namespaces, own));
    let roles: Vec<String> = mine.flat_map(|rule| rule.roles.iter().cloned()).collect();
    if allowed(&roles, &spec.role) {
        return None;
    }
    let all = if roles.is_empty() { "none".to_owned() } else { roles.join(", ") };
    Some((
        Reason::NotAllowed,
        format!(
            "spec.role: {} is not allowed in namespace {own} (allowed: {all}). Set another role, or ask the platform team to add it to writers.access in the values of Berth's chart",
            spec.role
        ),
    ))
}
