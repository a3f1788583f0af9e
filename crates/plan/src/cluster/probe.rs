//! What the operator asks the tenant's API.

use super::subject::Tenant;
use super::{Input, inside};
use crate::workload;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::{labels, names};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use std::net::IpAddr;

/// A question to the tenant's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Where it is asked.
    pub host: String,
    /// At which port.
    pub port: i32,
    /// The Secret of the CA that signs the operator's credential.
    pub ca: ObjectKey,
    /// The object to read.
    pub key: ObjectKey,
    /// Whether it is to say its version.
    pub version: bool,
    /// Where the tenant's `kubernetes` Service points to.
    pub advertised: Option<(IpAddr, i32)>,
}

/// What to ask in this reconcile. None: no pod is there that the Service sends anybody to.
pub fn probe_request(input: Input<'_>) -> Option<ProbeRequest> {
    let Input { cluster, observed, .. } = input;
    // One that is protected is held, and serves on.
    if cluster.metadata.deletion_timestamp.is_some() && !cluster.spec.deletion.protected {
        return None;
    }
    let t = Tenant::new(input);
    let up = workload::pods_of(observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER)
        .any(|(_, pod)| workload::pod_ready(pod));
    let (host, port) = t.endpoint.dialled.clone().filter(|_| up)?;
    let published = cluster.status.as_ref().and_then(|s| s.version.as_deref());
    let runs = t.get(Kind::Deployment, names::APISERVER).and_then(workload::version_of).map(|v| v.to_string());
    Some(ProbeRequest {
        host,
        port,
        ca: t.secret(names::ca(t.name)),
        key: probe_key(input),
        version: published.is_none() || published != runs.as_deref(),
        advertised: t.endpoint.advertised,
    })
}

/// The one object to read inside the tenant. One that is not known to be well, or whose spec is new: the stamp, which speaks for all.
pub fn probe_key(input: Input<'_>) -> ObjectKey {
    let status = input.cluster.status.as_ref();
    let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
    let seen = status.is_some_and(|s| s.observed_generation == input.cluster.metadata.generation);
    let ready = find(conditions, ConditionType::Ready);
    let well = ready.is_some_and(|c| c.status == "True" || c.reason == Reason::NotInTemplates.as_str());
    if seen && well { key_at(input.now) } else { inside::stamp_key() }
}

/// Of a tenant that is well: all in turn, one a minute, which costs no more than the stamp and finds drift of each.
pub fn key_at(now: Timestamp) -> ObjectKey {
    let minute = usize::try_from(now.as_second() / 60).unwrap_or_default();
    let [first, second, third, stamp] = inside::keys();
    match minute % 4 {
        0 => first,
        1 => second,
        2 => third,
        _ => stamp,
    }
}
