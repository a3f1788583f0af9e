//! The stage.

use super::sets::{Wanted, differs};
use super::{addons, edited, serving};
use crate::admission;
use crate::endpoint::{no_answer, unresolved};
use crate::planned::ClusterPlan;
use crate::subject::Tenant;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::{ApiProbe, InsideTenant};
use berth_plan::workload;
use berth_render::Object;
use jiff::SignedDuration;
use serde_json::Value;

/// The stage.
pub(crate) fn stage(t: &Tenant<'_>, out: &mut ClusterPlan) -> Stage {
    let mut stage = Stage::new(StageId::Tenant, State::Ready);
    if t.sleep.is_asleep() {
        return stage;
    }
    if let Err(state) = fill(&mut stage, t, out) {
        stage.state = state;
    }
    // What keeps only the tenant's own from being written is no reason to be anything but done.
    let is_wrong = stage.state.goes_on() || (stage.state.is_done() && admission::hinders(t));
    if let Some(message) = admission::message(t).filter(|_| is_wrong) {
        stage.state = State::Reported { reason: Reason::WebhookInTheWay, message };
    }
    stage
}

/// What was read in the tenant, or why nothing was.
fn answer<'a>(t: &Tenant<'a>) -> Result<&'a InsideTenant, State> {
    Err(match &t.observed.api {
        ApiProbe::Answered { read, .. } => return Ok(read),
        ApiProbe::NotAsked => State::waiting("kube-apiserver to answer"),
        ApiProbe::Failed(why) => {
            let answer = no_answer(t, why);
            if unresolved(t, why).is_some() && !is_new(t) {
                State::blocked(Reason::APINotReachable, format!("the API does not answer at {answer}"))
            } else {
                State::Waiting { reason: Reason::APINotReachable, on: format!("the API to answer at {answer}") }
            }
        }
        ApiProbe::Refused(why) => State::blocked(Reason::InvalidSpec, why.clone()),
        ApiProbe::Unable(why) => State::waiting(format!("a client certificate for the API: {why}")),
    })
}

fn fill(stage: &mut Stage, t: &Tenant<'_>, out: &mut ClusterPlan) -> Result<(), State> {
    let read = answer(t)?;
    let wanted = Wanted::decide(t)?;
    let (sets, all_addons) = (wanted.sets()?, wanted.addons()?);
    let mut due = due(sets, read);
    due.retain(|Due { object, .. }| !wanted.is_left_alone(object.key()));
    let former = t.status().addons;
    let mut told = vec![];
    // What is refused, or waits, is left as it is; how it serves is said all the same.
    let left = former.iter().filter(|f| all_addons.iter().all(|(addon, _)| addon.set.name() != f.name));
    told.extend(left.map(|left| {
        let waits = wanted.addons.waiting.get(&*left.name);
        let mut one = serving::with_pods(t, read, left.clone(), waits.map_or(serving::ONCE_MENDED, String::as_str));
        if let (Some(why), true) = (waits, one.ready.is_some()) {
            one.message = one.message.take().or_else(|| Some(why.clone()));
        }
        one
    }));
    for (addon, objects) in all_addons {
        let former = former.iter().find(|f| f.name == addon.set.name()).cloned();
        let (mut is_due, mut is_left) = (false, false);
        if addon.enabled {
            let of_addon = self::due(vec![objects], read);
            is_due = !of_addon.is_empty();
            due.extend(of_addon);
        } else {
            is_left = delete(stage, addon.set.name(), &objects, (read, former.is_some()));
        }
        let one = addons::status(addon, former, is_due, is_left);
        told.extend(
            one.map(|one| if addon.enabled { serving::with_pods(t, read, one, serving::AT_ONCE) } else { one }),
        );
    }
    for (set, objects) in wanted.off()? {
        delete(stage, set, &objects, (read, false));
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
    if let Some(message) = wanted.kubelet_refused.as_ref().or(wanted.addons.refused.as_ref()) {
        stage.state = addons::refusal(message);
    }
    stage.actions.extend(due.into_iter().flat_map(|due| written(due, &wanted, read, t.name)));
    Ok(())
}

/// How what is due is written.
fn written(Due { object, is_edited }: Due, wanted: &Wanted, read: &InsideTenant, cluster: &str) -> Vec<Action> {
    let live = read.get(object.key()).flatten();
    let to_recreate = live.filter(|live| must_be_recreated(live, &object));
    let told = is_edited.then(|| edited::note(live, &object, cluster));
    let told = told.map(|note| Action::TenantTell { object: object.clone(), note });
    let deleted = to_recreate.map(|live| Action::tenant_delete(object.key(), live));
    deleted.into_iter().chain([wanted.write(object)]).chain(told).collect()
}

/// Deletes an add-on, and tells whether something of it is left, or may be of one that the status lists. The stamp goes first: whoever turns
/// it on again halfway finds that it is not whole. Then what has pods.
fn delete(stage: &mut Stage, addon: &str, objects: &[Object], (read, is_listed): (&InsideTenant, bool)) -> bool {
    let mut is_left = false;
    for object in objects.iter().rev() {
        match read.get(object.key()) {
            // Berth applied it: what has that name and no label is somebody else's.
            Some(Some(live)) if label(live, labels::TENANT_SET) == Some(addon) => {
                is_left = true;
                if !deleting(live) {
                    stage.actions.push(Action::tenant_delete(object.key(), live));
                }
            }
            Some(_) => {}
            None => is_left |= is_listed,
        }
    }
    if is_left {
        stage.state = State::waiting(format!("{addon} to be deleted in the tenant"));
    }
    is_left
}

/// What is to be written.
struct Due {
    object: Object,
    /// Berth had written it as it is to be: somebody changed it since.
    is_edited: bool,
}

/// What is to be written. A stamp is written last and speaks for its whole set; any other object speaks for itself. As long as the stamp is as it
/// is to be, the set was written whole, and what differs was edited; else Berth itself may want another thing than it did.
fn due(sets: Vec<Vec<Object>>, read: &InsideTenant) -> Vec<Due> {
    let is_due = |object: &Object| read.get(object.key()).is_some_and(|live| differs(live, object));
    let due = |set: Vec<Object>| {
        let stamp = set.last();
        let everything = stamp.is_some_and(is_due);
        let is_edited = !everything && stamp.is_some_and(|stamp| read.get(stamp.key()).is_some());
        set.into_iter().filter(move |object| everything || is_due(object)).map(move |object| Due { object, is_edited })
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
