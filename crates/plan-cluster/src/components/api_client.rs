//! What the rows of components have in common.

use super::component::{Component, Prepared};
use crate::subject::Tenant;
use berth_api::names;
use berth_plan::model::State;
use berth_render::values::{ApiAccess, ApiClientSecrets, ApiClientValues, HostAlias, Workload};
use berth_render::{TemplateSet, render_api_client};
use std::collections::BTreeMap;

/// What processes read only when they start: short name, Secret, key.
pub(super) type ReadAtStart = (&'static str, String, &'static str);

/// A CA, or the public key of service accounts.
pub(super) fn root(name: &'static str, secret: String) -> ReadAtStart {
    (name, secret, "tls.crt")
}

/// Digests of what the processes read only when they start, for the pods' annotations. Certificates are read again when they change.
pub(super) fn checksums(t: &Tenant<'_>, all: &[ReadAtStart]) -> Result<BTreeMap<String, String>, State> {
    let digest = |(name, secret, key): &ReadAtStart| {
        let digest = t.observed.secrets.get(&t.secret(secret.clone()))?.digests.get(*key)?;
        Some(((*name).to_owned(), digest.chars().take(16).collect()))
    };
    all.iter().map(digest).collect::<Option<_>>().ok_or_else(|| State::waiting("the Secrets with CAs and keys"))
}

/// A component that talks to the API server and to nobody else.
pub(super) fn api_client(
    t: &Tenant<'_>,
    templates: &TemplateSet,
    component: &Component,
    mut workload: Workload,
    read_at_start: Vec<ReadAtStart>,
) -> Prepared {
    let (ip, server) =
        t.endpoint.inside(&t.cp_namespace).ok_or_else(|| State::waiting("Service kube-apiserver to get an address"))?;
    let host = format!("{}.{}.svc", names::APISERVER, t.cp_namespace);
    workload.host_aliases = vec![HostAlias { ip: ip.to_string(), hostnames: vec![host] }];
    let cas = [root("ca", names::ca(t.name)), root("front-proxy-ca", names::proxy_ca(t.name))];
    workload.checksums = checksums(t, &[cas.to_vec(), read_at_start].concat())?;
    let network = &t.cluster.spec.network;
    let values = ApiClientValues {
        meta: t.meta(),
        workload,
        cluster_name: t.name.into(),
        api: ApiAccess { server },
        service_cidrs: network.service_cidrs.clone(),
        pod_cidrs: network.pod_cidrs.clone(),
        secrets: ApiClientSecrets {
            ca: names::ca(t.name),
            front_proxy_ca: names::proxy_ca(t.name),
            service_account: names::service_account(t.name),
            pki: component.secret.into(),
            approver: names::APPROVER_PKI.into(),
        },
    };
    Ok(render_api_client(templates, component.binary, &values)?.into())
}
