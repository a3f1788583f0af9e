//! The plan for an `EtcdCluster`: one function a stage, in the order in which its members come up.
//!
//! The driver observes [`OBSERVED`] (everything labelled with the cluster's name), asks the members at [`endpoints`] once
//! one of their pods runs, and then plans and carries out until nothing is left to write.

mod backups;
mod deletion;
mod health;
mod members;
mod newer;
mod pki;
mod planned;
mod probe;
mod procedures;
mod record;
mod requeue;
mod roll;
pub mod room;
mod services;
mod sizes;
pub mod status;
mod steps;
pub mod stranded;
mod subject;
pub mod unread;
mod validate;
mod volumes;
mod way_back;

#[cfg(test)]
pub(crate) mod tests;

use crate::procedures::growth::GrowthStep;
use crate::procedures::{parity, recovery};
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::{EtcdCluster, EtcdClusterStatus};
use berth_api::{labels, names};
use berth_plan::model::Action;
use berth_plan::object_meta::{deleting, label};
use berth_plan::objects::owner_references::clear_owner_references;
use berth_plan::workload::missing_pull_secrets;
use berth_plan::{Failure, Outcome, Planner};
use berth_render::Kind;
use kube_core::ResourceExt as _;
use serde_json::Value;
use steps::Steps;
use subject::{Subject, is_ours};

pub use health::{Health, Member};
pub use planned::EtcdPlan;
pub use probe::{can_probe, endpoints, missing_members};
pub use procedures::growth::storage_class;
pub use record::{pinned_next_templates, pinned_templates, running};
pub use recovery::recovers;
pub use sizes::sizes;
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
        let first = Steps::of_the_record(&mut s, &mut out.health);
        out.hashes = parity::last(&s);
        out.hashes_failed_at = parity::failed(&s);
        if s.templates().is_some() {
            out.plan.stages.push(services::stage(&s));
        }
        out.endpoints = services::published(&s);
        let pki = pki::stage(&s, &mut out);
        out.plan.stages.push(pki);
        let steps = first.complete(&s, &mut out);
        let mut etcd = members::stage(&s, &mut out, &steps);
        // The last of all: nothing waits for it, also where it is refused.
        if let (GrowthStep::Grow(action), true) = (steps.growth, etcd.actions.is_empty()) {
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
        tell_pull_secrets(&s, &mut out);
        out.absent_nodes = stranded::absent(&s);
        out.plan.for_platform = stranded::for_platform(&s).chain(room::for_platform(&s)).collect();
        out.requeue_after = Some(requeue::after(&s, &out));
        out.record = Some(s.record);
        out
    }

    fn outcome(planned: &EtcdPlan) -> Outcome<'_> {
        let due = [planned.certificates.due, planned.upkeep_after].into_iter().flatten().min();
        Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due }
    }

    fn status(input: Input<'_>, planned: &EtcdPlan, failure: Option<&Failure>) -> EtcdClusterStatus {
        status::status(input, planned, failure)
    }
}

/// What is wrong with pull Secrets is said where an image is missing, too. Of a tenant's etcd the `Cluster` says it.
fn tell_pull_secrets(s: &Subject<'_>, out: &mut EtcdPlan) {
    if s.etcd.labels().contains_key(labels::CLUSTER_NAME) {
        return;
    }
    let named = s.etcd.spec.images.pull_secrets.iter();
    out.pull_secrets = missing_pull_secrets(s.observed, s.namespace, named, "spec.images.pullSecrets");
    if let Some(why) = &out.pull_secrets {
        out.plan.stages.iter_mut().for_each(|stage| stage.state.add(Reason::ImageUnavailable, why));
    }
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
        .flat_map(|kind| s.children(kind))
        .filter(|(key, o)| !deleting(o) && left(key.kind, o))
        .map(|(key, o)| Action::delete(key, o, None))
        .collect()
}
