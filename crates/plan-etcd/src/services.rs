//! Stage 2: an address for each member that outlives its pods.

use super::subject::{Subject, is_ours};
use berth_api::etcd_bootstrap::OperationKind;
use berth_api::etcd_cluster::{EtcdCluster, EtcdEndpoint};
use berth_api::names;
use berth_plan::etcd_home::name_of;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::objects::ensure;
use berth_plan::objects::service_address::{self, ServiceAddress};
use berth_plan::observed::Observed;
use berth_render::values::EtcdServicesValues;
use berth_render::{Kind, ObjectKey, render_etcd_services};
use std::net::IpAddr;

/// Port for clients.
const CLIENT_PORT: u16 = 2379;
/// Port for peers.
const PEER_PORT: u16 = 2380;

/// The stage.
pub(super) fn stage(s: &Subject<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Endpoint, State::Ready);
    let Some(templates) = s.templates() else { return stage };
    let values = EtcdServicesValues { meta: s.meta(), name: s.name.to_owned(), members: members(s) };
    match render_etcd_services(templates, &values) {
        Err(bug) => stage.state = bug.into(),
        Ok(objects) => {
            for object in objects {
                let key = object.key().clone();
                ensure(&mut stage, s.observed, object, |o| is_ours(o, s.name));
                service_address::keep(&mut stage, s.observed, &key, || address_before(s, &key.name));
            }
        }
    }
    if stage.state.is_done() && addresses(s.etcd, s.observed, s.addressed()).is_none() {
        stage.state = State::waiting("addresses of the members' Services");
    }
    stage
}

fn members(s: &Subject<'_>) -> Vec<String> {
    (0..s.addressed()).map(|i| names::etcd::member(s.name, i)).collect()
}

/// Where a member was: as the pods and its peers know it, or as clients were told.
fn address_before(s: &Subject<'_>, member: &str) -> ServiceAddress {
    let known = s.get(Kind::StatefulSet, s.name);
    let peers = || address_in(&s.record.bootstrap.member(member)?.peer_url);
    let told = || s.etcd.status.as_ref()?.endpoints.iter().find(|e| e.name == member)?.address.parse().ok();
    let cluster_ip =
        known.and_then(|set| service_address::of_host(set, &host(member, s.namespace))).or_else(peers).or_else(told);
    ServiceAddress { cluster_ip, node_port: None }
}

/// The address in a peer URL that has one in place of a name.
fn address_in(peer_url: &str) -> Option<IpAddr> {
    let (host, _) = peer_url.strip_prefix("https://")?.rsplit_once(':')?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Where peers reach a member, once its Service has an address: by name if all pods know the name, or else at the address, since pods that
/// run learn no names.
pub(super) fn peer_url(s: &Subject<'_>, member: &str) -> Option<String> {
    let address = address(s.etcd, s.observed, member)?;
    let ordinal = names::etcd::ordinal(s.name, member)?;
    let name = host(member, s.namespace);
    let known = |set| service_address::of_host(set, &name) == Some(address);
    let host = match address {
        _ if ordinal < s.founders() && s.get(Kind::StatefulSet, s.name).is_none_or(known) => name,
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    Some(format!("https://{host}:{PEER_PORT}"))
}

/// Names with addresses for all pods: of the members that the cluster was formed of, so that none of them changes with the members. The
/// address of one that is gone is as the pods have it.
pub(super) fn aliases(s: &Subject<'_>) -> Option<Vec<(String, IpAddr)>> {
    let there = addresses(s.etcd, s.observed, s.record.replicas)?;
    let live = s.get(Kind::StatefulSet, s.name);
    let all = (0..s.founders()).filter_map(|i| {
        let member = names::etcd::member(s.name, i);
        let known = there.iter().find(|(name, _)| *name == member).map(|(_, address)| *address);
        let former = || service_address::of_host(live?, &host(&member, s.namespace));
        Some((member.clone(), known.or_else(former)?))
    });
    Some(all.collect())
}

fn address(etcd: &EtcdCluster, observed: &Observed, member: &str) -> Option<IpAddr> {
    let (name, namespace) = name_of(etcd);
    let service = observed.get(&ObjectKey::namespaced(Kind::Service, namespace, member))?;
    let address = service.pointer("/spec/clusterIP")?.as_str()?.parse().ok()?;
    is_ours(service, name).then_some(address)
}

/// Members with their addresses, once every one of them has one.
pub(super) fn addresses(etcd: &EtcdCluster, observed: &Observed, replicas: i32) -> Option<Vec<(String, IpAddr)>> {
    let members = (0..replicas).map(|i| names::etcd::member(name_of(etcd).0, i));
    members.map(|member| Some((member.clone(), address(etcd, observed, &member)?))).collect()
}

/// The name by which a member is reached; it is in the serving certificate.
pub(super) fn host(member: &str, namespace: &str) -> String {
    format!("{member}.{namespace}.svc")
}

/// What clients are told: one that comes once all have come, so that they change once; one that goes before it goes.
pub(super) fn published(s: &Subject<'_>) -> Vec<EtcdEndpoint> {
    let mut all = endpoints(s.etcd, s.observed, s.record.replicas);
    let told = s.etcd.status.as_ref().map(|status| &status.endpoints).filter(|told| !told.is_empty());
    let ordinal = |e: &EtcdEndpoint| names::etcd::ordinal(s.name, &e.name).unwrap_or_default();
    let changes = s.etcd.spec.replicas != s.record.replicas || s.record.operation.is_some();
    if let Some(told) = told.filter(|_| changes) {
        all.retain(|e| told.iter().any(|t| t.name == e.name));
    }
    if let Some(operation) = s.record.under_way(OperationKind::Shrink) {
        all.retain(|e| e.name != operation.target && ordinal(e) < s.etcd.spec.replicas.max(1));
    }
    all
}

/// Where clients connect; empty until all addresses are known.
pub(super) fn endpoints(etcd: &EtcdCluster, observed: &Observed, replicas: i32) -> Vec<EtcdEndpoint> {
    let endpoint = |(name, address): (String, IpAddr)| {
        let host = host(&name, name_of(etcd).1);
        EtcdEndpoint { url: format!("https://{host}:{CLIENT_PORT}"), name, host, address: address.to_string() }
    };
    addresses(etcd, observed, replicas).unwrap_or_default().into_iter().map(endpoint).collect()
}
