//! kube-apiserver.

use super::api_client::{checksums, root};
use super::component::{Asked, Component, Prepared, Rendered};
use super::slots;
use crate::endpoint::sans;
use crate::isolation::ends::{Allow, End, Port, allow};
use crate::pki::certificates::{KUBELET_CLIENT, client, keep_former_names};
use crate::subject::Tenant;
use crate::vpc;
use berth_api::names;
use berth_pki::{CertSpec, Usage};
use berth_plan::model::State;
use berth_plan::secrets::Content;
use berth_render::values::{ApiServerSecrets, ApiServerValues, EtcdAccess, HostAlias, VpcSlot, Workload};
use berth_render::{Binary, TemplateSet, render_apiserver};
use serde_json::Value;
use std::net::IpAddr;

/// The row.
pub(super) static COMPONENT: Component = Component {
    binary: Binary::ApiServer,
    asked: |spec| {
        let spec = &spec.api_server;
        Asked {
            replicas: spec.replicas,
            resources: spec.resources.as_ref(),
            placement: &spec.placement,
            extra_args: &spec.extra_args,
        }
    },
    secret: names::APISERVER_PKI,
    certificates,
    connections: &CONNECTIONS,
    after: None,
    objects,
};

/// Its name among the etcd's clients.
pub(crate) const ETCD_CLIENT: &str = names::APISERVER;

const API: End = End::Component(Binary::ApiServer);

const CONNECTIONS: [Allow; 4] = [
    allow(API, End::Etcd, Port::Tcp(2379)),
    // Clients come through Services and load balancers, which may hide their addresses. Who they are is for the API server to judge.
    allow(End::Anyone, API, Port::Tcp(6443)),
    // Names of webhooks, issuers and aggregated APIs. The parts of a tenant find each other by host aliases (ADR 2).
    allow(API, End::Dns, Port::Dns),
    // Nodes, webhooks, issuers: a tenant's admin chooses what is dialled.
    allow(API, End::Outside, Port::Any),
];

fn certificates(t: &Tenant<'_>) -> Option<Vec<Content>> {
    let life = t.settings.leaf_lifetime;
    let (ca, proxy) = (t.secret(names::ca(t.name)), t.secret(names::proxy_ca(t.name)));
    let (mut dns_names, mut ip_addresses) = sans(t)?;
    keep_former_names(t, &mut dns_names, &mut ip_addresses);
    let serving = CertSpec { usage: Usage::Server, dns_names, ip_addresses, ..client("kube-apiserver", &[], life) };
    Some(vec![
        Content::Leaf("apiserver".into(), serving, ca.clone()),
        Content::Leaf("apiserver-kubelet-client".into(), client(KUBELET_CLIENT, &[], life), ca),
        Content::Leaf("front-proxy-client".into(), client("front-proxy-client", &[], life), proxy),
    ])
}

fn objects(t: &Tenant<'_>, templates: &TemplateSet, workload: Workload) -> Prepared {
    if let Some(vpc) = &t.cluster.spec.vpc {
        if !vpc.addresses.is_empty() {
            return slots::objects(t, templates, workload, vpc);
        }
        let mut values = vpc::values(t, templates, values_of(t, workload)?)?;
        vpc::ask(&mut values, vpc::definition_namespace(t, templates, vpc), vpc, None);
        let definition = vpc::copy(t, templates, vpc)?;
        let all = render_apiserver(templates, &values).map(|all| definition.into_iter().chain(all).collect::<Vec<_>>());
        return Ok(all.map(Rendered::from));
    }
    Ok(render_apiserver(templates, &values_of(t, workload)?).map(Rendered::from))
}

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
            pki: COMPONENT.secret.into(),
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
