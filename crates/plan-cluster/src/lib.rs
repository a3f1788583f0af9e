//! The plan for a `Cluster`: one function a stage, in the order in which a tenant comes up.

pub(crate) mod backups;
pub mod components;
mod deletion;
mod endpoint;
mod etcd;
mod facts;
mod inside;
mod isolation;
mod kubeconfig;
mod namespace;
mod ours;
mod pki;
mod planned;
mod preflight;
mod probe;
mod prune;
mod record;
mod release;
mod requeue;
mod revision;
pub mod status;
mod subject;
mod turn;
pub(crate) mod unread;
mod update;
mod validate;
mod vpc;
pub mod window;

#[cfg(test)]
mod explore;
#[cfg(test)]
pub(crate) mod tests;

use berth_api::cluster::{Cluster, ClusterStatus};
use berth_api::conditions::Reason;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::objects::owner_references::clear_owner_references;
use berth_plan::{Failure, Outcome, Planner};
use facts::Facts;
use jiff::SignedDuration;

pub use inside::{Turn, Wanted};
pub use namespace::adoptable;
pub use ours::is_ours;
pub use planned::{ClusterPlan, Input};
pub use preflight::{LookRequest, answers_request, look_request};
pub use probe::{ProbeRequest, Questions, probe_request};
pub use record::Pin;
pub use release::{Pending, upgrade_templates};
pub use revision::revision_templates;
pub use turn::Hold;
pub use validate::host::HostRules;
pub use vpc::{copy_of as copy_of_definition, pods_without_network};

/// Decides for a `Cluster`.
#[derive(Clone, Copy, Debug)]
pub struct ClusterPlanner;

impl Planner for ClusterPlanner {
    type Object = Cluster;
    type Planned = ClusterPlan;
    type Status = ClusterStatus;

    fn plan(input: Input<'_>) -> ClusterPlan {
        plan(input)
    }

    fn outcome(planned: &ClusterPlan) -> Outcome<'_> {
        Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: planned.due }
    }

    fn status(input: Input<'_>, planned: &ClusterPlan, failure: Option<&Failure>) -> ClusterStatus {
        status::status(input, planned, failure)
    }
}

/// The plan for a `Cluster`.
pub fn plan(input: Input<'_>) -> ClusterPlan {
    let facts = Facts::judge(input);
    let mut out = stages(&facts);
    if input.is_deleted() {
        return out;
    }
    let stages = &mut out.plan.stages;
    let paused = input.object.spec.paused;
    if paused {
        out.plan.prune.clear();
        for stage in &mut *stages {
            stage.actions.clear();
        }
    }
    let of_etcd = stages.iter().position(|stage| stage.id == StageId::Etcd);
    if (paused || of_etcd.is_none())
        && let Some(stage) = stages.get_mut(of_etcd.unwrap_or_default())
    {
        stage.actions.extend(etcd::follow_pause(&facts.tenant()));
    }
    out
}

fn stages(facts: &Facts<'_>) -> ClusterPlan {
    let mut out = ClusterPlan::default();
    let (mut t, rollout) = (facts.tenant(), &facts.rollout);
    let (cluster, fresh) = (t.cluster, t.is_new());
    let live_namespace = t.live_namespace();
    // What the spec asks for is what is said, whatever keeps the release that goes on.
    let refusal = facts.refusal.clone().map(|own| rollout.refusal().cloned().unwrap_or(own));
    if cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(&t);
    }
    out.plan.stages.extend(deletion::team_namespace_ends(&t));
    let mut spec = Stage::new(StageId::Spec, State::Ready);
    let refused = refusal.is_some();
    if let Some(state) = refusal.or_else(|| validate::refusal(&t)) {
        spec.state = state;
    }
    // Nothing tells when a network of the meta cluster is made.
    if cluster.spec.vpc.is_some() && !spec.state.is_done() {
        out.requeue_after = Some(SignedDuration::from_secs(10));
    }
    let networks_bad = matches!(&spec.state, State::Blocked { reason: Reason::InvalidSpec, .. });
    // Once there is a namespace nothing is judged again, so none is made for what is not judged, or not fit; nor for what is about to go.
    let begins = spec.state.is_done() && !t.observed.team_namespace_ends;
    let Some(mut release) = facts.release.clone().filter(|_| !fresh || begins) else {
        out.plan.stages.push(spec);
        return out;
    };
    let is_refused = |component: &&components::Component| validate::component(&t, component).is_err();
    let refused = refused || !spec.state.is_done() || components::ALL.iter().any(is_refused);
    release.recording = rollout.awaits(refused);
    release.canary = rollout.canary;
    if release.change.is_none() {
        rollout.settle(&t, &mut release);
        let mended = release::with_available_agent(release.target().clone(), &t);
        if mended != *release.target() {
            // Nothing else tells of it.
            (release.pin, release.next) = (mended, None);
        }
    }
    if let (true, Some(refusal)) = (spec.state.is_done(), rollout.refusal()) {
        spec.state = refusal.clone();
    } else if let (true, Some(message)) = (spec.state.is_done(), turn::wrong_window(&t)) {
        spec.state = State::blocked(Reason::InvalidSpec, message);
    } else if let (true, Some(failed)) = (spec.state.is_done(), rollout.state()) {
        spec.state = failed;
    } else if let (true, Some(waits)) = (spec.state.is_done(), &release.waits) {
        spec.state = waits.clone();
    }
    out.pending.clone_from(&release.pending);
    out.hold = rollout.hold().or(release.hold.as_ref()).cloned();
    t.release = release;
    let stop = |s: &Stage| matches!(s.state, State::Blocked { .. });

    let namespace_stage = namespace::stage(&t, &rollout.templates());
    let namespace_there = live_namespace.is_some();
    let halt = stop(&namespace_stage)
        || !namespace_there
        || t.observed.denied
        || (matches!(namespace_stage.state, State::Waiting { .. }) && namespace_stage.actions.is_empty());
    out.plan.stages.extend([spec, namespace_stage]);
    if halt || networks_bad {
        return out;
    }

    let endpoint = endpoint::stage(&t);
    out.endpoint.clone_from(&t.endpoint.published);
    out.plan.stages.push(endpoint);

    let pki = pki::stage(&t, &mut out);
    let mut etcd = etcd::stage(&t);
    backups::follow(&t, &mut etcd);
    out.plan.stages.extend([pki, etcd]);
    let components = components::stages(&t, &out);
    out.plan.stages.extend(components);
    let kubeconfig = kubeconfig::stage(&t, &mut out);
    out.plan.stages.push(kubeconfig);
    let inside = inside::stage(&t, &mut out);
    out.plan.stages.push(inside);
    pki::roots_first(&t, &mut out.plan);
    clear_owner_references(&mut out.plan, t.observed, is_ours);
    rollout.record(&t, &mut out, refused);
    out.turn = turn::status(rollout, &t, refused);
    if out.plan.stages.iter().all(|s| s.state.is_done()) {
        out.plan.prune = prune::prune(&t, &out.plan);
        out.plan.prune.extend(rollout.surplus());
    }
    out.unread = unread::message(&t);
    out.unreachable_nodes = isolation::nodes::unreachable(&t);
    out.requeue_after = Some(requeue::after(&t, &out));
    let finalizes =
        out.pending.as_ref().map(|pending| pending.until.duration_since(t.now)).filter(SignedDuration::is_positive);
    let held = out.hold.as_ref().and_then(|hold| hold.until).map(|until| until.duration_since(t.now));
    let held = held.filter(SignedDuration::is_positive);
    out.due = [out.due, out.certificates.due, finalizes, held].into_iter().flatten().min();
    out
}
