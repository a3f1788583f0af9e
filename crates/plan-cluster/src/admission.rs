//! A webhook of the tenant's own that keeps what is written there from going through: leases, so that no controller works; nodes, pods
//! and tokens, so that nothing starts; or what Berth writes.
//!
//! It is looked for only where something is wrong, and named only if a write failed a moment ago and the webhook takes such writes. What
//! fails of the tenant's own alone keeps nothing of Berth's from being done, and is a note.

use crate::leads;
use crate::planned::Input;
use crate::subject::Tenant;
use crate::well::is_well;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::labels;
use berth_plan::Failure;
use berth_plan::admission::{Admission, InTheWay, Target, Write};
use berth_plan::model::Plan;
use berth_plan::observed::ApiProbe;
use berth_plan::workload;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::ResourceExt as _;

/// How long what was found counts.
const FRESH: SignedDuration = SignedDuration::from_secs(25);

/// Whether to look, and whether what was found before counts still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionLook {
    /// Nothing calls for it; what was found before is over.
    Not,
    /// What was found a moment ago counts.
    Known,
    /// Now.
    Due,
}

/// What is not `Ready` for so long is looked into: what starts or changes is usually through by then.
const LASTS: SignedDuration = SignedDuration::from_secs(60);

/// Whether to look at what keeps writes in the tenant from going through: it serves, and is not well.
pub fn admission_look(input: Input<'_>) -> AdmissionLook {
    let Input { object: cluster, observed, now, .. } = input;
    let was_up = cluster.status.as_ref().is_some_and(|status| status.version.is_some());
    let asked = matches!(observed.api, ApiProbe::Answered { .. }) && cluster.metadata.deletion_timestamp.is_none();
    if !asked || !was_up || !(is_unwell(input) || leads::in_doubt(input)) {
        return AdmissionLook::Not;
    }
    let fresh = |look: &Admission| now.duration_since(look.at).abs() < FRESH;
    if observed.admission.as_deref().is_some_and(fresh) { AdmissionLook::Known } else { AdmissionLook::Due }
}

/// Whether it is not `Ready` for a while.
fn is_unwell(input: Input<'_>) -> bool {
    let status = input.object.status.as_ref();
    let ready = status.and_then(|status| find(&status.conditions, ConditionType::Ready));
    let lasts = |c: &Condition| input.now.duration_since(c.last_transition_time.0) >= LASTS;
    // Add-ons that do not serve are no work of the operator's, and may be a webhook's.
    let is_down = ready.is_some_and(|c| c.reason == Reason::AddonsNotReady.as_str());
    (!is_well(input) || is_down) && ready.is_some_and(|c| c.status != "True" && lasts(c))
}

/// What Berth cannot do without: that controllers lead, and what it keeps there itself.
const NEEDED: [Write; 2] = [Write::Lease, Write::Own];

/// What is wrong with pods in the meta cluster, where no webhook of the tenant's is asked.
pub(crate) const OF_PODS: [Reason; 3] = [Reason::ContainerFailing, Reason::ImageUnavailable, Reason::Unschedulable];

/// The webhook that is in the way of one of these writes, if one is.
fn in_the_way_of<'a>(t: &Tenant<'a>, writes: &[Write]) -> Option<InTheWay<'a>> {
    t.observed.admission.as_deref()?.in_the_way_of(writes)
}

/// Whether one hinders what Berth cannot do without.
pub(crate) fn hinders(t: &Tenant<'_>) -> bool {
    in_the_way_of(t, &NEEDED).is_some()
}

/// Whether somebody says that the release of this spec goes on in spite of it, and counts as any other.
pub(crate) fn is_overruled(t: &Tenant<'_>) -> bool {
    let generation = t.cluster.metadata.generation.map(|generation| generation.to_string());
    generation.is_some() && t.cluster.annotations().get(labels::DESPITE_WEBHOOK) == generation.as_ref()
}

