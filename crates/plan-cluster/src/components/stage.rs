//! Stages 5 and 6: what the components of the control plane have in common.
//!
//! Gates hold back changes to what runs, never the first creation: pods wait for what they need by themselves.

use super::component::{Asked, Component};
use super::soak::with_canary;
use super::{ALL, Workloads, slots};
use crate::admission;
use crate::audit;
use crate::leads;
use crate::ours::{ensure, is_ours};
use crate::planned::ClusterPlan;
use crate::proxy;
use crate::sizes::begin_with;
use crate::sleep;
use crate::subject::Tenant;
use crate::validate::component as asked_args;
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::model::{Plan, Stage, StageId, State};
use berth_plan::object_meta::{deleting, label};
use berth_plan::{run_level, workload};
use berth_render::values::{ExtraArg, Workload};
use berth_render::{Binary, Kind, Object, ObjectKey, TemplateSet};
use serde_json::Value;

/// The flag with which a component of a newer minor does what an older one did.
const EMULATED_VERSION: &str = "emulated-version";

/// Create at once, change only when the gate is open, and say how it goes. `plan` has the stages before the components, `before` the
/// components' so far.
fn stage(t: &Tenant<'_>, component: &Component, plan: &Plan, before: &[Stage]) -> Stage {
    let name = component.name();
    let mut stage = Stage::new(StageId::ControlPlane(component.binary), State::Ready);
    let live = t.workloads(component.binary).that(is_ours);
    let mut left = None;
    let prepared = workload(t, component).and_then(|(templates, workload)| (component.objects)(t, templates, workload));
    match prepared {
        Err(state) => stage.state = state,
        Ok(rendered) => {
            left = rendered.left;
            let runs = |o: &Object| matches!(o.key().kind, Kind::Deployment | Kind::StatefulSet);
            for o in rendered.objects.into_iter().filter(|o| is_to_run(t, component) || !runs(o)) {
                let o = workload::with_registry_annotation(o, &t.cluster.spec.images, component.binary);
                ensure(&mut stage, t.observed, with_canary(t, component.binary, o));
            }
            let api = t.distribution.api();
            let first = Some(api)
                .filter(|first| before.iter().any(|s| s.id == StageId::ControlPlane(*first) && !s.state.is_done()))
                // On the way back to the old minor the order is the other way round.
                .filter(|_| !t.release.change.as_ref().is_some_and(|change| change.back));
            let first = first.map(Binary::name).map(|first| format!("{first} to finish its rollout first"));
            let first = t.release.recording.clone().or(first).filter(|_| live.first().is_some());
            if let Some(on) = held_back(first, plan.stage(StageId::Pki), &stage) {
                stage.actions.clear();
                stage.state = on;
            }
        }
    }
    if !is_to_run(t, component) {
        stop(t, component, &mut stage);
        left = None;
    }
    if is_to_run(t, component)
        && (stage.state.is_done() || (matches!(stage.state, State::Waiting { .. }) && stage.actions.is_empty()))
        && let Some(progress) = progress(t, component.binary, &live)
    {
        stage.state = progress;
    }
    if let Some(left) = left {
        match &mut stage.state {
            State::Waiting { reason: Reason::RollingOut, on } => *on = format!("{on}; {left}"),
            state if state.is_done() => *state = State::Waiting { reason: Reason::RollingOut, on: left },
            _ => {}
        }
    }
    // Whatever could not be rendered now is still ours, and what pods may read that are about to go.
    let settled = stage.state.is_done();
    if settled && let Some(message) = leads::not_leading(t, component.binary) {
        stage.state = match admission::of_leases(t) {
            Some(why) => {
                State::Reported { reason: Reason::WebhookInTheWay, message: format!("{}: {why}", component.name()) }
            }
            None => State::Reported { reason: Reason::NotLeading, message },
        };
    }
    let rest = owned(t, name).filter(|key| !stage.owns.contains(key) && !slots::is_left_over(t, key));
    let rest: Vec<ObjectKey> = rest.filter(|key| key.kind != Kind::ConfigMap || !settled).collect();
    stage.owns.extend(rest);
    if let (true, Some(live)) = (stage.state.is_done(), live.first()) {
        let pods = || workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, name);
        stage.notes.extend(workload::injected(live, pods()));
        stage.notes.extend(pods().find_map(|(_, pod)| proxy::injected(t, component.binary, pod)));
    }
    stage
}

/// Whether its pods are to run.
fn is_to_run(t: &Tenant<'_>, component: &Component) -> bool {
    if component.binary == t.distribution.api() { t.run_level.runs_clients() } else { t.run_level.runs_all() }
}

/// Ends its pods while etcd is restored, or the tenant sleeps. What runs them stays as it is otherwise.
fn stop(t: &Tenant<'_>, component: &Component, stage: &mut Stage) {
    let workloads = t.workloads(component.binary);
    stage.owns.extend(workloads.keys().iter().cloned());
    for key in workloads.keys() {
        if let Some(live) = t.observed.get(key).filter(|live| is_ours(live)) {
            run_level::stop(stage, key, live);
        }
    }
    if !matches!(stage.state, State::Blocked { .. }) {
        stage.state = sleep::component_state(t).unwrap_or_else(|| {
            let on = "etcd to be restored from a backup; until then its pods are stopped".into();
            State::Waiting { reason: Reason::Restoring, on }
        });
    }
}

