//! Stage 8: inside the tenant.

mod objects;

use super::tenant::Tenant;
use crate::diff::contains;
use crate::model::{Action, Stage, StageId, State};
use crate::observed::ApiProbe;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_render::{Object, ObjectKey};
use serde_json::Value;

pub(super) use objects::stamp_key;

/// The stage.
pub(super) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Tenant, State::Ready);
    let read = match &t.observed.api {
        ApiProbe::NotAsked => {
            stage.state = State::waiting("kube-apiserver to answer");
            return stage;
        }
        ApiProbe::Failed(why) => {
            stage.state = State::Waiting { reason: Reason::APINotReachable, on: format!("the API to answer: {why}") };
            return stage;
        }
        ApiProbe::Unable(why) => {
            stage.state = State::waiting(format!("a way in: {why}"));
            return stage;
        }
        ApiProbe::Answered { read, .. } => read,
    };
    let Some(objects) = objects::all(t) else {
        stage.state = State::waiting("the address of the API");
        return stage;
    };
    // The stamp is written last and speaks for all; any other object speaks for itself.
    let stamp = stamp_key();
    let everything = objects.last().is_some_and(|o| read.get(&stamp).is_some_and(|live| differs(live.as_ref(), o)));
    let due: Vec<Object> = objects
        .into_iter()
        .filter(|o| everything || read.get(o.key()).is_some_and(|live| differs(live.as_ref(), o)))
        .collect();
    if !due.is_empty() {
        stage.state = State::waiting(format!("{} objects to be written inside the tenant", due.len()));
    }
    for object in due {
        let live = read.get(object.key()).and_then(Option::as_ref);
        let in_the_way = live.filter(|live| stands_in_the_way(live, &object));
        stage.actions.extend(in_the_way.map(|live| Action::tenant_delete(object.key(), live)));
        stage.actions.push(Action::TenantApply(object));
    }
    stage
}

/// Whether what is there can only be replaced: API servers change neither of these fields. For the address of another family nobody
/// misses the old slice: the tenant's `kubernetes` Service has one family, and kube-proxy takes slices of that one alone.
fn stands_in_the_way(live: &Value, wanted: &Object) -> bool {
    ["addressType", "roleRef"].iter().any(|field| live[field] != wanted.value()[field])
}

fn differs(live: Option<&Value>, wanted: &Object) -> bool {
    !live.is_some_and(|l| contains(l, wanted.value()))
}

/// The one object to read inside the tenant in this pass. A tenant that is not known to be well, or whose spec is new: the stamp.
/// Otherwise all in turn, one a minute, which costs no more and finds drift of each.
pub fn probe_key(input: super::Input<'_>) -> ObjectKey {
    let status = input.cluster.status.as_ref();
    let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
    let ready = find(conditions, ConditionType::Ready);
    let well = ready.is_some_and(|c| c.status == "True" || c.reason == Reason::NotInTemplates.as_str());
    let seen = status.is_some_and(|s| s.observed_generation == input.cluster.metadata.generation);
    let keys = objects::keys();
    let minute = usize::try_from(input.now.as_second() / 60).unwrap_or_default();
    match keys.get(minute % keys.len()) {
        Some(key) if seen && well => key.clone(),
        _ => stamp_key(),
    }
}
