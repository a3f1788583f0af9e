//! What is done. The stage is always done: what is wrong is said by a condition of its own, and holds up nothing.

use super::decide::next;
use super::record::{self, is_gone, recorded, source, target};
use super::rights;
use super::say;
use super::wish::Target;
use crate::pki;
use crate::planned::ClusterPlan;
use crate::subject::Tenant;
use berth_api::cluster::EndpointType;
use berth_api::{labels, names};
use berth_plan::model::{Action, SecretEntry, Stage, StageId, State};
use berth_plan::object_meta::deleting;
use berth_plan::observed::{Registered, RegisteredSecret};
use berth_plan::secrets::SecretSpec;
use berth_render::ObjectKey;
use jiff::SignedDuration;

/// No watch tells of Argo CD's namespace.
const LOOKS_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// The stage. None: nothing is, or is to be, registered.
pub(crate) fn stage(t: &Tenant<'_>, out: &mut ClusterPlan) -> Option<Stage> {
    let mut stage = Stage::new(StageId::Registration, State::Ready);
    if let Some(target) = target(t) {
        stage.actions = kubeconfig(t, &target, out);
        stage.actions.extend(next(t, &target).map(Box::new).map(Action::Register));
    } else {
        stage.actions.extend(take_back(t, recorded(t)?));
    }
    stage.owns.push(t.secret(names::ARGOCD_KUBECONFIG));
    Some(stage)
}

/// Keeps the kubeconfig that is registered.
fn kubeconfig(t: &Tenant<'_>, target: &Target<'_>, out: &mut ClusterPlan) -> Vec<Action> {
    let Some(server) = server(t) else { return vec![] };
    let entry = SecretEntry::Kubeconfig {
        cluster: t.name.into(),
        server,
        spec: pki::client(names::ARGOCD_USER, &[], t.settings.leaf_lifetime),
        issuer: t.secret(names::ca(t.name)),
        why: String::new(),
    };
    let mut all = t.labels();
    all.insert(labels::ARGOCD_NAMESPACE.into(), target.key.namespace.clone().unwrap_or_default());
    let key = t.secret(names::ARGOCD_KUBECONFIG);
    let spec = SecretSpec { key, type_: "Opaque", labels: all, entries: vec![entry] };
    let mut judged = Stage::new(StageId::Registration, State::Ready);
    pki::judge_into(t, &mut judged, out, &spec, None);
    judged.actions
}

/// Where Argo CD, which is in the meta cluster, reaches the API. Argo CD knows a cluster by its URL alone, so it is none that a team can choose: the host
/// in the spec may be another cluster's. Behind a gateway names are checked, and there may be no other way. None: nobody was served yet.
fn server(t: &Tenant<'_>) -> Option<String> {
    let handed_out = t.endpoint.handed_out.clone()?;
    if t.cluster.spec.endpoint.type_ == EndpointType::Gateway {
        return Some(handed_out);
    }
    t.endpoint.inside(&t.cp_namespace).map(|(_, inside)| inside)
}

/// The Secret goes first, then rights (the stage of the tenant deletes these), and the record last.
fn take_back(t: &Tenant<'_>, recorded: ObjectKey) -> Option<Action> {
    if let Registered::Ours(live) = &t.observed.registered {
        return delete(recorded, live);
    }
    let record = source(t).filter(|live| is_gone(t) && rights::are_gone(t) && !deleting(live))?;
    Some(Action::delete(&t.secret(names::ARGOCD_KUBECONFIG), record, None))
}

/// Once: a finalizer of somebody else's may keep it for long.
fn delete(key: ObjectKey, live: &RegisteredSecret) -> Option<Action> {
    live.ends.is_none().then(|| Action::Delete { key, uid: live.uid.clone(), grace: None })
}

/// While the `Cluster` is being deleted: rights in the tenant go with it. None: nothing of Berth's is left in Argo CD's namespace.
pub(crate) fn end(t: &Tenant<'_>) -> Option<Stage> {
    let key = record::key(t.cluster, t.settings, t.observed)?;
    let mut stage = Stage::new(StageId::Registration, State::waiting(format!("{key} to be deleted")));
    match &t.observed.registered {
        Registered::Ours(live) => {
            if let Some(finalizers) = &live.ends {
                stage.state = State::waiting(say::ends(&key, finalizers));
            }
            stage.actions.extend(delete(key, live));
            Some(stage)
        }
        Registered::Failed(why) => {
            stage.state = State::waiting(format!("{key} to be deleted: {why}"));
            Some(stage)
        }
        Registered::Unknown | Registered::Absent | Registered::Foreign(_) => None,
    }
}

/// How soon it is looked at again, where somebody else has to do something.
pub(crate) fn again(t: &Tenant<'_>) -> Option<SignedDuration> {
    let is_asked = target(t).is_some() || recorded(t).is_some();
    let waits = match &t.observed.registered {
        Registered::Failed(_) => true,
        Registered::Foreign(_) => target(t).is_some(),
        Registered::Ours(live) => live.ends.is_some(),
        Registered::Unknown | Registered::Absent => false,
    };
    (is_asked && waits).then_some(LOOKS_AGAIN)
}
