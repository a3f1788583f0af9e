//! Stage 8: inside the tenant.

mod objects;

use super::endpoint;
use super::subject::Tenant;
use crate::model::{Action, Stage, StageId, State};
use crate::objects::diff::contains;
use crate::observed::ApiProbe;
use crate::workload;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_render::{Object, ObjectKey};
use jiff::SignedDuration;
use serde_json::Value;
use std::net::IpAddr;

pub(super) use objects::{keys, stamp_key};

/// The stage.
pub(super) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Tenant, State::Ready);
    let read = match &t.observed.api {
        ApiProbe::NotAsked => {
            stage.state = State::waiting("kube-apiserver to answer");
            return stage;
        }
        ApiProbe::Failed(why) => {
            let answer = endpoint::no_answer(t, why);
            stage.state = if endpoint::unresolved(t, why).is_some() && !is_new(t) {
                State::blocked(Reason::APINotReachable, format!("the API does not answer at {answer}"))
            } else {
                State::Waiting { reason: Reason::APINotReachable, on: format!("the API to answer at {answer}") }
            };
            return stage;
        }
        ApiProbe::Unable(why) => {
            stage.state = State::waiting(format!("a client certificate for the API: {why}"));
            return stage;
        }
        ApiProbe::Answered { read, .. } => read,
    };
    let Some(objects) = t.endpoint.advertised.and_then(objects::all) else {
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
        stage.state = State::waiting(format!("{} objects to be written in the tenant", due.len()));
    }
    for object in due {
        let live = read.get(object.key()).and_then(Option::as_ref);
        let to_recreate = live.filter(|live| must_be_recreated(live, &object));
        stage.actions.extend(to_recreate.map(|live| Action::tenant_delete(object.key(), live)));
        stage.actions.push(Action::TenantApply(object));
    }
    stage
}

/// Who makes the DNS record, a person or a controller, learns the load balancer's address when the API comes up.
const RECORD_IS_MADE: SignedDuration = SignedDuration::from_mins(2);

/// Whether the API has not been up long enough for a DNS record to be missed.
fn is_new(t: &Tenant<'_>) -> bool {
    let pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER);
    let first = pods.filter_map(|(_, pod)| workload::ready_since(pod)).min();
    first.is_some_and(|since| t.now.duration_since(since) < RECORD_IS_MADE)
}

/// Whether what was read under that key is what Berth keeps there, of a tenant whose API is at that address and port.
pub fn is_in_sync(advertised: (IpAddr, i32), key: &ObjectKey, live: Option<&Value>) -> bool {
    let all = objects::all(advertised).unwrap_or_default();
    all.iter().any(|wanted| wanted.key() == key && !differs(live, wanted))
}

/// Whether what is there can only be replaced: API servers change neither of these fields. For the address of another family nobody
/// misses the old slice: the tenant's `kubernetes` Service has one family, and kube-proxy takes slices of that one alone.
fn must_be_recreated(live: &Value, wanted: &Object) -> bool {
    ["addressType", "roleRef"].iter().any(|field| live[field] != wanted.value()[field])
}

fn differs(live: Option<&Value>, wanted: &Object) -> bool {
    !live.is_some_and(|l| contains(l, wanted.value()))
}
