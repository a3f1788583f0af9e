//! The plan for a `Cluster`: one function a stage, in the order in which a tenant comes up.

mod access;
mod admission;
mod api_files;
mod apps;
mod audit;
pub(crate) mod backups;
pub mod components;
mod deletion;
mod endpoint;
mod etcd;
mod facts;
mod in_set;
mod inside;
mod isolation;
mod kubeconfig;
mod leads;
mod namespace;
mod ours;
mod pki;
mod planned;
mod preflight;
mod probe;
mod proxy;
mod prune;
mod pull_secrets;
mod record;
mod registration;
mod release;
mod requeue;
mod required;
mod revision;
mod since;
mod sizes;
mod sleep;
pub mod status;
mod subject;
mod turn;
pub(crate) mod unread;
mod update;
pub mod users;
mod validate;
mod vpc;
mod well;
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
use release::Release;
use subject::Tenant;

pub use access::{Door, behind_door, door};
pub use admission::{AdmissionLook, admission_look};
pub use audit::audit_secrets;
pub use inside::{Turn, Wanted, are_as_told};
pub use namespace::{adoptable, without_advice};
pub use ours::is_ours;
pub use planned::{ClusterPlan, Input};
pub use preflight::{LookRequest, answers_request, look_request};
pub use probe::{ProbeRequest, Questions, probe_request};
pub use pull_secrets::reads_service_account;
pub use record::Pin;
pub use registration::registered_key;
pub use release::{Pending, upgrade_templates};
pub use revision::revision_templates;
pub use sizes::sizes;
pub use sleep::{falls_asleep, next_by_schedule, sleep_backups};
pub use turn::{Hold, said_of_the_fleet};
pub use validate::admission::faults as admission_faults;
pub use validate::audit::faults as audit_policy_faults;
pub use validate::host::HostRules;
pub use validate::jwt::platform::{guarded as platform_issuers, refusal as platform_issuers_refusal};
pub use validate::jwt::{Fault as JwtFault, faults as jwt_faults, issuer_faults};
pub use validate::kubelet::{Fault as KubeletFault, faults as kubelet_faults, refused_gates};
pub use vpc::{copy_of as copy_of_definition, pods_without_network};

/// Decides for a `Cluster`.
#[derive(Clone, Copy, Debug)]
pub struct ClusterPlanner;

impl Planner for ClusterPlanner {
    type Object = Cluster;
    type Planned = ClusterPlan;
    type Status = ClusterStatus;

    fn plan(input: Input<'_>) -> ClusterPlan {
        plan_judged(&Facts::judge(input))
    }

    fn outcome(planned: &ClusterPlan) -> Outcome<'_> {
        Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: planned.due }
    }

    fn status(input: Input<'_>, planned: &ClusterPlan, failure: Option<&Failure>) -> ClusterStatus {
        status::status(input, planned, failure)
    }
}

fn plan_judged(facts: &Facts<'_>) -> ClusterPlan {
    let mut out = stages(facts);
    let cluster = facts.written.cluster;
    if cluster.metadata.deletion_timestamp.is_some() {
        return out;
    }
    let stages = &mut out.plan.stages;
    let paused = cluster.spec.paused;
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

/// All stages, as far as they can be planned.
fn stages(facts: &Facts<'_>) -> ClusterPlan {
    let mut t = facts.tenant();
    if t.cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(&t);
    }
    let mut out = ClusterPlan::default();
    out.plan.stages.extend(deletion::team_namespace_ends(&t));
    // What the spec asks for is what is said, whatever keeps the release that goes on.
    let refusal = facts.refusal.clone().map(|own| facts.rollout.refusal().cloned().unwrap_or(own));
    let refusal = refusal.or_else(|| validate::refusal(&t));
    // Nothing tells when a network of the meta cluster is made.
    if t.cluster.spec.vpc.is_some() && refusal.is_some() {
        out.requeue_after = Some(SignedDuration::from_secs(10));
    }
    // Once there is a namespace nothing is judged again, so none is made for what is not judged, or not fit; nor for what is about to go.
    let begins = refusal.is_none() && !t.observed.team_namespace_ends;
    let Some(release) = facts.release.clone().filter(|_| !t.is_new() || begins) else {
        out.plan.stages.push(Stage::new(StageId::Spec, refusal.unwrap_or(State::Ready)));
        return out;
    };
    let is_refused = |component: &&components::Component| validate::component(&t, component).is_err();
    let refused = refusal.is_some() || components::ALL.iter().any(is_refused);
    t.release = settled(facts, &t, release, refused);
    out.pending.clone_from(&t.release.pending);
    out.hold = facts.rollout.hold().or(t.release.hold.as_ref()).cloned();

    let networks_are_bad = matches!(&refusal, Some(State::Blocked { reason: Reason::InvalidSpec, .. }));
    let spec = refusal.or_else(|| state_of_release(facts, &t)).unwrap_or(State::Ready);
    if spec.problem().is_some_and(|(reason, _)| reason == Reason::Unschedulable) {
        out.plan.for_platform.extend(revision::for_platform(&facts.written));
    }
    let namespace = namespace::stage(&t, &facts.rollout.templates());
    let halts = match namespace.state {
        State::Blocked { .. } => true,
        State::Waiting { .. } => namespace.actions.is_empty(),
        _ => false,
    };
    out.plan.stages.extend([Stage::new(StageId::Spec, spec), namespace]);
    if !halts && !networks_are_bad && t.live_namespace().is_some() && !t.observed.denied {
        in_namespace(facts, &t, refused, &mut out);
    }
    out
}

