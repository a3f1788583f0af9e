//! The stage.

use crate::components::ALL;
use crate::ours::ensure;
use crate::subject::Tenant;
use crate::validate::writers;
use berth_api::cluster::EndpointType;
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::objects::service_address::{self, ServiceAddress};
use berth_render::{
    Kind, render_apiserver_service,
    values::{ApiServerServiceValues, ServiceType},
};

/// The stage.
pub(crate) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Endpoint, State::Ready);
    let Some(templates) = t.templates() else {
        stage.owns.push(t.key(Kind::Service, names::APISERVER));
        stage.state = State::waiting("the pinned templates");
        return stage;
    };
    let endpoint = &t.cluster.spec.endpoint;
    if let Err(refused) = writers::service(&endpoint.service, &t.settings.writers) {
        stage.owns.push(t.key(Kind::Service, names::APISERVER));
        stage.state = refused;
        return stage;
    }
    let values = ApiServerServiceValues {
        meta: t.meta(),
        service_type: match endpoint.type_ {
            EndpointType::ClusterIP => ServiceType::ClusterIP,
            EndpointType::NodePort => ServiceType::NodePort,
            EndpointType::LoadBalancer => ServiceType::LoadBalancer,
        },
        port: endpoint.port,
        annotations: endpoint.service.annotations.clone(),
        load_balancer_class: endpoint.service.load_balancer_class.clone(),
        load_balancer_source_ranges: endpoint.service.load_balancer_source_ranges.clone(),
        ..ApiServerServiceValues::default()
    };
    match render_apiserver_service(templates, &values) {
        Ok(objects) => {
            for o in objects {
                ensure(&mut stage, t.observed, o);
            }
            service_address::keep(&mut stage, t.observed, &t.key(Kind::Service, names::APISERVER), || {
                address_before(t)
            });
        }
        Err(e) => stage.state = State::blocked(Reason::Error, e.to_string()),
    }
    if let (true, Err(why)) = (stage.state.is_done(), &t.endpoint.host) {
        stage.state = State::blocked(Reason::InvalidSpec, why.clone());
    }
    if let (true, Some(why)) = (stage.state.is_done(), &t.observed.refused_host) {
        stage.state = State::blocked(Reason::InvalidSpec, why.clone());
    }
    if stage.state.is_done() && t.endpoint.published.is_none() {
        stage.state = State::waiting(match endpoint.type_ {
            EndpointType::LoadBalancer => "an address from the meta cluster's load balancer for Service kube-apiserver",
            _ => "Service kube-apiserver to get an address",
        });
    }
    stage
}

/// Where the API was: as the pods of its clients know it, as kubeconfigs that were handed out name it, or as the status has it.
fn address_before(t: &Tenant<'_>) -> ServiceAddress {
    let host = format!("{}.{}.svc", names::APISERVER, t.cp_namespace);
    let known = ALL.iter().find_map(|c| service_address::of_host(t.workloads(c.binary).first()?, &host));
    let url = t.endpoint.handed_out.as_deref().and_then(|url| url.strip_prefix("https://")?.rsplit_once(':'));
    let told = t.status().endpoints.into_iter().next().map(|e| (e.host, e.port));
    let told =
        url.and_then(|(host, port)| Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))).or(told);
    let inside = || told.as_ref().filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::ClusterIP)?.0.parse().ok();
    let node_port =
        told.as_ref().filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::NodePort).map(|told| told.1);
    ServiceAddress { cluster_ip: known.or_else(inside), node_port }
}
