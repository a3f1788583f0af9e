//! `UpgradeReady`: what stands in the way while nobody asks for the next minor.

use super::{findings, say};
use crate::record::{Pin, pin};
use crate::release::is_at_rest;
use crate::subject::Tenant;
use berth_api::conditions::{self, ConditionType, Reason, Verdict};
use berth_api::version::Minor;
use berth_plan::asked::Look;
use berth_render::Catalog;

/// The minor that comes next, if this build has it and the tenant is on its way to none.
pub(super) fn next_minor(t: &Tenant<'_>) -> Option<(Pin, Minor)> {
    let live = t.live_namespace().filter(|live| is_at_rest(live))?;
    let runs = pin(live)?;
    let next = runs.version.minor().next();
    Catalog::builtin().kubernetes(next).map(|_| (runs, next))
}

/// `UpgradeReady`. None: there is no next minor.
pub(crate) fn verdict(t: &Tenant<'_>) -> Option<Verdict> {
    const TYPE: ConditionType = ConditionType::UpgradeReady;
    if t.cluster.metadata.deletion_timestamp.is_some() || t.observed.denied {
        return None;
    }
    let (runs, target) = next_minor(t)?;
    if !matches!(t.observed.look, Look::Taken(_)) {
        let old = t.status().conditions;
        // It is of what runs, and stays as it is while the operator cannot look.
        let Some(old) = conditions::find(&old, TYPE) else {
            let message = format!("checks for {target} run once the tenant is Ready");
            return Some(Verdict::new(TYPE, None, Reason::NotYetObserved, message));
        };
        let status = match &*old.status {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        };
        return Some(Verdict::new(TYPE, status, old.reason.parse().unwrap_or(Reason::Error), old.message.clone()));
    }
    let findings = findings(t, runs.version, target);
    let skipped: Vec<String> = t.cluster.spec.upgrade.skip_checks.iter().map(ToString::to_string).collect();
    let skipped = match skipped.as_slice() {
        [] => String::new(),
        all => format!("; skipped: {} (spec.upgrade.skipChecks)", all.join(", ")),
    };
    Some(if findings.is_empty() {
        let message = format!("all checks for {target} pass{skipped}");
        Verdict::new(TYPE, Some(true), Reason::AsExpected, message)
    } else {
        Verdict::new(TYPE, Some(false), Reason::UpgradeBlocked, format!("for {target}: {}", say(&findings)))
    })
}
