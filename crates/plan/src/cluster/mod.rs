//! The plan for a `Cluster`: one function a stage, in the order in which a tenant comes up.

pub mod components;
mod deletion;
mod endpoint;
mod etcd;
mod inside;
mod isolation;
mod kubeconfig;
mod namespace;
mod pace;
mod pki;
mod probe;
pub mod status;
mod tenant;
pub(crate) mod unread;
mod validate;

#[cfg(test)]
pub(crate) mod tests;

use crate::disown::disown;
use crate::model::{Action, Plan, Stage, StageId, State};
use crate::observed::{self, Observed, annotation, label};
use crate::settings::Settings;
use berth_api::cluster::Cluster;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_render::{Kind, Object};
use jiff::{SignedDuration, Timestamp};
use tenant::Tenant;

pub use inside::is_kept;
pub use namespace::{Pin, adoptable};
pub use probe::{Question, key_at, probe_key, question};
pub use validate::pin_of;

/// What a plan for a `Cluster` is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The `Cluster` as it was read.
    pub cluster: &'a Cluster,
    /// What was observed for it.
    pub observed: &'a Observed,
    /// The operator's configuration.
    pub settings: &'a Settings,
    /// The time of this pass.
    pub now: Timestamp,
}

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct ClusterPlan {
    /// What to do.
    pub plan: Plan,
    /// Look again after this long, even if nothing happens: whether the API answers, no watch tells.
    pub look_again: Option<SignedDuration>,
    /// After this long the plan is another one by time alone: a certificate is to be renewed.
    pub due: Option<SignedDuration>,
    /// Published address, once known.
    pub endpoint: Option<(String, i32)>,
    /// When the first certificate ends.
    pub next_expiry: Option<Timestamp>,
    /// CAs that come to their end.
    pub warnings: Vec<String>,
    /// The message for fields that are set and that the pinned templates do not read.
    pub unread: Option<String>,
}

/// True if Berth made it. The digest counts too, so that a label that was taken away is repaired and not a riddle.
pub fn is_ours(object: &serde_json::Value) -> bool {
    label(object, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
        || annotation(object, labels::APPLIED_DIGEST).is_some()
}

/// Puts `object` into the stage: owned, and applied if it differs.
pub(crate) fn ensure(stage: &mut Stage, observed: &Observed, object: Object) {
    crate::ensure::ensure(stage, observed, object, is_ours);
}

/// The plan for a `Cluster`.
pub fn plan(input: Input<'_>) -> ClusterPlan {
    let mut out = stages(input);
    if input.cluster.metadata.deletion_timestamp.is_some() {
        return out;
    }
    let stages = &mut out.plan.stages;
    if input.cluster.spec.paused {
        out.plan.prune.clear();
        for stage in &mut *stages {
            stage.actions.clear();
        }
    }
    let of_etcd = stages.iter().position(|stage| stage.id == StageId::Etcd);
    if (input.cluster.spec.paused || of_etcd.is_none())
        && let Some(stage) = stages.get_mut(of_etcd.unwrap_or_default())
    {
        stage.actions.extend(etcd::follow_pause(&Tenant::new(input)));
    }
    out
}

fn stages(input: Input<'_>) -> ClusterPlan {
    let mut out = ClusterPlan::default();
    let Input { cluster, settings, .. } = input;
    let mut t = Tenant::new(input);
    let live_namespace = t.live_home();
    let fresh = live_namespace.is_none() && t.status().control_plane_namespace.is_none();
    let (pin, refusal) = validate::pin_of(&cluster.spec, live_namespace, settings);
    if cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(&t);
    }
    let mut spec = Stage::new(StageId::Spec, State::Ready);
    if let Some(state) = refusal {
        spec.state = state;
    } else if let Err(message) = validate::networks(&cluster.spec.network) {
        spec.state = State::blocked(Reason::InvalidSpec, message);
    } else if fresh && let Err(message) = validate::all_args(&cluster.spec) {
        spec.state = State::blocked(Reason::InvalidSpec, message);
    } else if fresh && let Err(state) = validate::apart(&cluster.spec.network, &input.observed.meta) {
        spec.state = state;
    }
    let networks_bad = matches!(&spec.state, State::Blocked { reason: Reason::InvalidSpec, .. });
    // Once there is a namespace nothing is judged anew, so none is made for what is not judged, or not fit.
    let Some(pin) = pin.filter(|_| !fresh || spec.state.is_done()) else {
        out.plan.stages.push(spec);
        return out;
    };
    t.pin = validate::with_an_agent(pin, &t);
    let stop = |s: &Stage| matches!(s.state, State::Blocked { .. });

    let home = namespace::stage(&t);
    let namespace_there = live_namespace.is_some();
    let halt = stop(&home)
        || !namespace_there
        || t.observed.denied
        || (matches!(home.state, State::Waiting { .. }) && home.actions.is_empty());
    out.plan.stages.extend([spec, home]);
    if halt || networks_bad {
        return out;
    }

    let endpoint = endpoint::stage(&t);
    out.endpoint.clone_from(&t.endpoint.published);
    out.plan.stages.push(endpoint);

    let pki = pki::stage(&t, &mut out);
    let etcd = etcd::stage(&t);
    out.plan.stages.extend([pki, etcd]);
    let components = components::stages(&t, &out);
    out.plan.stages.extend(components);
    let kubeconfig = kubeconfig::stage(&t, &mut out);
    out.plan.stages.push(kubeconfig);
    let inside = inside::stage(&t);
    out.plan.stages.push(inside);
    pki::roots_first(&t, &mut out.plan);
    disown(&mut out.plan, t.observed, is_ours);
    if out.plan.stages.iter().all(|s| s.state.is_done()) {
        out.plan.prune = prune(&t, &out.plan);
    }
    out.unread = unread::message(&t);
    out.look_again = Some(pace::of(&t, &out));
    out
}

/// Kinds whose leftovers are removed. Secrets are never: what holds keys goes only with its namespace.
const PRUNED: [Kind; 5] =
    [Kind::ConfigMap, Kind::Service, Kind::NetworkPolicy, Kind::PodDisruptionBudget, Kind::Deployment];

/// Objects in the control-plane namespace that carry this tenant's labels and that no stage owns.
fn prune(t: &Tenant<'_>, plan: &Plan) -> Vec<Action> {
    let owned: std::collections::BTreeSet<_> = plan.stages.iter().flat_map(|s| &s.owns).collect();
    let wanted = t.labels();
    PRUNED
        .iter()
        .flat_map(|kind| t.observed.of_kind(*kind, &t.home))
        .filter(|(key, o)| {
            !owned.contains(key)
                && wanted.iter().all(|(k, v)| label(o, k) == Some(v))
                && label(o, labels::ETCD_CLUSTER).is_none()
                && !observed::deleting(o)
        })
        .map(|(key, o)| Action::delete(key, o, None))
        .collect()
}
