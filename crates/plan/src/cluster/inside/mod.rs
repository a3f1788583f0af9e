//! Stage 8: inside the tenant.

mod sets;

use super::subject::Tenant;
use super::{endpoint, validate};
use crate::model::{Action, Stage, StageId, State};
use crate::objects::diff::contains;
use crate::observed::{ApiProbe, InsideTenant};
use crate::workload;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_render::{Listing, Object, TenantSet};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use sets::Wanted;

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
    let sets = Wanted::of(t).and_then(|wanted| wanted.sets().map_err(|e| State::blocked(Reason::Error, e.to_string())));
    let due = match sets {
        Ok(sets) => due(sets, read),
        Err(state) => {
            stage.state = state;
            return stage;
        }
    };
    if !due.is_empty() {
        stage.state = State::waiting(format!("{} objects to be written in the tenant", due.len()));
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

/// A question inside a tenant that is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// What Berth keeps there.
    Listing(Listing),
    /// The nodes.
    Nodes,
}

impl Turn {
    /// All in turn, one a minute: drift of each is found.
    pub fn at(now: Timestamp) -> Self {
        let minute = usize::try_from(now.as_second() / 60).unwrap_or_default();
        let turn = minute % (TenantSet::LISTINGS.len() + 1);
        TenantSet::LISTINGS.get(turn).map_or(Self::Nodes, |listing| Self::Listing(*listing))
    }
}

/// Whether what is there can only be replaced: API servers change none of these fields. For the address of another family nobody
/// misses the old slice: the tenant's `kubernetes` Service has one family, and kube-proxy takes slices of that one alone.
fn must_be_recreated(live: &Value, wanted: &Object) -> bool {
    ["addressType", "roleRef"].iter().any(|field| live[field] != wanted.value()[field]) || live["immutable"] == true
}

fn differs(live: Option<&Value>, wanted: &Object) -> bool {
    !live.is_some_and(|l| contains(l, wanted.value()))
}
