//! Stage 2: an address for each member that outlives its pods.

use super::subject::{Subject, is_ours};
use crate::model::{Stage, StageId, State};
use crate::objects::ensure;
use crate::objects::former::{self, Former};
use crate::observed::Observed;
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::EtcdEndpoint;
use berth_api::names;
use berth_render::values::EtcdServicesValues;
use berth_render::{Kind, ObjectKey, render_etcd_services};
use std::net::IpAddr;

/// Port for clients.
const CLIENT_PORT: u16 = 2379;

/// The stage.
pub(super) fn stage(s: &Subject<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Endpoint, State::Ready);
    let Some(templates) = s.templates() else { return stage };
    let values = EtcdServicesValues { meta: s.meta(), name: s.name.to_owned(), members: s.members() };
    match render_etcd_services(templates, &values) {
        Err(e) => stage.state = State::blocked(Reason::Error, e.to_string()),
        Ok(objects) => {
            for object in objects {
                let key = object.key().clone();
                ensure(&mut stage, s.observed, object, |o| is_ours(o, s.name));
                former::keep(&mut stage, s.observed, &key, || address_before(s, &key.name));
            }
        }
    }
    if stage.state.is_done() && addresses(s.observed, s.namespace, s.name, s.record.replicas).is_none() {
        stage.state = State::waiting("addresses of the members' Services");
    }
    stage
}

/// Where a member was: as the pods know it, or as clients were told.
fn address_before(s: &Subject<'_>, member: &str) -> Former {
    let known = s.get(Kind::StatefulSet, s.name);
    let told = || s.etcd.status.as_ref()?.endpoints.iter().find(|e| e.name == member)?.address.parse().ok();
    let cluster_ip = known.and_then(|set| former::of_host(set, &host(member, s.namespace))).or_else(told);
    Former { cluster_ip, node_port: None }
}

/// Members with their addresses, once every one of them has one.
pub(super) fn addresses(
    observed: &Observed,
    namespace: &str,
    name: &str,
    replicas: i32,
) -> Option<Vec<(String, IpAddr)>> {
    (0..replicas)
        .map(|i| {
            let member = names::etcd::member(name, i);
            let service = observed.get(&ObjectKey::namespaced(Kind::Service, namespace, &*member))?;
            let address = service.pointer("/spec/clusterIP")?.as_str()?.parse().ok()?;
            is_ours(service, name).then_some((member, address))
        })
        .collect()
}

/// The name by which a member is reached; it is in the serving certificate.
pub(super) fn host(member: &str, namespace: &str) -> String {
    format!("{member}.{namespace}.svc")
}

/// Where clients connect; empty until all addresses are known.
pub(super) fn endpoints(observed: &Observed, namespace: &str, name: &str, replicas: i32) -> Vec<EtcdEndpoint> {
    let known = addresses(observed, namespace, name, replicas).unwrap_or_default();
    known
        .into_iter()
        .map(|(member, address)| {
            let host = host(&member, namespace);
            EtcdEndpoint {
                url: format!("https://{host}:{CLIENT_PORT}"),
                name: member,
                host,
                address: address.to_string(),
            }
        })
        .collect()
}
