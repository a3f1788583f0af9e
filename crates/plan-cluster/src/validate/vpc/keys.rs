//! Annotations and labels that `spec.vpc` gives pods for the network's provider.

use crate::subject::Tenant;
use crate::validate::writers;
use crate::vpc::FILLED;
use berth_api::conditions::Reason;
use berth_plan::model::State;
use std::collections::BTreeMap;

/// Domains of keys that mean something to Kubernetes or Berth, or say which network a pod is attached to.
const CLOSED: [&str; 3] = ["k8s.v1.cni.cncf.io", "berth.dev", "app.kubernetes.io"];

/// Whether they are what writers may ask for.
pub(super) fn allowed(t: &Tenant<'_>) -> Result<(), State> {
    let Some(vpc) = &t.cluster.spec.vpc else { return Ok(()) };
    let of = |field: &str, all: &BTreeMap<String, String>| {
        let known = !vpc.addresses.is_empty();
        all.iter().try_for_each(|(key, value)| {
            one(&format!("spec.vpc.{field}"), (key, value), known, &t.settings.writers.vpc)
        })
    };
    of("podAnnotations", &vpc.pod_annotations)?;
    of("podLabels", &vpc.pod_labels)
}

/// `known`: whether the spec has the addresses.
fn one(field: &str, (key, value): (&str, &str), known: bool, allowed: &[String]) -> Result<(), State> {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    if CLOSED.iter().any(|of| domain.strip_suffix(of).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))) {
        return Err(State::blocked(
            Reason::NotAllowed,
            format!("{field}: keys of {domain} are not for users. Remove {key}"),
        ));
    }
    let pair = format!("{key}={value}");
    if !writers::allowed(allowed, &pair) {
        return Err(writers::refused(field, &pair, allowed, "vpc"));
    }
    match FILLED.iter().find(|filled| value.contains(**filled)) {
        Some(filled) if !known => Err(State::blocked(
            Reason::InvalidSpec,
            format!(
                "{field}: {key} has {filled}, which is not known without spec.vpc.addresses. Remove it, or create the Cluster with addresses"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str, value: &str, known: bool) -> String {
        let allowed = ["example.com/ip=$(IP)", "example.com/subnet=subnet-1"].map(str::to_owned);
        let judged = one("spec.vpc.podLabels", (key, value), known, &allowed);
        judged.err().and_then(|s| s.problem().map(|(_, text)| text.to_owned())).unwrap_or_default()
    }

    #[test]
    fn a_key_is_allowed_with_its_value() {
        assert_eq!(said("example.com/ip", "$(IP)", true), "");
        assert_eq!(said("example.com/subnet", "subnet-1", false), "");
        for (key, value) in
            [("example.com/ip", "172.20.0.9"), ("example.com/subnet", "subnet-2"), ("example.com/x", "")]
        {
            let why = said(key, value, true);
            assert!(
                why.starts_with(&format!(
                    "spec.vpc.podLabels: {key}={value} is not allowed (allowed: example.com/ip=$(IP), "
                )) && why.contains("writers.vpc in the values"),
                "{why}"
            );
        }
        assert!(said("example.com/ip", "$(IP)", false).contains("is not known without spec.vpc.addresses"));
    }

    #[test]
    fn keys_of_others_are_never_taken() {
        for key in ["k8s.v1.cni.cncf.io/networks", "berth.dev/slot", "x.berth.dev/y", "app.kubernetes.io/component"] {
            let why = said(key, "", true);
            assert!(why.contains("are not for users"), "{key}: {why}");
        }
        assert!(!said("notberth.dev/y", "", true).contains("are not for users"));
    }
}
