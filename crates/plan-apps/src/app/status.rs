//! What an `App` says of itself.

use super::tenant::named;
use super::{AppPlan, InTenant, removal, waves};
use berth_api::App;
use berth_api::app::{AppInCluster, AppState, AppStatus};
use berth_api::conditions::{Reason, Verdict};
use berth_plan::{Failure, Input, verdicts};

/// Entries of the list in the status.
const LISTED: usize = 16;

/// The new status.
pub(super) fn status(input: Input<'_, App>, planned: &AppPlan, failure: Option<&Failure>) -> AppStatus {
    let old = input.object.status.clone().unwrap_or_default();
    let generation = input.object.metadata.generation.unwrap_or_default();
    let count = |state: AppState| i64::try_from(of(planned, state).count()).ok();
    let selected = planned.tenants.iter().filter(|tenant| tenant.wanted).count();
    let mut listed: Vec<&InTenant> = planned.tenants.iter().filter(|t| t.state != AppState::Deployed).collect();
    listed.sort_by_key(|tenant| tenant.state);
    AppStatus {
        observed_generation: Some(generation),
        selected: i64::try_from(selected).ok(),
        deployed: count(AppState::Deployed),
        running: count(AppState::Running),
        waiting: count(AppState::Waiting),
        failed: count(AppState::Failed),
        queued: count(AppState::Queued),
        deleting: count(AppState::Deleting),
        wave: planned.wave.and_then(|wave| i64::try_from(wave + 1).ok()),
        confirmed: i64::try_from(planned.removal.confirmed).ok().filter(|confirmed| *confirmed > 0),
        drifted: i64::try_from(planned.tenants.iter().filter(|tenant| tenant.drifted).count()).ok(),
        values_digest: planned.values.config_maps.clone().filter(|digest| !digest.is_empty()),
        secrets_digest: planned.values.secrets.clone().filter(|digest| !digest.is_empty()),
        clusters: listed.into_iter().take(LISTED).map(listed_as).collect(),
        conditions: verdicts::publish(&old.conditions, said(input, planned, failure), generation, input.now, false),
    }
}

fn listed_as(tenant: &InTenant) -> AppInCluster {
    AppInCluster {
        namespace: tenant.cluster.namespace.clone().unwrap_or_default(),
        name: tenant.cluster.name.clone(),
        state: tenant.state,
        message: berth_api::conditions::shortened(&tenant.message, 500),
    }
}

fn of(planned: &AppPlan, state: AppState) -> impl Iterator<Item = &InTenant> {
    planned.tenants.iter().filter(move |tenant| tenant.state == state)
}

/// The first few of them.
fn names<'p>(tenants: impl Iterator<Item = &'p InTenant>) -> String {
    named(tenants.map(|tenant| &tenant.cluster))
}

/// `Ready` and `Degraded`.
fn said(input: Input<'_, App>, planned: &AppPlan, failure: Option<&Failure>) -> Vec<Verdict> {
    let spec = &input.object.spec;
    if let Some(failure) = failure {
        return verdicts::both(Some(false), true, failure.reason, &*failure.message);
    }
    let problem = planned.plan.stages.iter().find(|s| !s.state.is_done());
    let sentence = problem.and_then(|s| s.state.sentence());
    if problem.is_some_and(|s| s.id == berth_plan::StageId::Deletion) {
        return verdicts::deleting(sentence.as_ref().map(|(_, text)| text.as_str()));
    }
    if problem.is_some() {
        return verdicts::under_way(problem, "waiting");
    }
    match (removal::said(input, &planned.removal), failed(input, planned)) {
        (Some(held), Some(failed)) => {
            return verdicts::both(Some(false), true, Reason::AppFailed, format!("{held}. It has {failed}"));
        }
        (Some(held), None) => return verdicts::both(Some(false), false, Reason::ConfirmationRequired, held),
        (None, Some(failed)) => return verdicts::both(Some(false), true, Reason::AppFailed, failed),
        (None, None) => {}
    }
    if let Some(missing) = planned.missing.first() {
        let message = format!("spec.clusterRefs: {missing} does not exist: create it, or correct the name");
        return verdicts::both(Some(false), false, Reason::Waiting, message);
    }
    for (state, what) in [
        (AppState::Running, "being installed or upgraded in"),
        (AppState::Queued, "not yet in"),
        (AppState::Waiting, "waiting for"),
        (AppState::Deleting, "being uninstalled from"),
    ] {
        if let Some(first) = of(planned, state).next() {
            let at = planned.wave.map(|wave| format!("at {}: ", waves::name(spec, wave))).unwrap_or_default();
            let message = format!("{at}{what} {}: {}", names(of(planned, state)), first.message);
            return verdicts::both(Some(false), false, Reason::Waiting, message);
        }
    }
    let message = match planned.tenants.len() {
        0 => "no Cluster is selected".to_owned(),
        1 => "deployed in 1 Cluster".to_owned(),
        count => format!("deployed in {count} Clusters"),
    };
    let drifted: Vec<&InTenant> = planned.tenants.iter().filter(|tenant| tenant.drifted).collect();
    if drifted.is_empty() {
        return verdicts::both(Some(true), false, Reason::AsExpected, message);
    }
    let message = format!(
        "{message}. Not as Helm left it in {}: the condition Drifted of the AppInstallation there says what",
        names(drifted.into_iter())
    );
    verdicts::both(Some(true), false, Reason::AsExpected, message)
}

/// What is said of those where it failed, and what that means for others.
fn failed(input: Input<'_, App>, planned: &AppPlan) -> Option<String> {
    let mut failed: Vec<&InTenant> = of(planned, AppState::Failed).collect();
    failed.sort_by_key(|tenant| !tenant.counts);
    let first = failed.first()?;
    let counted = failed.iter().filter(|tenant| tenant.counts).count();
    let held = match planned.wave.map(|wave| waves::name(&input.object.spec, wave)) {
        _ if planned.held => format!(
            ". Nobody else gets it before it succeeds there, or spec changes. To have it go on all the same: kubectl patch app {} -n {} --type=merge -p '{{\"spec\":{{\"maxFailed\":{}}}}}'",
            input.name(),
            input.namespace(),
            counted + 1
        ),
        _ if counted == 0 => ". Nobody else waits for that".to_owned(),
        Some(wave) => format!(". It is at {wave}, and later ones do not get it before that is through"),
        None => String::new(),
    };
    Some(format!("failed in {}{held}. The first says: {}", names(failed.iter().copied()), first.message))
}
