//! API servers with addresses in a VPC: a StatefulSet for each address (a *slot*), since the address is in the pod template, and since two
//! pods must never have it. The first `replicas` slots run; the others are spares, which run while one of the first changes or is lost.
//!
//! [`decide_slots`] is all there is to a rollout. It looks at what is there and at nothing else, so it goes on from wherever it was interrupted.

use super::apiserver_values::values_of;
use super::component::{Prepared, Rendered};
use crate::ours::is_ours;
use crate::subject::Tenant;
use crate::validate::vpc::places;
use crate::vpc;
use berth_api::cluster::Vpc;
use berth_api::hibernation::SleepState;
use berth_api::{labels, names};
use berth_plan::model::State;
use berth_plan::object_meta::annotation;
use berth_plan::objects::diff::has_pods_of;
use berth_plan::settings::MayChange;
use berth_plan::workload;
use berth_render::values::{ApiServerValues, VpcSlot, Workload};
use berth_render::{Binary, Kind, Object, ObjectKey, TemplateSet, render_apiserver};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// As long as a new slot may start before a spare takes its place.
const STARTS: SignedDuration = SignedDuration::from_mins(1);

/// What is there of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
// Each is seen by itself, and every combination may be met.
#[expect(clippy::struct_excessive_bools)]
struct Slot {
    /// Its StatefulSet is there.
    exists: bool,
    /// Its pod template is the wanted one.
    current: bool,
    /// It is to have a pod.
    runs: bool,
    /// Its pod is of the template that is there, and serves.
    ready: bool,
    /// It was made a moment ago.
    starts: bool,
    /// Its pod serves for `spec.upgrade.soak` already, if a release is rolled out.
    soaked: bool,
}

impl Slot {
    fn is_good(self) -> bool {
        self.current && self.runs && self.ready
    }
}

/// What becomes of each slot: none as it is; otherwise the wanted template, with or without a pod.
///
/// - What does not serve is changed at once: nothing is lost with it.
/// - What serves is changed only while every other one of the first `replicas` serves, one after the other, and after a spare, if there is
///   one, has proven the new template and serves. The first that changed, be it the spare, is the canary: it serves for a while before the
///   second is changed.
fn decide_slots(slots: &[Slot], replicas: usize, was_up: bool) -> Vec<Option<bool>> {
    let (first, spares) = slots.split_at(replicas.min(slots.len()));
    let lost = first.iter().filter(|s| !s.ready && !s.starts).count();
    let changes = first.iter().any(|s| !s.current);
    let needed = if was_up { lost.max(usize::from(changes)) } else { 0 };
    let proven = !was_up || spares.first().is_none_or(|s| s.is_good());
    let all_serve = first.iter().all(|s| s.ready);
    let mut changed = slots.iter().filter(|s| s.current && s.runs).peekable();
    let soaked = changed.peek().is_none() || changed.any(|s| s.is_good() && s.soaked);
    let mut next = proven && soaked && all_serve;
    let mut out = Vec::with_capacity(slots.len());
    for slot in first {
        let serves = slot.exists && slot.runs && slot.ready;
        out.push(match slot {
            _ if !slot.exists || !slot.runs => Some(true),
            _ if slot.current => None,
            _ if !serves => Some(true),
            _ => std::mem::take(&mut next).then_some(true),
        });
    }
    for (n, slot) in spares.iter().enumerate() {
        let wanted = n < needed;
        // One that serves in the place of another is not taken away.
        let free = !(slot.runs && slot.ready) || all_serve;
        out.push(match (slot.exists, slot.current, slot.runs == wanted) {
            (true, true, true) => None,
            _ if wanted && slot.exists && !free => None,
            _ => Some(wanted),
        });
    }
    out
}

/// The objects of all slots that are to be written now.
pub(super) fn objects(t: &Tenant<'_>, templates: &TemplateSet, workload: Workload, vpc: &Vpc) -> Prepared {
    places(t)?;
    let values = vpc::values(t, templates, values_of(t, workload)?)?;
    rendered(t, templates, &values, vpc)
}

