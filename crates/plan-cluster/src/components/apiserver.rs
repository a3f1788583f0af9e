//! kube-apiserver.

use super::apiserver_values::values_of;
use super::component::{Asked, Component, Prepared};
use super::{advertise, slots};
use crate::endpoint::sans;
use crate::isolation::ends::{Allow, End, Port, allow};
use crate::pki::certificates::{KUBELET_CLIENT, client, keep_former_names};
use crate::subject::Tenant;
use crate::vpc;
use berth_api::names;
use berth_pki::{CertSpec, Usage};
use berth_plan::model::SecretEntry;
use berth_render::values::Workload;
use berth_render::{Binary, TemplateSet, render_apiserver};

/// The row.
pub(super) static COMPONENT: Component = Component {
    binary: Binary::ApiServer,
    asked: |spec| {
        let spec = &spec.api_server;
        Asked {
            replicas: spec.replicas,
            resources: spec.resources.as_ref(),
            autoscaling: &spec.autoscaling,
            placement: &spec.placement,
            extra_args: &spec.extra_args,
        }
    },
    secret: names::APISERVER_PKI,
    certificates,
    connections: &CONNECTIONS,
    reads: &[
        ("network.serviceCIDRs", "service_cidrs"),
        ("network.dnsDomain", "service_account_issuers"),
        ("apiServer.authentication.jwt", "jwt"),
        ("apiServer.admission.configuration", "admission"),
        ("apiServer.admission.configuration", "admission_enables"),
        ("apiServer.trustedCA", "trusted_ca"),
        ("apiServer.serviceAccountIssuers", "service_account_issuers"),
        ("apiServer.audit.policy", "audit.policy"),
        ("apiServer.audit.webhook", "audit.webhook"),
        // Whether there is anything of it: an older operator knows none.
        ("apiServer.audit.webhook", "audit"),
        ("proxy.http", "proxy"),
        ("proxy.https", "proxy"),
        ("proxy.noProxy", "proxy"),
        ("vpc.attachment", "vpc.interface"),
        ("vpc.addresses", "vpc.address"),
        ("vpc.virtualIP", "vpc.sidecar"),
        ("vpc.routes", "vpc.sidecar"),
    ],
    objects,
};

const API: End = End::Component(Binary::ApiServer);

const CONNECTIONS: [Allow; 6] = [
    allow(API, End::Etcd, Port::Tcp(2379)),
    // Clients come through Services and load balancers, which may hide their addresses. Who they are is for the API server to judge.
    allow(End::Anyone, API, Port::Tcp(6443)),
    // Where clients come through the platform's gateway alone, these do not.
    allow(End::Operator, API, Port::Tcp(6443)),
    allow(End::Monitoring, API, Port::Tcp(6443)),
    // Names of webhooks, issuers and aggregated APIs. The parts of a tenant find each other by host aliases (ADR 2).
    allow(API, End::Dns, Port::Dns),
    // Nodes, webhooks, issuers: a tenant's admin chooses what is dialled.
    allow(API, End::Outside, Port::Any),
];

fn certificates(t: &Tenant<'_>) -> Option<Vec<SecretEntry>> {
    let life = t.settings.leaf_lifetime;
    let (ca, proxy) = (t.secret(names::ca(t.name)), t.secret(names::proxy_ca(t.name)));
    let (mut dns_names, mut ip_addresses) = sans(t)?;
    keep_former_names(t, &mut dns_names, &mut ip_addresses);
    let serving = CertSpec { usage: Usage::Server, dns_names, ip_addresses, ..client("kube-apiserver", &[], life) };
    Some(vec![
        SecretEntry::leaf("apiserver", serving, ca.clone()),
        SecretEntry::leaf("apiserver-kubelet-client", client(KUBELET_CLIENT, &[], life), ca),
        SecretEntry::leaf("front-proxy-client", client("front-proxy-client", &[], life), proxy),
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
        return Ok(definition.into_iter().chain(render_apiserver(templates, &values)?).collect::<Vec<_>>().into());
    }
    Ok(advertise::render(t, templates, values_of(t, workload)?)?.into())
}
