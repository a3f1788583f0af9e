//! What the operator asks the tenant's API.

use super::Input;
use super::inside::{NOT_WELL, Wanted, kind_at};
use super::subject::Tenant;
use super::validate::host::HostRules;
use crate::workload;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::{labels, names};
use berth_render::{Kind, ObjectKey};

/// A question to the tenant's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Where it is asked.
    pub host: String,
    /// At which port.
    pub port: i32,
    /// Where `host` may lead, if it is a name that the spec chose.
    pub rules: Option<HostRules>,
    /// The Secret of the CA that signs the operator's credential.
    pub ca: ObjectKey,
    /// The kind of which all of Berth's objects are read.
    pub kind: Kind,
    /// Whether it is to say its version.
    pub version: bool,
    /// What it is to have inside, if that is known.
    pub wanted: Option<Wanted>,
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
        rules: t.endpoint.rules(&t, &host),
        host,
        port,
        ca: t.secret(names::ca(t.name)),
        kind: probe_kind(input),
        version: published.is_none() || published != runs.as_deref(),
        wanted: Wanted::before_plan(input),
    })
}

/// The kind to list inside the tenant. Of one that is not known to be well, or whose spec is new: stamps, which speak for all.
pub fn probe_kind(input: Input<'_>) -> Kind {
    let status = input.cluster.status.as_ref();
    let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
    let seen = status.is_some_and(|s| s.observed_generation == input.cluster.metadata.generation);
    let ready = find(conditions, ConditionType::Ready);
    let well = ready.is_some_and(|c| c.status == "True" || c.reason == Reason::NotInTemplates.as_str());
    if seen && well { kind_at(input.now) } else { NOT_WELL }
}
