//! What is seen of the components while their minor changes.

use super::decide::{Ask, MinorFacts, Run, Seen, Step};
use crate::ours::is_ours;
use crate::record::Pin;
use crate::subject::Tenant;
use berth_api::labels;
use berth_api::version::{Minor, Version};
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::ApiProbe;
use berth_plan::workload;
use berth_render::Binary;

impl MinorFacts {
    /// All API servers run the new minor and emulate nothing.
    pub(super) fn api_is_new(&self) -> bool {
        self.api.settled && self.api.oldest == Some(Run::New)
    }
}

/// A component, as it is there.
pub(super) fn look(t: &Tenant<'_>, binary: Binary, (old, new, emulates): (&Pin, &Pin, Minor), step: Step) -> Seen {
    let live = t.workloads(binary).that(is_ours);
    let of_new = |version: Option<Version>| version.is_some_and(|version| version.minor() == new.version.minor());
    let run = |workload| match (of_new(workload::version_of(workload)), workload::emulates(workload)) {
        (false, _) => Run::Old,
        (true, Some(minor)) if minor == emulates => Run::Emulating,
        (true, _) => Run::New,
    };
    let runs: Vec<Run> = live.live().map(run).collect();
    let (oldest, newest) = (runs.iter().min().copied(), runs.iter().max().copied());
    let pods = || workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, binary.name());
    let version = |pod| label(pod, labels::VERSION).and_then(|version| version.parse().ok());
    // In the second step nothing is of the old release any more, and both steps are of the same version.
    let wanted = if step == Step::One && newest == Some(Run::Old) { old.version } else { new.version };
    let rollout = live.rollout().unwrap_or_default();
    let is_wanted = live.live().all(|workload| workload::version_of(workload) == Some(wanted));
    Seen {
        oldest,
        newest,
        new_pods: pods().any(|(_, pod)| of_new(version(pod)))
            || rollout.old > 0
            || !live.live().all(workload::taken_up),
        settled: rollout.settled
            && is_wanted
            && pods().all(|(_, pod)| !deleting(pod) && version(pod).is_none_or(|version| version == wanted)),
        serves: rollout.serving,
    }
}

/// Whether the tenant's API answered.
pub(super) fn answers(t: &Tenant<'_>) -> bool {
    matches!(t.observed.api, ApiProbe::Answered { .. })
}

/// What a step waits for.
pub(super) fn progress(t: &Tenant<'_>, facts: &MinorFacts, old: &Version, new: &Version) -> String {
    let MinorFacts { step, ask, answers, api, clients, .. } = facts;
    let (goal, what) = match (step, ask) {
        (Step::Two, _) => (Run::New, format!("step 2 of 2 ({new} stops its emulation)")),
        (Step::One, Ask::Old) => (Run::Old, format!("the rollback to {old}")),
        (Step::One, Ask::New | Ask::Neither) => {
            (Run::Emulating, format!("step 1 of 2 ({new} emulates {})", old.minor()))
        }
    };
    let through = |seen: &Seen| seen.settled && seen.oldest == Some(goal) && seen.newest == Some(goal);
    let all = t.distribution.awaited().zip(std::iter::once(api).chain(clients));
    let left: Vec<_> = all.filter(|(_, seen)| !through(seen)).map(|(binary, _)| binary.name()).collect();
    match left.as_slice() {
        [] if !answers => format!("{what}: the API to answer"),
        [] => what,
        left => format!("{what}: rollout of {}", left.join(", ")),
    }
}