fn rendered(t: &Tenant<'_>, templates: &TemplateSet, values: &ApiServerValues, vpc: &Vpc) -> Prepared {
    let definition = vpc::copy(t, templates, vpc)?;
    let network = vpc::definition_namespace(t, templates, vpc);
    let render = |slot: usize, runs: bool| -> Result<Vec<Object>, State> {
        let values = of_slot(values, network, vpc, (slot, runs));
        let objects = render_apiserver(templates, &values)?.into_iter();
        let images = &t.cluster.spec.images;
        Ok(objects.map(|o| workload::with_registry_annotation(o, images, Binary::ApiServer)).collect::<Vec<_>>())
    };
    let (mut seen, mut wanted) = (vec![], vec![]);
    for slot in 0..vpc.addresses.len() {
        let both = [render(slot, false)?, render(slot, true)?];
        let live = t.get(Kind::StatefulSet, &names::slot(names::APISERVER, slot)).filter(|live| is_ours(live));
        seen.push(Slot { soaked: soaked(t, slot), ..look(live, &both, (&t.observed.meta.may_change, t.now)) });
        wanted.push(both);
    }
    // Who wakes starts what ran: none of the first is lost, so no spare runs for it.
    let was_up = t.status().version.is_some() && t.sleep.state() != SleepState::Waking;
    let decided = decide_slots(&seen, vpc::replicas(&t.cluster.spec), was_up);
    let mut out = Rendered { objects: definition.into_iter().collect(), ..Rendered::default() };
    let mut later = vec![];
    for (slot, ((seen, decided), [without, with])) in seen.iter().zip(decided).zip(wanted).enumerate() {
        let runs = decided.unwrap_or(seen.runs);
        let changes = !seen.current && decided.is_some();
        let held = changes.then(|| vpc::holder(t, slot, vpc.addresses.get(slot)?)).flatten();
        if let Some(holder) = held {
            let address = &vpc.addresses[slot];
            return Err(State::waiting(format!("{holder}, which has {address}, to be gone")));
        }
        let writes = seen.current || decided.is_some();
        if !writes {
            later.push(names::slot(names::APISERVER, slot));
        }
        for object in if runs { with } else { without } {
            let of_all = object.key().kind == Kind::PodDisruptionBudget;
            let there = out.objects.iter().any(|o: &Object| o.key() == object.key());
            if (writes || of_all) && !there {
                out.objects.push(object);
            }
        }
    }
    out.objects.sort_by(|a, b| a.key().cmp(b.key()));
    out.left = (!later.is_empty()).then(|| format!("to be updated next, one after the other: {}", later.join(", ")));
    Ok(out)
}

/// The values of one slot. `network`: the namespace of the definition that its pod names.
fn of_slot(values: &ApiServerValues, network: &str, vpc: &Vpc, (slot, runs): (usize, bool)) -> ApiServerValues {
    let address = vpc.addresses.get(slot).cloned().unwrap_or_default();
    let mut values = values.clone();
    vpc::ask(&mut values, network, vpc, Some((slot, &address)));
    values.advertise_address = vpc::parse(&address).map(|net| net.addr().to_string()).unwrap_or_default();
    values.slot = Some(slot);
    values.vpc = VpcSlot { address, runs, ..values.vpc };
    values
}

/// What is there, beside what is wanted without and with a pod.
fn look(live: Option<&Value>, wanted: &[Vec<Object>; 2], (may, now): (&MayChange, Timestamp)) -> Slot {
    let Some(live) = live else { return Slot::default() };
    let rollout = workload::rollout(live);
    let sets = wanted.iter().flatten().filter(|o| o.key().kind == Kind::StatefulSet);
    let current = sets.into_iter().any(|set| {
        // The digest tells what was taken out of the template, too; the template, what somebody else changed.
        annotation(live, labels::APPLIED_DIGEST) == Some(&*set.digest()) && has_pods_of(live, set, may)
    });
    let made: Option<Timestamp> = live.pointer("/metadata/creationTimestamp").and_then(|at| at.as_str()?.parse().ok());
    Slot {
        exists: true,
        current,
        runs: rollout.desired > 0,
        ready: rollout.desired > 0 && rollout.settled,
        starts: made.is_some_and(|made| now.duration_since(made) < STARTS),
        soaked: true,
    }
}

/// Whether the pod of a slot serves long enough for others to change.
fn soaked(t: &Tenant<'_>, slot: usize) -> bool {
    let Some(canary) = t.release.canary else { return true };
    let slot = slot.to_string();
    let mut pods = workload::pods_of(t.observed, &t.cp_namespace, labels::SLOT, &slot);
    pods.any(|(_, pod)| canary.is_proven_by(pod, t.now))
}

/// Whether it is of a slot that the spec does not have any more.
pub(super) fn is_left_over(t: &Tenant<'_>, key: &ObjectKey) -> bool {
    let Some(vpc) = &t.cluster.spec.vpc else { return false };
    let slot = key.name.strip_prefix(names::APISERVER).and_then(|rest| rest.strip_prefix('-')?.parse::<usize>().ok());
    slot.is_some_and(|slot| slot >= vpc.addresses.len())
}

#[cfg(test)]
mod tests;
