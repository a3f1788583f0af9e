//! A report as a text.

use super::report::{Change, Part, Report, StageStatus};
use crate::paint::{bad, faint, good, plain, safe, strong, warn};
use berth_plan::fleet::DEFAULT_WAVE;

/// The text.
pub(super) fn show(report: &Report) -> String {
    let mut lines = vec![head(report)];
    let width = report.stages.iter().map(|p| p.stage.len()).max().unwrap_or_default();
    for part in &report.stages {
        lines.push(format!("{:width$}  {}", part.stage, state(part)));
        lines.extend(changes(&part.changes));
    }
    if !report.prune.is_empty() {
        lines.push("leftovers".to_owned());
        lines.extend(changes(&report.prune));
    }
    if !report.then.is_empty() {
        lines.push("after that, each as soon as what it waits for exists:".to_owned());
    }
    for later in &report.then {
        lines.push(format!("  {}: {}", later.stage, safe(&later.change.what)));
        lines.extend(differences(&later.change));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("{} {}", warn("warning:"), safe(warning))));
    let window = |is: &String| format!("spec.upgrade.window is {}: pods are replaced while it is open", safe(is));
    lines.extend(report.window.as_ref().map(window));
    if report.wave != DEFAULT_WAVE || report.waits.is_some() {
        lines.push(format!("wave {} of the fleet", report.wave));
    }
    lines.extend(report.waits.as_ref().map(|waits| format!("{} {}", warn("waits:"), safe(waits))));
    lines.extend(report.update.as_ref().map(|found| format!("update available: {}", safe(found))));
    let blocked = |why: &String| format!("{} {}", warn("not ready for the next minor version:"), safe(why));
    lines.extend(report.upgrade_blocked.as_ref().map(blocked));
    lines.extend(summary(report));
    lines.join("\n") + "\n"
}

fn head(report: &Report) -> String {
    let there = if report.exists { "" } else { ", which does not exist yet" };
    format!("Plan for {}{there}", strong(&format!("Cluster {}", report.cluster)))
}

fn state(part: &Part) -> String {
    let message = safe(part.message.as_deref().unwrap_or_default());
    match part.state {
        // What is asked for is judged there; what follows from it is in the other stages.
        StageStatus::Ready if part.stage == "spec" => good("valid"),
        StageStatus::Ready => good("no change"),
        StageStatus::Disabled => faint("not asked for"),
        StageStatus::Changes => warn(&count(part.changes.len(), "change")),
        StageStatus::Waiting => format!("{} {message}", warn("waits for")),
        StageStatus::Blocked => {
            let reason = part.reason.as_deref().unwrap_or_default();
            let beside = if part.changes.is_empty() {
                String::new()
            } else {
                format!("; {}", count(part.changes.len(), "change"))
            };
            format!("{} {reason}: {message}{beside}", bad("blocked:"))
        }
        StageStatus::NotLookedAt => faint(&format!("not looked at: {message}")),
    }
}

fn changes(all: &[Change]) -> impl Iterator<Item = String> {
    all.iter().flat_map(|change| std::iter::once(format!("  {}", safe(&change.what))).chain(differences(change)))
}

fn differences(change: &Change) -> impl Iterator<Item = String> {
    change.differences.iter().map(|difference| format!("    {}", faint(difference)))
}

fn summary(report: &Report) -> Vec<String> {
    let n = report.stages.iter().map(|p| p.changes.len()).sum::<usize>() + report.prune.len();
    let mut lines = vec![];
    if report.paused {
        lines.push(warn("spec.paused is true: Berth does nothing else"));
    }
    if !report.restarts.is_empty() {
        let all: Vec<_> = report.restarts.iter().map(|r| format!("{} ({})", safe(&r.workload), r.pods)).collect();
        lines.push(format!("pods restart: {}", all.join(", ")));
    }
    if report.more_follows {
        lines.push("more changes follow than this plan could simulate".to_owned());
    }
    let then = match report.then.len() {
        0 => String::new(),
        later => format!(", {later} after that"),
    };
    lines.push(match (n, report.pending) {
        (0, false) => good("no changes"),
        (0, true) => warn(&format!("no change can be made now{then}")),
        (n, _) => strong(&format!("{} now{then}", count(n, "change"))),
    });
    debug_assert!(lines.iter().all(|l| !plain(l).is_empty()));
    lines
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
