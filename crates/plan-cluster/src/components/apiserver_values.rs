//! What the templates of the API server are rendered from.

use super::advertise::advertised;
use super::api_client::{checksums, root};
use crate::subject::Tenant;
use crate::validate::jwt::platform;
use crate::{api_files, audit, proxy};
use berth_api::cluster::default_issuer;
use berth_api::{ClusterSpec, names};
use berth_plan::model::State;
use berth_render::Binary;
use berth_render::values::{ApiServerSecrets, ApiServerValues, AuditValues, EtcdAccess, HostAlias, VpcSlot, Workload};

/// Its name among the etcd's clients.
pub(crate) const ETCD_CLIENT: &str = names::APISERVER;

/// What the templates of the API server are rendered from, apart from slots.
pub(super) fn values_of(t: &Tenant<'_>, mut workload: Workload) -> Result<ApiServerValues, State> {
    let spec = &t.cluster.spec.api_server;
    let advertise_address = advertised(t)?.now.to_string();
    let (etcd, aliases) = etcd_access(t)?;
    let (pin, _) = t.release.pin_of(Binary::ApiServer);
    let proxy = proxy::variables(t, pin, &aliases);
    workload.host_aliases = aliases;
    let mut sums = vec![root("ca", names::ca(t.name)), root("front-proxy-ca", names::proxy_ca(t.name))];
    sums.push(root("service-account", names::service_account(t.name)));
    sums.push(("etcd-ca", etcd.client_secret.clone(), "ca.crt"));
    workload.checksums = checksums(t, &sums)?;
    let network = &t.cluster.spec.network;
    let issuers = service_account_issuers(&t.cluster.spec);
    Ok(ApiServerValues {
        meta: t.meta(),
        workload,
        slot: None,
        vpc: VpcSlot::default(),
        advertise_address,
        service_cidrs: network.service_cidrs.clone(),
        dns_domain: network.dns_domain.clone(),
        etcd,
        secrets: ApiServerSecrets {
            ca: names::ca(t.name),
            front_proxy_ca: names::proxy_ca(t.name),
            service_account: names::service_account(t.name),
            pki: names::APISERVER_PKI.into(),
            encryption: names::APISERVER_ENCRYPTION.into(),
        },
        jwt: platform::of_tenant(&spec.authentication.jwt, &issuers, pin),
        service_account_issuers: issuers,
        audit: AuditValues {
            policy: spec.audit.policy.as_ref().map(api_files::audit_policy),
            webhook: audit::value(t)?,
        },
        proxy,
        admission: api_files::plugins(&spec.admission),
        admission_enables: api_files::enabled(&spec.admission),
        trusted_ca: spec.trusted_ca.clone(),
    })
}

/// Issuers of the tokens of service accounts; the first signs.
pub(crate) fn service_account_issuers(spec: &ClusterSpec) -> Vec<String> {
    match spec.api_server.service_account_issuers.as_slice() {
        [] => vec![default_issuer(&spec.network.dns_domain)],
        given => given.to_vec(),
    }
}

/// The tenant's etcd, once its addresses and the client certificate are known.
fn etcd_access(t: &Tenant<'_>) -> Result<(EtcdAccess, Vec<HostAlias>), State> {
    let status = t.etcd.as_ref().and_then(|e| e.status.clone()).unwrap_or_default();
    let client = status.clients.iter().find(|c| c.name == ETCD_CLIENT).map(|c| c.secret_ref.name.clone());
    match client {
        Some(client_secret) if !status.endpoints.is_empty() => {
            let aliases =
                status.endpoints.iter().map(|e| HostAlias { ip: e.address.clone(), hostnames: vec![e.host.clone()] });
            let endpoints = status.endpoints.iter().map(|e| e.url.clone()).collect();
            Ok((EtcdAccess { endpoints, client_secret }, aliases.collect()))
        }
        _ => Err(State::waiting("EtcdCluster etcd to report its endpoints and the API server's client certificate")),
    }
}
