//! What the templates of the API server are rendered from.

use super::api_client::{checksums, root};
use crate::subject::Tenant;
use berth_api::names;
use berth_plan::model::State;
use berth_render::Binary;
use berth_render::values::{ApiServerSecrets, ApiServerValues, EtcdAccess, HostAlias, VpcSlot, Workload};
use serde_json::Value;
use std::net::IpAddr;

/// Its name among the etcd's clients.
pub(crate) const ETCD_CLIENT: &str = names::APISERVER;

/// What the templates of the API server are rendered from, apart from slots.
pub(super) fn values_of(t: &Tenant<'_>, mut workload: Workload) -> Result<ApiServerValues, State> {
    let spec = &t.cluster.spec.api_server;
    let advertise_address = advertise(t).ok_or_else(|| State::waiting("Service kube-apiserver to get an address"))?;
    let (etcd, aliases) = etcd_access(t)?;
    workload.host_aliases = aliases;
    let mut sums = vec![root("ca", names::ca(t.name)), root("front-proxy-ca", names::proxy_ca(t.name))];
    sums.push(root("service-account", names::service_account(t.name)));
    sums.push(("etcd-ca", etcd.client_secret.clone(), "ca.crt"));
    workload.checksums = checksums(t, &sums)?;
    let network = &t.cluster.spec.network;
    let service_account_issuers = match spec.service_account_issuers.as_slice() {
        [] => vec![format!("https://kubernetes.default.svc.{}", network.dns_domain)],
        given => given.to_vec(),
    };
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
        service_account_issuers,
        jwt: spec.authentication.jwt.clone(),
    })
}

/// `--advertise-address`. Another IP address rolls the pods, one after the other: those show the new certificate at once, and the ones that
/// run only minutes later. Where there is none any more, nothing is to be shown.
fn advertise(t: &Tenant<'_>) -> Option<String> {
    let live = || {
        let containers = t.workloads(Binary::ApiServer).first()?.pointer("/spec/template/spec/containers")?;
        let words =
            |c: &Value| ["command", "args"].map(|list| c[list].as_array().cloned().unwrap_or_default()).concat();
        let mut flags = containers.as_array()?.iter().flat_map(words);
        flags.find_map(|w| w.as_str()?.strip_prefix("--advertise-address=")?.parse::<IpAddr>().ok())
    };
    let published = t.endpoint.advertised.map(|(address, _)| address);
    Some(published.or_else(live).or(t.endpoint.cluster_ip)?.to_string())
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
