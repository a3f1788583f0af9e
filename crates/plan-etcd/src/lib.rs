//! The plan for an `EtcdCluster`: one function a stage, in the order in which its members come up.
//!
//! The driver observes [`OBSERVED`] (everything labelled with the cluster's name), asks the members at [`endpoints`] once
//! one of their pods runs, and then plans and carries out until nothing is left to write.

mod alarm;
mod backups;
mod deletion;
mod growth;
mod health;
mod members;
mod membership;
mod newer;
mod parity;
mod pki;
mod planned;
mod probe;
mod record;
mod recovery;
mod requeue;
mod restore;
mod roll;
mod services;
pub mod status;
pub mod stranded;
mod subject;
pub mod unread;
mod upgrade;
mod upkeep;
mod validate;
mod volumes;
mod way_back;

#[cfg(test)]
pub(crate) mod tests;

use berth_api::etcd_cluster::EtcdCluster;
use berth_api::etcd_cluster::EtcdClusterStatus;
use berth_api::etcd_recovery::RecoveryStatus;
use berth_api::{labels, names};
use berth_plan::etcd_home::Home;
use berth_plan::model::Action;
use berth_plan::objects::owner_references::clear_owner_references;
use berth_plan::observed::{self, label};
use berth_plan::{Failure, Outcome, Planner};
use berth_render::Kind;
use serde_json::Value;
use subject::{Subject, is_ours};

pub use growth::storage_class;
pub use health::{Health, Member};
pub use planned::EtcdPlan;
pub use probe::{can_probe, endpoints, missing_members};
pub use record::running;
pub use record::{pinned_next_templates, pinned_templates};
pub use recovery::view::recovers;
pub use subject::Input;

/// Kinds that a plan looks at, in the `EtcdCluster`'s namespace, by the label `berth.dev/etcd-cluster`. What has one of the
/// names that a plan owns must be there too, whatever its labels, so that somebody else's object is seen.
pub const OBSERVED: [Kind; 7] = [
    Kind::PodDisruptionBudget,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::PersistentVolumeClaim,
    Kind::Service,
    Kind::StatefulSet,
    Kind::Pod,
];

/// Decides for an `EtcdCluster`.
#[derive(Clone, Copy, Debug)]
pub struct EtcdPlanner;

impl Planner for EtcdPlanner {
    type Object = EtcdCluster;
    type Planned = EtcdPlan;
    type Status = EtcdClusterStatus;

    fn plan(input: Input<'_>) -> EtcdPlan {
        plan(input)
    }

    fn outcome(planned: &EtcdPlan) -> Outcome<'_> {
        Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: planned.due() }
    }

    fn status(input: Input<'_>, planned: &EtcdPlan, failure: Option<&Failure>) -> EtcdClusterStatus {
        status::status(input, planned, failure)
    }
}

/// The plan for an `EtcdCluster`.
pub fn plan(input: Input<'_>) -> EtcdPlan {
    if input.is_deleted() {
        return deletion::plan(input);
    }
    let mut out = EtcdPlan::default();
    let (spec, record) = validate::stage(input);
    out.plan.stages.push(spec);
    let Some(record) = record else {
        out.requeue_after = Some(requeue::SLOW);
        return out;
    };
    let mut s = Subject::new(input, record);
    newer::take_up(&mut s);
    out.health = health::judge(&s);
    let request = restore::view::request(s.etcd);
    let restore = restore_step(&mut s, &mut out.health, request.as_ref());
    let step = match &restore {
        restore::Step::None => step(&mut s, &mut out.health),
        restore::Step::Write(_) => membership::Step::Write(membership::view::journal(&s.record)),
        restore::Step::Wait(_) | restore::Step::Refuse(_) => membership::Step::Rest,
    };
    let is_free = restore == restore::Step::None && step == membership::Step::Rest;
    let upgrade = if is_free { upgrade_step(&mut s, &mut out.health) } else { upgrade::Step::Rest };
    out.hashes = parity::last(&s);
    out.hashes_failed_at = parity::failed(&s);
    if s.templates().is_some() {
        out.plan.stages.push(services::stage(&s));
    }
    out.endpoints = services::published(&s);
    let pki = pki::stage(&s, &mut out);
    out.plan.stages.push(pki);
    let recovery = recover(&s, &mut out);
    let growth = growth::decide(&s);
    let steps = members::Steps { members: step, restore, recovery, upgrade, growth };
    let mut etcd = members::stage(&s, &mut out, &steps);
    // The last of all: nothing waits for it, also where it is refused.
    if let (growth::Step::Grow(action), true) = (steps.growth, etcd.actions.is_empty()) {
        etcd.actions.push(action);
    }
    out.plan.stages.push(etcd);
    clear_owner_references(&mut out.plan, s.observed, |o| is_ours(o, s.name));
    if s.etcd.spec.paused {
        out.plan.stages.iter_mut().for_each(|stage| stage.actions.clear());
    } else if out.plan.stages.iter().all(|stage| !stage.state.goes_on()) {
        out.plan.prune = prune(&s);
    }
    out.unread = unread::message(&s);
    out.absent_nodes = stranded::absent(&s);
    out.requeue_after = Some(requeue::after(&s, &out));
    out.record = Some(s.record);
    out
}

