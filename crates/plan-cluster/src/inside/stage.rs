//! The stage.

use super::addons;
use super::sets::{Wanted, differs};
use crate::endpoint::{no_answer, unresolved};
use crate::planned::ClusterPlan;
use crate::subject::Tenant;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::observed::{ApiProbe, InsideTenant, deleting, label};
use berth_plan::workload;
use berth_render::{Object, RenderError};
use jiff::SignedDuration;
use serde_json::Value;

/// The stage.
pub(crate) fn stage(t: &Tenant<'_>, out: &mut ClusterPlan) -> Stage {
    let mut stage = Stage::new(StageId::Tenant, State::Ready);
    let read = match &t.observed.api {
        ApiProbe::NotAsked => {
            stage.state = State::waiting("kube-apiserver to answer");
            return stage;
        }
        ApiProbe::Failed(why) => {
            let answer = no_answer(t, why);
            stage.state = if unresolved(t, why).is_some() && !is_new(t) {
                State::blocked(Reason::APINotReachable, format!("the API does not answer at {answer}"))
            } else {
                State::Waiting { reason: Reason::APINotReachable, on: format!("the API to answer at {answer}") }
            };
            return stage;
        }
        ApiProbe::Refused(why) => {
            stage.state = State::blocked(Reason::InvalidSpec, why.clone());
            return stage;
        }
        ApiProbe::Unable(why) => {
            stage.state = State::waiting(format!("a client certificate for the API: {why}"));
            return stage;
        }
        ApiProbe::Answered { read, .. } => read,
    };
    let fault = |e: RenderError| State::blocked(Reason::Error, e.to_string());
    let wanted = match Wanted::of(t) {
        Ok(wanted) => wanted,
        Err(state) => {
            stage.state = state;
            return stage;
        }
    };
    let (sets, all_addons) = match (wanted.sets().map_err(fault), wanted.addons().map_err(fault)) {
        (Ok(sets), Ok(all_addons)) => (sets, all_addons),
        (Err(state), _) | (_, Err(state)) => {
            stage.state = state;
            return stage;
        }
    };
    let mut due = due(sets, read);
    let former = t.status().addons;
    let mut told = vec![];
    // What is refused is left as it is, in the status too.
    told.extend(former.iter().filter(|f| all_addons.iter().all(|(addon, _)| addon.set.name() != f.name)).cloned());
    for (addon, objects) in all_addons {
        let former = former.iter().find(|f| f.name == addon.set.name()).cloned();
        let (mut is_due, mut is_left) = (false, false);
        if addon.enabled {
            let of_addon = self::due(vec![objects], read);
            is_due = !of_addon.is_empty();
            due.extend(of_addon);
        } else {
            // The stamp goes first: whoever turns it on again halfway finds that it is not whole. Then what has pods.
            for object in objects.iter().rev() {
                match read.get(object.key()) {
                    // Berth applied it: what has that name and no label is somebody else's.
                    Some(Some(live)) if label(live, labels::TENANT_SET) == Some(addon.set.name()) => {
                        is_left = true;
                        if !deleting(live) {
                            stage.actions.push(Action::tenant_delete(object.key(), live));
                        }
                    }
                    Some(_) => {}
                    None => is_left |= former.is_some(),
                }
            }
            if is_left {
                stage.state = State::waiting(format!("{} to be deleted in the tenant", addon.set.name()));
            }
        }
        told.extend(addons::status(addon, former, is_due, is_left));
    }
    told.sort_by(|a, b| a.name.cmp(&b.name));
    out.addons = Some(told);
    if !due.is_empty() {
        stage.state = State::waiting(format!("{} objects to be written in the tenant", due.len()));
    }
    if let Some((key, live)) = wanted.left(read) {
        stage.state = State::waiting(format!("{key} to be deleted in the tenant"));
        if !deleting(live) {
            stage.actions.push(Action::tenant_delete(&key, live));
        }
    }
    if let Some(message) = &wanted.addons.refused {
        stage.state = addons::refusal(message);
    }
    for object in due {
        let live = read.get(object.key()).flatten();
        let to_recreate = live.filter(|live| must_be_recreated(live, &object));
        stage.actions.extend(to_recreate.map(|live| Action::tenant_delete(object.key(), live)));
        stage.actions.push(Action::TenantApply(object));
    }
    stage
}

/// What is to be written. A stamp is written last and speaks for its whole set; any other object speaks for itself.
fn due(sets: Vec<Vec<Object>>, read: &InsideTenant) -> Vec<Object> {
    let is_due = |object: &Object| read.get(object.key()).is_some_and(|live| differs(live, object));
    let due = |set: Vec<Object>| {
        let everything = set.last().is_some_and(is_due);
        set.into_iter().filter(move |object| everything || is_due(object))
    };
    sets.into_iter().flat_map(due).collect()
}

/// Who makes the DNS record, a person or a controller, learns the load balancer's address when the API comes up.
const RECORD_IS_MADE: SignedDuration = SignedDuration::from_mins(2);

/// Whether the API has not been up long enough for a DNS record to be missed.
fn is_new(t: &Tenant<'_>) -> bool {
    let pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER);
    let first = pods.filter_map(|(_, pod)| workload::ready_since(pod)).min();
    first.is_some_and(|since| t.now.duration_since(since) < RECORD_IS_MADE)
}

/// Whether what is there can only be replaced: API servers change none of these fields. For the address of another family nobody
/// misses the old slice: the tenant's `kubernetes` Service has one family, and kube-proxy takes slices of that one alone.
fn must_be_recreated(live: &Value, wanted: &Object) -> bool {
    ["addressType", "roleRef"].iter().any(|field| live[field] != wanted.value()[field]) || live["immutable"] == true
}
