//! Whether the next minor may begin, before anything changes.

use super::seen;
use crate::admission::is_overruled;
use crate::ours::is_ours;
use crate::preflight::{findings, say};
use crate::record::Pin;
use crate::subject::Tenant;
use berth_api::cluster::Check;
use berth_api::conditions::Reason;
use berth_plan::asked::Look;
use berth_plan::model::State;
use berth_plan::workload;

/// Whether the change may begin.
pub(super) fn judge(t: &Tenant<'_>, old: &Pin, new: &Pin) -> Result<(), State> {
    let mut findings = findings(t, old.version, new.version.minor());
    findings.retain(|finding| finding.check != Some(Check::Admission) || !is_overruled(t));
    if !findings.is_empty() {
        return Err(State::blocked(
            Reason::UpgradeBlocked,
            format!(
                "spec.version: {} cannot replace {} yet: {}. Nothing was changed. To stay, set spec.version to {}",
                new.version,
                old.version,
                say(&findings),
                old.version
            ),
        ));
    }
    // Not yet is no refusal: what runs is repaired first.
    match unfinished(t, old) {
        Some(on) => Err(State::Waiting { reason: Reason::RollingOut, on }),
        None if t.observed.look == Look::NotYet => {
            let on = "the checks before the change of the minor version".to_owned();
            Err(State::Waiting { reason: Reason::RollingOut, on })
        }
        None => Ok(()),
    }
}

/// What is to be through before.
fn unfinished(t: &Tenant<'_>, old: &Pin) -> Option<String> {
    let before = |what: String| Some(format!("{what} before the change of the minor version"));
    for binary in t.distribution.awaited() {
        let live = t.workloads(binary).that(is_ours);
        let is_old =
            live.live().all(|w| workload::version_of(w) == Some(old.version) && workload::emulates(w).is_none());
        if !live.rollout().is_some_and(|rollout| rollout.settled) || !is_old {
            return before(format!("{} to be rolled out", binary.name()));
        }
    }
    if seen::answers(t) { None } else { before("the API to answer".into()) }
}