/// What is done by itself about a quorum that is lost for good.
fn recover(s: &Subject<'_>, out: &mut EtcdPlan) -> recovery::Step {
    let view = recovery::view::of(s, &out.health);
    let (step, mut status) = recovery::decide(&view);
    if let (recovery::Step::Begin { name, .. }, Some(status)) = (&step, &mut status) {
        view.begun(status, Home::of(s.etcd).namespace, name);
    }
    if let (Some(status), Some(loss)) = (&mut status, &view.loss) {
        status.left.retain(|member| !loss.lost.contains(&member.name));
    }
    let begins = matches!(step, recovery::Step::Begin { .. });
    let goes_on = |status: &&mut RecoveryStatus| status.begun.is_some() && status.goes_on();
    if let Some(status) = status.as_mut().filter(goes_on).filter(|status| begins || status.left.is_empty()) {
        status.left = recovery::view::left(s, &view);
    }
    out.recovery = status;
    step
}

/// What a restore does next, before all else. What is to be written down is in the record from here on.
fn restore_step(
    s: &mut Subject<'_>,
    health: &mut Health,
    request: Option<&berth_api::restore::RestoreRequest>,
) -> restore::Step {
    let is_known = s.templates().is_some();
    let step = restore::decide(&restore::view::of(s, health, request));
    if s.etcd.spec.paused || !is_known {
        return match step {
            restore::Step::None => restore::Step::None,
            _ => restore::Step::Wait("spec.paused to be false, and its pinned templates to be there".into()),
        };
    }
    if let restore::Step::Write(entry) = &step {
        restore::view::take(&mut s.record, entry);
        *health = health::judge(s);
    }
    step
}

/// What happens to the members next. What is to be written down is in the record from here on.
fn step(s: &mut Subject<'_>, health: &mut Health) -> membership::Step {
    if s.etcd.spec.paused || s.templates().is_none() {
        return membership::Step::Rest;
    }
    let step = membership::decide(&membership::view::of(s, health));
    if let membership::Step::Write(journal) = &step {
        membership::view::take(&mut s.record, journal);
        *health = health::judge(s);
    }
    step
}

/// What happens to the version next. What is to be written down is in the record from here on.
fn upgrade_step(s: &mut Subject<'_>, health: &mut Health) -> upgrade::Step {
    if s.etcd.spec.paused || s.templates().is_none() {
        return upgrade::Step::Rest;
    }
    let step = upgrade::decide(&upgrade::view::of(s, health, members::are_applied(s, health)));
    if let upgrade::Step::Write(entry) = &step {
        if s.record.bootstrap.members.is_empty() {
            let Some(members) = membership::recorded(&membership::view::of(s, health)) else {
                return upgrade::Step::Rest;
            };
            s.record.bootstrap.members = members;
        }
        upgrade::view::take(s, entry);
        *health = health::judge(s);
    }
    step
}

/// Certificates of clients that are no longer named, addresses of members that are gone, and the PodDisruptionBudget of a single one.
fn prune(s: &Subject<'_>) -> Vec<Action> {
    let named = |secret: &Value| {
        label(secret, labels::ETCD_CLIENT).is_none_or(|c| s.etcd.spec.clients.iter().any(|n| n.name == c))
    };
    let gone = |service: &Value| {
        let ordinal = label(service, labels::ETCD_MEMBER).and_then(|member| names::etcd::ordinal(s.name, member));
        ordinal.is_some_and(|ordinal| ordinal >= s.addressed())
    };
    let left = |kind: Kind, object: &Value| match kind {
        Kind::Secret => !named(object),
        Kind::Service => gone(object),
        _ => s.record.replicas == 1,
    };
    [Kind::Secret, Kind::Service, Kind::PodDisruptionBudget]
        .into_iter()
        .flat_map(|kind| s.observed.of_kind(kind, s.namespace))
        .filter(|(_, o)| label(o, labels::ETCD_CLUSTER) == Some(s.name) && !observed::deleting(o))
        .filter(|(key, o)| left(key.kind, o))
        .map(|(key, o)| Action::delete(key, o, None))
        .collect()
}
