//! The stage.

use super::{gateway, node_port, route};
use crate::components::ALL;
use crate::ours::ensure;
use crate::subject::Tenant;
use crate::validate::writers;
use berth_api::cluster::EndpointType;
use berth_api::conditions::Reason;
use berth_api::gateway::Exposed;
use berth_api::names;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::objects::service_address::{self, ServiceAddress};
use berth_render::{
    Kind, Object, render_apiserver_service,
    values::{ApiServerServiceValues, ServiceType},
};

/// The stage.
pub(crate) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Endpoint, State::Ready);
    let service = t.key(Kind::Service, names::APISERVER);
    match objects(t) {
        Ok((objects, exposed)) => {
            for object in objects {
                ensure(&mut stage, t.observed, object);
            }
            route::put(t, &mut stage, Ok(exposed.as_ref()));
            service_address::keep(&mut stage, t.observed, &service, || address_before(t));
        }
        Err(state) => {
            stage.owns.push(service);
            stage.state = state;
            route::put(t, &mut stage, Err(()));
        }
    }
    if let (true, Some(state)) = (stage.state.is_done(), without_address(t).or_else(|| node_port::state(t))) {
        stage.state = state;
    }
    stage
}

/// With what leads to the tenant by its name.
fn objects(t: &Tenant<'_>) -> Result<(Vec<Object>, Option<Exposed>), State> {
    let templates = t.templates().ok_or_else(|| State::waiting("the pinned templates"))?;
    let endpoint = &t.cluster.spec.endpoint;
    writers::service(&endpoint.service, &t.settings.writers)?;
    writers::node_port(endpoint.node_port, &t.settings.writers)?;
    let exposed = gateway::exposed(t)?;
    let values = ApiServerServiceValues {
        meta: t.meta(),
        service_type: match endpoint.type_ {
            EndpointType::ClusterIP | EndpointType::Gateway => ServiceType::ClusterIP,
            EndpointType::NodePort => ServiceType::NodePort,
            EndpointType::LoadBalancer => ServiceType::LoadBalancer,
        },
        port: endpoint.port,
        // One that is not to be had must not keep the Service from being there.
        node_port: endpoint.node_port.filter(|_| node_port::refused(t).is_none()),
        annotations: endpoint.service.annotations.clone(),
        load_balancer_class: endpoint.service.load_balancer_class.clone(),
        load_balancer_source_ranges: endpoint.service.load_balancer_source_ranges.clone(),
    };
    let objects = render_apiserver_service(templates, &values)?;
    let host = t.endpoint.host.as_ref().ok().and_then(Option::as_deref);
    let host = host.filter(|_| endpoint.type_ == EndpointType::Gateway);
    let held = gateway::held(t, exposed.as_ref());
    let told = objects.into_iter().map(|object| match &held {
        Some(held) => gateway::tell(t, object, held, host),
        None => Ok(object),
    });
    let marked = told.map(|told| told.map(|object| route::mark(t, object, exposed.as_ref())));
    Ok((marked.collect::<Result<_, _>>()?, exposed))
}

/// Why nothing is published, or nothing new inside the tenant.
fn without_address(t: &Tenant<'_>) -> Option<State> {
    if let Err(refused) = &t.endpoint.host {
        return Some(refused.clone());
    }
    let refused = t.observed.refused_host.clone().map(String::from);
    let refused = refused.or_else(|| t.endpoint.given.clone().err());
    if let Some(why) = refused {
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    let waiting = match t.cluster.spec.endpoint.type_ {
        EndpointType::LoadBalancer => "an address from the meta cluster's load balancer for Service kube-apiserver",
        _ => "Service kube-apiserver to get an address",
    };
    t.endpoint.published.is_none().then(|| State::waiting(waiting))
}

/// Where the API was: as the pods of its clients know it, as kubeconfigs that were handed out name it, or as the status has it.
fn address_before(t: &Tenant<'_>) -> ServiceAddress {
    let host = format!("{}.{}.svc", names::APISERVER, t.cp_namespace);
    let known = ALL.iter().find_map(|c| service_address::of_host(t.workloads(c.binary).first()?, &host));
    let told = t.status().endpoints.into_iter().next().map(|e| (e.host, e.port));
    let told = t.endpoint.handed_out_at().or(told);
    let inside = || told.as_ref().filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::ClusterIP)?.0.parse().ok();
    let node_port =
        told.as_ref().filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::NodePort).map(|told| told.1);
    ServiceAddress { cluster_ip: known.or_else(inside), node_port }
}
