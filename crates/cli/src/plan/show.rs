//! A report as a text.

use super::report::{Change, Part, Report, StageStatus};
use crate::paint::{bad, faint, good, plain, safe, strong, warn};
use berth_plan::fleet::DEFAULT_WAVE;
use std::fmt::Write as _;

/// The text.
pub(super) fn show(report: &Report) -> String {
    let mut text = format!("{}\n", head(report));
    let width = report.stages.iter().map(|p| p.stage.len()).max().unwrap_or_default();
    for part in &report.stages {
        let gap = " ".repeat(width - part.stage.len() + 2);
        let _ = writeln!(text, "{}{gap}{}", part.stage, state(part));
        changes(&part.changes, &mut text);
    }
    if !report.prune.is_empty() {
        let _ = writeln!(text, "leftovers");
        changes(&report.prune, &mut text);
    }
    if !report.then.is_empty() {
        let _ = writeln!(text, "after that, each as soon as what it waits for exists:");
        for later in &report.then {
            let _ = writeln!(text, "  {}: {}", later.stage, safe(&later.change.what));
            for difference in &later.change.differences {
                let _ = writeln!(text, "    {}", faint(difference));
            }
        }
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "{} {}", warn("warning:"), safe(warning));
    }
    if let Some(window) = &report.window {
        let _ = writeln!(text, "spec.upgrade.window is {}: pods are replaced while it is open", safe(window));
    }
    if report.wave != DEFAULT_WAVE || report.waits.is_some() {
        let _ = writeln!(text, "wave {} of the fleet", report.wave);
    }
    if let Some(waits) = &report.waits {
        let _ = writeln!(text, "{} {}", warn("waits:"), safe(waits));
    }
    if let Some(found) = &report.update {
        let _ = writeln!(text, "update available: {}", safe(found));
    }
    if let Some(found) = &report.upgrade_blocked {
        let _ = writeln!(text, "{} {}", warn("not ready for the next minor version:"), safe(found));
    }
    for line in summary(report) {
        let _ = writeln!(text, "{line}");
    }
    text
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

fn changes(all: &[Change], text: &mut String) {
    for change in all {
        let _ = writeln!(text, "  {}", safe(&change.what));
        for difference in &change.differences {
            let _ = writeln!(text, "    {}", faint(difference));
        }
    }
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
