//! Facts about Secrets that are not made: plans read nothing else.

use berth_api::cluster::AUDIT_KUBECONFIG;
use berth_pki::{BACKDATE, CertInfo, CertSpec, KubeconfigInfo, Root, Usage};
use berth_plan::digest::sha256;
use berth_plan::observed::Observed;
use berth_plan::{SecretEntry, SecretFacts, SecretPlan};
use berth_render::ObjectKey;
use jiff::Timestamp;

/// Stands for digests of what is random. As long as a checksum in an annotation of a pod.
pub const UNKNOWN: &str = "known-at-runtime";

/// The facts once the plan is carried out.
pub(super) fn of(plan: &SecretPlan, observed: &Observed, now: Timestamp) -> SecretFacts {
    let mut facts = observed.secrets.get(&plan.key).map(|f| f.as_ref().clone()).unwrap_or_default();
    facts.type_.clone_from(&plan.type_);
    let issuer = |key: &ObjectKey| observed.root(key).map(|root| root.current.subject.clone()).unwrap_or_default();
    let digest = |secret: &ObjectKey, key: &str| {
        let known = observed.secrets.get(secret).and_then(|f| f.digests.get(key)).cloned();
        known.unwrap_or_else(|| UNKNOWN.to_owned())
    };
    for entry in &plan.entries {
        let mut random =
            |keys: &[&str]| facts.digests.extend(keys.iter().map(|k| ((*k).to_owned(), UNKNOWN.to_owned())));
        match entry {
            SecretEntry::Ca(spec) => {
                random(&["tls.crt", "tls.key"]);
                let current = certificate(spec, &subject(spec), now);
                facts.root =
                    Some(Ok(Box::new(Root { current, next: None, former: vec![], trust_pem: UNKNOWN.to_owned() })));
            }
            SecretEntry::Leaf { name, spec, issuer: ca, .. } => {
                random(&[&format!("{name}.crt"), &format!("{name}.key")]);
                facts.pairs.insert(name.clone(), Box::new(Ok(certificate(spec, &issuer(ca), now))));
            }
            SecretEntry::CaCopy { name, issuer } => {
                // The CA's own digest: what runs with it does not restart for a copy.
                facts.digests.insert(name.clone(), digest(issuer, "tls.crt"));
            }
            SecretEntry::Copy { name, source, of } => _ = facts.digests.insert(name.clone(), digest(source, of)),
            SecretEntry::AuditWebhook { source } => {
                let read = observed.secrets.get(source).and_then(|f| f.audit_webhook.as_ref()?.as_ref().ok());
                facts.digests.insert(AUDIT_KUBECONFIG.into(), read.map_or_else(|| UNKNOWN.to_owned(), Clone::clone));
            }
            SecretEntry::ServiceAccountKey => {
                random(&["tls.crt", "tls.key"]);
                facts.service_account = Some(Ok(UNKNOWN.to_owned()));
            }
            SecretEntry::EncryptionConfig => {
                random(&["encryption.yaml"]);
                facts.encryption_ok = true;
                facts.naming_key = Some(UNKNOWN.to_owned());
            }
            SecretEntry::Kubeconfig { server, spec, issuer: ca, .. } => {
                random(&["value"]);
                let trusted = observed.root(ca).into_iter().flat_map(Root::trusted);
                facts.kubeconfig = Some(Box::new(Ok(KubeconfigInfo {
                    client: certificate(spec, &issuer(ca), now),
                    server: server.clone(),
                    tls_server_name: None,
                    ca_fingerprints: trusted.map(|ca| ca.fingerprint_sha256.clone()).collect(),
                })));
            }
        }
    }
    facts
}

fn subject(spec: &CertSpec) -> String {
    format!("CN={}", spec.common_name)
}

fn certificate(spec: &CertSpec, issuer: &str, now: Timestamp) -> CertInfo {
    let spec = spec.normalized();
    CertInfo {
        subject: subject(&spec),
        issuer: issuer.to_owned(),
        is_ca: spec.usage == Usage::Ca,
        key_usages: vec![],
        ekus: spec.usage.extended().iter().map(|u| (*u).to_owned()).collect(),
        other_names: vec![],
        serial_hex: String::new(),
        ski: None,
        aki: None,
        not_before: now - BACKDATE,
        not_after: now + spec.lifetime,
        public_key_sha256: String::new(),
        // Two CAs of one tenant have two names.
        fingerprint_sha256: sha256(subject(&spec).as_bytes()),
        common_name: spec.common_name,
        organizations: spec.organizations,
        dns_names: spec.dns_names,
        ip_addresses: spec.ip_addresses,
    }
}