/// Whether nothing that a release does not come through by is its own fault: a webhook is in the way of what it needs, and none of its pods
/// fails by itself. Nobody said that it is to go on all the same.
pub(crate) fn is_obstructed(t: &Tenant<'_>) -> bool {
    let pods = |name| workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, name);
    let fails = |(_, pod)| workload::pod_problem(pod).is_some_and(|(reason, _)| OF_PODS.contains(&reason));
    hinders(t) && !is_overruled(t) && !t.distribution.awaited().any(|binary| pods(binary.name()).any(fails))
}

/// What is told of the one that is in the way, and how to be rid of it.
pub(crate) fn message(t: &Tenant<'_>) -> Option<String> {
    in_the_way_of(t, &NEEDED).or_else(|| in_the_way_of(t, &Write::ALL)).map(|found| say(t, found))
}

/// What becomes of a release that is under way.
fn of_the_release(t: &Tenant<'_>) -> String {
    if !hinders(t) || t.status().rollout.is_none() {
        return String::new();
    }
    let annotation = labels::DESPITE_WEBHOOK;
    match t.cluster.metadata.generation.filter(|_| !is_overruled(t)) {
        Some(generation) => format!(
            ". The release waits meanwhile; for the platform team, to let it go on all the same: kubectl annotate clusters.berth.dev {} -n {} {annotation}={generation} --overwrite",
            t.name, t.namespace
        ),
        None => format!(". The release goes on all the same (annotation {annotation})"),
    }
}

/// Likewise why a controller may not lead.
pub(crate) fn of_leases(t: &Tenant<'_>) -> Option<String> {
    in_the_way_of(t, &[Write::Lease]).map(|found| say(t, found))
}

/// Likewise beside what is not done, whatever that waits for.
pub(crate) fn note(t: &Tenant<'_>, plan: &Plan) -> Option<String> {
    plan.first_problem().and_then(|_| message(t))
}

fn say(t: &Tenant<'_>, found: InTheWay<'_>) -> String {
    let InTheWay { webhook, write, failing, is_idle, others } = found;
    let target = match &webhook.target {
        Target::Service((namespace, name)) if is_idle => {
            format!("Service {namespace}/{name}, which has no endpoint that is ready")
        }
        Target::Service((namespace, name)) => format!("Service {namespace}/{name}"),
        Target::Url => "a URL".to_owned(),
    };
    let policy = if webhook.is_ignored { "Ignore" } else { "Fail" };
    let rule = webhook.rule(write).map(ToString::to_string).unwrap_or_default();
    let others = match others {
        0 => String::new(),
        1 => " One more webhook takes such writes.".to_owned(),
        n => format!(" {n} more webhooks take such writes."),
    };
    let way_out = match webhook.in_a_command() {
        Some(name) => format!(
            "Narrow its rules, or delete it: kubectl berth connect {} -n {} -- kubectl delete {} {name}",
            t.name, t.namespace, webhook.kind
        ),
        None => "Narrow its rules, or delete it".to_owned(),
    };
    format!(
        "webhook {} of {} {} in the tenant is in the way of {write} since {} ({}). Its rule is {rule}; it calls {target} with timeoutSeconds {} and failurePolicy {policy}.{others} {way_out}{}",
        webhook.name,
        webhook.kind,
        webhook.configuration,
        failing.since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        failing.why,
        webhook.timeout,
        of_the_release(t),
    )
}

/// A failed call, with the webhook that may be the cause if it was one in the tenant.
pub(crate) fn explain(t: &Tenant<'_>, failure: &Failure) -> Failure {
    let may_be = failure.in_tenant && matches!(failure.reason, Reason::Error | Reason::Rejected);
    match message(t).filter(|_| may_be) {
        Some(webhook) => Failure {
            reason: Reason::WebhookInTheWay,
            message: format!("{}. In the tenant, {webhook}", failure.message),
            ..*failure
        },
        None => failure.clone(),
    }
}
