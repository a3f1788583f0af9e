//! Where the tenant is registered, or is about to be, by what is recorded of it.

use super::wish::{Target, Wish, identity, secret};
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::cluster::{RegisteredSecret, RegistrationStatus};
use berth_api::{Cluster, labels, names};
use berth_plan::object_meta::label;
use berth_plan::observed::{Observed, Registered};
use berth_plan::settings::Settings;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// The kubeconfig that is registered, if it is there and Berth's.
fn source_of<'a>(cluster: &Cluster, observed: &'a Observed) -> Option<&'a Value> {
    let (namespace, name) = identity(cluster);
    let home = names::control_plane_namespace(namespace, name);
    let key = ObjectKey::namespaced(Kind::Secret, home, names::ARGOCD_KUBECONFIG);
    observed.get(&key).filter(|live| is_ours(live))
}

fn told(cluster: &Cluster) -> Option<&RegisteredSecret> {
    cluster.status.as_ref()?.registration.as_ref()?.argo_cd.as_ref()
}

fn recorded_of(cluster: &Cluster, observed: &Observed) -> Option<ObjectKey> {
    let place = source_of(cluster, observed).and_then(|live| label(live, labels::ARGOCD_NAMESPACE));
    let by_source = place.map(|place| secret(place, identity(cluster)));
    by_source.or_else(|| told(cluster).map(|told| secret(&told.namespace, identity(cluster))))
}

/// The Secret to look at: where it is recorded, or else where it is to be. None: nothing is, or is to be, registered.
pub fn key(cluster: &Cluster, settings: &Settings, observed: &Observed) -> Option<ObjectKey> {
    recorded_of(cluster, observed).or_else(|| match Wish::of(cluster, settings) {
        Wish::Yes(target) => Some(target.key),
        Wish::No | Wish::Refused(_) => None,
    })
}

/// The kubeconfig that is registered, if it is there and Berth's.
pub(super) fn source<'a>(t: &Tenant<'a>) -> Option<&'a Value> {
    source_of(t.cluster, t.observed)
}

/// Where it is recorded.
pub(super) fn recorded(t: &Tenant<'_>) -> Option<ObjectKey> {
    recorded_of(t.cluster, t.observed)
}

/// How it is to be registered. None: it is not; or it is registered elsewhere, which is taken back first.
pub(super) fn target<'a>(t: &Tenant<'a>) -> Option<Target<'a>> {
    match Wish::of(t.cluster, t.settings) {
        Wish::Yes(target) if recorded(t).is_none_or(|recorded| recorded == target.key) => Some(target),
        _ => None,
    }
}

/// Nothing of Berth's is under the recorded name.
pub(super) fn is_gone(t: &Tenant<'_>) -> bool {
    matches!(t.observed.registered, Registered::Absent | Registered::Foreign(_))
}

/// What the status tells: what is there, until all of it is seen to be gone.
pub(crate) fn status(t: &Tenant<'_>) -> Option<RegistrationStatus> {
    let told = told(t.cluster);
    // What was not looked at is as it was.
    let argo_cd = if t.observed.denied { told.cloned() } else { left(t, told) };
    Some(RegistrationStatus { argo_cd: Some(argo_cd?) })
}

fn left(t: &Tenant<'_>, told: Option<&RegisteredSecret>) -> Option<RegisteredSecret> {
    let key = recorded(t).filter(|_| source(t).is_some() || !is_gone(t))?;
    let uid = match &t.observed.registered {
        Registered::Ours(live) => Some(live.uid.clone()),
        Registered::Unknown | Registered::Failed(_) => told.and_then(|told| told.uid.clone()),
        Registered::Absent | Registered::Foreign(_) => None,
    };
    Some(RegisteredSecret { namespace: key.namespace?, name: key.name, uid })
}
