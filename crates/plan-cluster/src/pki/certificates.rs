//! What certificates say.

use crate::subject::Tenant;
use berth_api::names;
use berth_pki::{CertInfo, CertSpec, Usage};
use berth_plan::model::SecretEntry;
use jiff::SignedDuration;
use std::net::IpAddr;

/// Names of a certificate that is there of which the next one takes over: what a load balancer that changes its mind every minute
/// cannot exceed.
const FORMER_NAMES: usize = 100;

/// User of the certificate by which the API server calls kubelets; bound to `system:kubelet-api-admin` in the tenant.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A client's certificate.
pub(crate) fn client(user: &str, groups: &[&str], lifetime: SignedDuration) -> CertSpec {
    let organizations = groups.iter().map(|g| (*g).to_owned()).collect();
    CertSpec { organizations, ..CertSpec::new(user, Usage::Client, lifetime) }
}

fn serving(name: &str, cp_namespace: &str, lifetime: SignedDuration) -> CertSpec {
    let dns_names =
        vec![name.into(), format!("{name}.{cp_namespace}"), format!("{name}.{cp_namespace}.svc"), "localhost".into()];
    CertSpec { dns_names, ..CertSpec::new(name, Usage::Server, lifetime) }
}

/// Certificates of a component that talks to the API server: as its client, and for its own port.
pub(crate) fn api_client(t: &Tenant<'_>, name: &str) -> Vec<SecretEntry> {
    let (life, ca) = (t.settings.leaf_lifetime, t.secret(names::ca(t.name)));
    let user = format!("system:{name}");
    vec![
        SecretEntry::leaf("client", client(&user, &[], life), ca.clone()),
        SecretEntry::leaf("server", serving(name, &t.cp_namespace, life), ca),
    ]
}

/// Names at which the API server was reached before stay in its certificate until that is renewed for its age: who has an older
/// kubeconfig is still served.
pub(crate) fn keep_former_names(t: &Tenant<'_>, dns_names: &mut Vec<String>, ip_addresses: &mut Vec<IpAddr>) {
    let live = t.observed.pair(&t.secret(names::APISERVER_PKI), "apiserver").and_then(Result::ok);
    let held = t.observed.meta.clocks_are_far_apart(t.settings.leaf_lifetime);
    let young = |info: &&CertInfo| held || t.now < berth_pki::renew_at(info, t.settings.leaf_lifetime, &t.cp_namespace);
    let Some(info) = live.filter(young) else { return };
    for name in info.dns_names.iter().take(FORMER_NAMES) {
        if !dns_names.contains(name) {
            dns_names.push(name.clone());
        }
    }
    for address in info.ip_addresses.iter().take(FORMER_NAMES) {
        if !ip_addresses.contains(address) {
            ip_addresses.push(*address);
        }
    }
}
