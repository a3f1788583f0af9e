//! Whether somebody leads: pods of controllers that are ready do nothing without the lease of their program.
//!
//! It is judged only where all of a program's pods are up for so long that one of them would have the lease by now: at starts and while
//! a release is rolled out, other things are said.

use crate::planned::Input;
use crate::subject::Tenant;
use berth_api::conditions::{ConditionType, Reason, find};
use berth_api::labels;
use berth_plan::leads::{Lead, Leads};
use berth_plan::workload;
use berth_render::Binary;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long what was seen at rest counts: every second minute they are looked at.
const FRESH: SignedDuration = SignedDuration::from_secs(150);

/// The lease of a program. None: it has no pods, or elects nobody, or elsewhere than in `kube-system`.
fn lease(t: &Tenant<'_>, binary: Binary) -> Option<String> {
    if binary == t.distribution.api() {
        return None;
    }
    let workloads = t.workloads(binary);
    let live = workloads.first()?;
    if workloads.rollout()?.desired == 0 {
        return None;
    }
    let flag = |name: &str| {
        let containers = live.pointer("/spec/template/spec/containers")?.as_array()?;
        let args = containers.iter().filter_map(|c| c["args"].as_array()).flatten().filter_map(Value::as_str);
        args.filter_map(|arg| arg.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('=')).next_back()
    };
    let elects = flag("leader-elect").is_none_or(|on| on == "true");
    let here = flag("leader-elect-resource-namespace").is_none_or(|namespace| namespace == "kube-system");
    (elects && here).then(|| flag("leader-elect-resource-name").unwrap_or(binary.name()).to_owned())
}

/// The leases that matter, by name.
pub(crate) fn names(t: &Tenant<'_>) -> Vec<String> {
    t.distribution.programs.iter().filter_map(|(binary, _)| lease(t, *binary)).collect()
}

/// Those of them that are to be looked at in a reconcile: what was seen at rest a moment ago need not be.
pub(crate) fn due(t: &Tenant<'_>) -> Vec<String> {
    let names = names(t);
    let fresh = |leads: &Leads| t.now.duration_since(leads.at).abs() < FRESH && leads.are_renewed(&names);
    if t.observed.leads.as_deref().is_some_and(fresh) { vec![] } else { names }
}

/// Whether somebody who could lead may not do so: a reason to look for what is in the way.
pub(crate) fn in_doubt(input: Input<'_>) -> bool {
    let t = Tenant::new(input);
    let Some(leads) = t.observed.leads.as_deref() else { return false };
    let doubtful = |binary: Binary| {
        let lease = lease(&t, binary)?;
        let is_led = leads.get(&lease) == Some(Lead::Renewed);
        Some(!is_led && is_up_for(&t, binary, grace(leads, &lease)))
    };
    t.distribution.programs.iter().any(|(binary, _)| doubtful(*binary) == Some(true))
}

/// What is wrong with a program whose pods are all well: none of them leads.
pub(crate) fn not_leading(t: &Tenant<'_>, binary: Binary) -> Option<String> {
    let lease = lease(t, binary)?;
    let leads = t.observed.leads.as_deref();
    let renewed = match leads.and_then(|leads| leads.get(&lease)) {
        Some(Lead::Renewed) => return None,
        Some(Lead::Lost(renewed)) => renewed,
        // Of an operator that starts anew, and while a tenant cannot be asked, what was said counts.
        Some(Lead::Unclear) | None => return said_before(t, binary),
    };
    is_up_for(t, binary, grace(leads?, &lease)).then(|| say(t, binary, &lease, renewed))
}

/// How long a program needs to take up a lease that another one left, at the most.
fn grace(leads: &Leads, lease: &str) -> SignedDuration {
    leads.patience(lease) + leads.lasts(lease)
}

/// Whether a pod of it is ready for so long.
fn is_up_for(t: &Tenant<'_>, binary: Binary, grace: SignedDuration) -> bool {
    let settled = t.workloads(binary).rollout().is_some_and(|rollout| rollout.settled);
    let pods = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, binary.name());
    let first = pods.filter_map(|(_, pod)| workload::ready_since(pod)).min();
    settled && first.is_some_and(|since| t.now.duration_since(since) >= grace)
}

fn say(t: &Tenant<'_>, binary: Binary, lease: &str, renewed: Option<Timestamp>) -> String {
    let name = binary.name();
    let since = renewed.map_or_else(
        || "is not there".to_owned(),
        |at| format!("has not been renewed since {}", at.strftime("%Y-%m-%dT%H:%M:%SZ")),
    );
    let idle = match binary {
        Binary::Scheduler => "no pod is scheduled",
        _ => "no controller works",
    };
    format!(
        "{name} is ready, but none of its pods leads: Lease kube-system/{lease} in the tenant {since}, so {idle}. Its log says why: kubectl -n {} logs deployment/{name}",
        t.cp_namespace
    )
}

fn said_before(t: &Tenant<'_>, binary: Binary) -> Option<String> {
    let conditions = t.status().conditions;
    let old = find(&conditions, ConditionType::ControlPlaneAvailable).filter(|c| c.status == "False")?;
    let is_it = old.reason == Reason::NotLeading.as_str() && old.message.starts_with(binary.name());
    is_it.then(|| old.message.clone())
}

/// When one that is unclear is to be looked at again.
pub(crate) fn again(t: &Tenant<'_>) -> Option<SignedDuration> {
    let leads = t.observed.leads.as_deref()?;
    let unclear = names(t).into_iter().filter(|name| leads.get(name) == Some(Lead::Unclear));
    unclear.map(|name| leads.patience(&name) + SignedDuration::from_secs(1)).min()
}