/// The templates, and the values that all components have; or why the spec is refused.
fn workload<'t>(t: &'t Tenant<'_>, component: &Component) -> Result<(&'t TemplateSet, Workload), State> {
    let (pin, emulates) = t.release.pin_of(component.binary);
    let templates = t.templates_of(pin).ok_or_else(|| State::waiting("the pinned templates"))?;
    let mut extra_args = asked_args(t, component)?;
    if component.binary == Binary::ApiServer {
        audit::without_unread(t, &mut extra_args);
    }
    let emulates = emulates.map(|minor| ExtraArg { name: EMULATED_VERSION.into(), value: minor.to_string() });
    extra_args.splice(0..0, emulates);
    let Asked { replicas, resources, placement, .. } = (component.asked)(&t.cluster.spec);
    let images = &t.cluster.spec.images;
    let pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, component.name());
    let live = t.workloads(component.binary).first().filter(|live| !workload::lacks_its_image(live, pods));
    let wanted = (component.binary, pin.version);
    let (image, agent_image) = workload::images(live, images, &t.settings.registry, wanted, &pin.agent_image);
    let workload = Workload {
        replicas: replicas.unwrap_or(t.cluster.spec.replicas),
        version: pin.version,
        image,
        agent_image,
        image_pull_secrets: images.pull_secrets.clone(),
        agent_delivery: pin.agent_delivery,
        run_as_user: run_as_user(&t.cp_namespace),
        resources: resources.cloned(),
        sized: begin_with(pin, component.name(), resources),
        helpers: workload::helpers(pin.helper_resources.as_ref(), t.cluster.spec.helpers.resources.as_ref()),
        placement: placement.clone(),
        extra_args,
        ..Workload::default()
    };
    Ok((templates, workload))
}

/// UID of the control plane's processes: from the hash in the namespace's name, so that tenants differ.
pub(crate) fn run_as_user(cp_namespace: &str) -> i64 {
    let hash = cp_namespace.rsplit('-').next().and_then(|h| i64::from_str_radix(h, 16).ok()).unwrap_or_default();
    100_000 + hash % 1_000_000
}

/// Why changes are not made now. A missing key must not roll what still runs with it, and nothing runs that is not recorded.
fn held_back(first: Option<String>, pki: Option<&Stage>, stage: &Stage) -> Option<State> {
    if stage.actions.is_empty() || matches!(stage.state, State::Blocked { .. }) {
        return None;
    }
    if let Some((_, why)) = pki.and_then(|p| p.state.problem()) {
        return Some(State::waiting(format!("pki, before its pods are changed: {why}")));
    }
    first.map(State::waiting)
}

/// Objects of this component in the control-plane namespace, by label.
fn owned<'a>(t: &'a Tenant<'_>, name: &'a str) -> impl Iterator<Item = ObjectKey> + 'a {
    let of_component = move |o: &Value| label(o, labels::COMPONENT) == Some(name);
    [Kind::Deployment, Kind::StatefulSet, Kind::ConfigMap]
        .into_iter()
        .flat_map(|kind| t.observed.of_kind(kind, &t.cp_namespace))
        .filter(move |(k, o)| k.name.starts_with(name) && of_component(o))
        .map(|(k, _)| k.clone())
}

/// What its rollout waits for. None: it is through, or nothing of it is there.
fn progress(t: &Tenant<'_>, binary: Binary, live: &Workloads<'_>) -> Option<State> {
    let name = binary.name();
    let rollout = live.rollout().filter(|rollout| !rollout.settled)?;
    let pods = || workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, name).map(|(_, pod)| pod);
    let mut unready = pods().filter(|pod| !workload::pod_ready(pod) && !deleting(pod));
    let proxied = unready.find_map(|pod| proxy::injected(t, binary, pod));
    if let Some((reason, on)) = pods().find_map(workload::pod_problem) {
        let on = proxied.into_iter().chain([on]).collect::<Vec<_>>().join("; ");
        return Some(State::Waiting { reason, on });
    }
    let explained = |live: &Value, why| workload::explained(why, &live["spec"]["template"], &t.cp_namespace);
    let refused = live.live().find_map(|live| workload::replica_failure(live).map(|why| explained(live, why)));
    if let Some(message) = refused {
        return Some(State::Waiting {
            reason: Reason::Rejected,
            on: format!("its pods, which the API server refuses to create: {message}"),
        });
    }
    let mut on = format!("{} of {} pods are updated and ready", rollout.ready, rollout.desired);
    let old = match (rollout.old, pods().filter(|pod| deleting(pod)).count()) {
        (0, _) => None,
        (n, 0) => Some(format!("old pods left: {n}")),
        (_, n) => Some(format!("{n} old {} terminating", if n == 1 { "pod is" } else { "pods are" })),
    };
    match old {
        // All the new ones are there, so that is what it waits for.
        Some(old) if rollout.ready >= rollout.desired => on = old,
        Some(old) => on = format!("{on}, {old}"),
        None => {}
    }
    let canary = t.release.canary.filter(|_| name == names::APISERVER);
    if let Some(until) = canary.and_then(|canary| canary.until(t)) {
        on = format!("{on}; its first new pod serves alone until {} (spec.upgrade.soak)", until.strftime("%H:%M:%SZ"));
    }
    let starting =
        pods().filter_map(workload::pod_start).find(|(since, _)| t.now.duration_since(*since) >= workload::SLOW_START);
    if let Some((_, starting)) = starting {
        on = format!("{on}; {starting}");
    }
    if let Some(proxied) = proxied {
        on = format!("{on}; {proxied}");
    }
    Some(State::Waiting {
        reason: if rollout.serving { Reason::RollingOut } else { Reason::PodsNotReady },
        on: format!("the rollout to finish: {on}"),
    })
}

/// The stages of all components.
pub(crate) fn stages(t: &Tenant<'_>, out: &ClusterPlan) -> Vec<Stage> {
    ALL.iter().fold(vec![], |mut stages, component| {
        let stage = stage(t, component, &out.plan, &stages);
        stages.push(stage);
        stages
    })
}
