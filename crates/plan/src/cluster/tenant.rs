//! Stage 8: inside the tenant. Also decides how soon to look again.

use super::{ClusterPlan, Tenant, tenant_objects};
use crate::diff::contains;
use crate::model::{Action, Component, Stage, State};
use crate::observed::ApiProbe;
use crate::workload;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_render::Kind;
use jiff::SignedDuration;

/// The stage.
pub(super) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(Component::Tenant, State::Ready);
    let applied = match &t.observed.api {
        ApiProbe::NotAsked => {
            stage.state = State::waiting("kube-apiserver to answer");
            return stage;
        }
        ApiProbe::Failed(why) => {
            stage.state = State::Waiting { reason: Reason::APINotReachable, on: format!("the API to answer: {why}") };
            return stage;
        }
        ApiProbe::Answered { applied, .. } => applied.as_deref(),
    };
    let Some(objects) = tenant_objects::all(t) else {
        stage.state = State::waiting("the address of the API");
        return stage;
    };
    let up_to_date = applied.is_some_and(|a| objects.last().is_some_and(|o| o.annotations().get(labels::APPLIED_DIGEST) == Some(&a)));
    match &t.observed.tenant_objects {
        // Not read in this pass: the stamp, which is written last, speaks for all.
        None if up_to_date => {}
        None => stage.actions = objects.into_iter().map(Action::TenantApply).collect(),
        Some(live) => {
            stage.actions = objects
                .into_iter()
                .filter(|o| !live.get(o.key()).is_some_and(|l| contains(l, o.value())))
                .map(Action::TenantApply)
                .collect();
        }
    }
    if !stage.actions.is_empty() {
        stage.state = State::waiting(format!("{} objects to be written inside the tenant", stage.actions.len()));
    }
    stage
}

/// How soon to look again, if no event comes first.
pub(super) fn poll(t: &Tenant<'_>, out: &ClusterPlan) -> SignedDuration {
    let running = workload::pods_of(t.observed, &t.home, labels::COMPONENT, names::APISERVER)
        .any(|(_, p)| workload::pod_running(p));
    let answered = matches!(t.observed.api, ApiProbe::Answered { .. });
    let settled = out.plan.stages.iter().all(|s| s.state.is_done());
    match (answered, running, settled) {
        // The API comes up within a second or two of its process; kubelet's probe would tell later.
        (false, true, _) => SignedDuration::from_millis(250),
        (_, _, false) if t.get(Kind::Deployment, names::APISERVER).is_some() => SignedDuration::from_secs(10),
        (_, _, false) => SignedDuration::from_secs(5),
        // `Available` promises an answer within the last minute.
        (_, _, true) => SignedDuration::from_secs(55),
    }
}