/// The release as this plan makes it, beside what is recorded. `refused`: that of the spec is.
fn settled(facts: &Facts<'_>, t: &Tenant<'_>, mut release: Release, refused: bool) -> Release {
    release.recording = facts.rollout.awaits(refused);
    release.canary = facts.rollout.canary;
    if release.change.is_none() {
        facts.rollout.settle(t, &mut release);
        let mended = release::with_available_agent(release.target().clone(), t);
        if mended != *release.target() {
            // Nothing else tells of it.
            (release.pin, release.next) = (mended, None);
        }
    }
    release
}

/// What the stage of a spec that can be made says of its release. None: it runs.
fn state_of_release(facts: &Facts<'_>, t: &Tenant<'_>) -> Option<State> {
    let refusal = facts.rollout.refusal().cloned();
    let wrong = || turn::wrong_window(t).or_else(|| sleep::wrong_schedules(t)).or_else(|| sleep::unfit_backup(t));
    let refusal = refusal.or_else(|| Some(State::blocked(Reason::InvalidSpec, wrong()?)));
    refusal.or_else(|| facts.rollout.state()).or_else(|| t.release.waits.clone())
}

/// What is wrong with pull Secrets is said where an image is missing, too.
fn tell_pull_secrets(t: &Tenant<'_>, out: &mut ClusterPlan) {
    out.pull_secrets = pull_secrets::problem(t);
    if let Some(why) = &out.pull_secrets {
        out.plan.stages.iter_mut().for_each(|stage| stage.state.add(Reason::ImageUnavailable, why));
    }
}

/// The stages of what is in the control-plane namespace, and in the tenant.
fn in_namespace(facts: &Facts<'_>, t: &Tenant<'_>, refused: bool, out: &mut ClusterPlan) {
    let endpoint = endpoint::stage(t);
    out.endpoint.clone_from(&t.endpoint.published);
    out.plan.stages.push(endpoint);
    let pki = pki::stage(t, out);
    let mut etcd = etcd::stage(t);
    backups::follow(t, &mut etcd);
    sleep::take_backup(t, &mut etcd);
    if let Some(state) = sleep::backup_state(t).filter(|_| etcd.state.is_done()) {
        etcd.state = state;
    }
    out.plan.stages.extend([pki, etcd]);
    let components = components::stages(t, out);
    out.plan.stages.extend(components);
    let kubeconfig = kubeconfig::stage(t, out);
    out.plan.stages.push(kubeconfig);
    let registration = registration::stage(t, out);
    out.plan.stages.extend(registration);
    let inside = inside::stage(t, out);
    out.plan.stages.push(inside);
    pki::roots_first(t, &mut out.plan);
    clear_owner_references(&mut out.plan, t.observed, is_ours);
    facts.rollout.record(t, out, refused);
    out.former_issuers = facts.rollout.former_issuers();
    out.turn = turn::status(&facts.rollout, t, refused);
    if out.plan.stages.iter().all(|s| s.state.is_done()) {
        out.plan.prune = prune::prune(t, &out.plan);
        out.plan.prune.extend(facts.rollout.surplus());
        out.plan.prune.extend(audit::surplus(t, facts.rollout.copy_of_good(t).as_ref()));
    }
    out.unread = unread::message(t);
    out.audit_webhook = audit::problem(t);
    tell_pull_secrets(t, out);
    out.unreachable_nodes = isolation::nodes::unreachable(t);
    out.requeue_after = Some(requeue::after(t, out));
    let addons = inside::serving::looks_again(t, out.addons.as_deref().unwrap_or_default());
    let routes = endpoint::looks_again_at_routes(t);
    let apps = required::looks_again(t);
    let registration = registration::again(t);
    let again = [leads::again(t), audit::looks_again(t), addons, apps, routes, registration];
    out.due = again.into_iter().chain([out.due]).flatten().min();
    let asleep = t.sleep.until().map(|until| until.duration_since(t.now).max(SignedDuration::from_secs(1)));
    out.due = [out.due, asleep].into_iter().flatten().min();
    let ends = [out.pending.as_ref().map(|pending| pending.until), out.hold.as_ref().and_then(|hold| hold.until)];
    let ends = ends.map(|until| Some(until?.duration_since(t.now)).filter(SignedDuration::is_positive));
    out.due = [out.due, out.certificates.due].into_iter().chain(ends).flatten().min();
}
