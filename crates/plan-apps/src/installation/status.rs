//! What an `AppInstallation` says of itself.

use super::input::InstallationInput;
use super::keep::on_removal;
use super::plan::{InstallationPlan, JobResult};
use super::{drift, job};
use berth_api::app::{AppInstallationStatus, DriftMode, DriftStatus, OnRemoval, ReleaseStatus, phase};
use berth_api::apps::{At, Deployed, Outcome};
use berth_api::conditions::{Reason, Verdict};
use berth_plan::{Failure, verdicts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new status.
pub(super) fn status(
    input: InstallationInput<'_>,
    planned: &InstallationPlan,
    failure: Option<&Failure>,
) -> AppInstallationStatus {
    let old = input.status();
    let generation = input.object.metadata.generation.unwrap_or_default();
    if input.is_unseen() {
        // Nothing was decided about this spec, so it was not observed either.
        let said = failure.map_or_else(|| verdicts::under_way(planned.plan.stages.first(), ""), failed);
        return AppInstallationStatus {
            conditions: verdicts::publish(&old.conditions, said, generation, input.now, false),
            ..old
        };
    }
    let mut new = AppInstallationStatus {
        observed_generation: Some(generation),
        phase: Some(planned.phase.to_owned()),
        ..old.clone()
    };
    new.failed_at = new.failed_at.map(|at| Time(at.0.min(input.now)));
    if let Some((_, with)) = &planned.asked {
        new.fetched_with.clone_from(with);
        // By that it would wait for its next try.
        new.failed_at = None;
        if old.observed_generation != Some(generation) {
            (new.failures, new.message, new.foreign) = (None, None, None);
        }
    }
    if let Some((asked, _)) = planned.asked.as_ref().filter(|(asked, _)| Some(asked) != old.asked.as_ref()) {
        new.asked = Some(asked.clone());
        // Whatever its Job comes to, what was asked for before is not known to be there any more.
        new.release = new.release.map(|release| ReleaseStatus { asked: String::new(), ..release });
        (new.failures, new.message, new.foreign) = (None, None, None);
        // What was found is of what was there before.
        let request = new.drift.take().and_then(|drift| drift.request);
        new.drift = request.map(|request| DriftStatus { request: Some(request), ..DriftStatus::default() });
        new.check = None;
    }
    if let Some(check) = &planned.check {
        new.check = Some(check.clone());
    }
    if let Some(result) = &planned.result {
        record(input, &mut new, result);
    }
    new.on_removal = Some(on_removal(input)).filter(|it| *it != OnRemoval::default());
    let spec = &input.object.spec.release.drift;
    if spec.mode == DriftMode::Ignore {
        (new.drift, new.check) = (None, None);
    }
    let mut said = said(planned, &new, failure);
    said.extend(drift::verdict(spec, &new).filter(|_| planned.phase != phase::DELETING));
    new.conditions = verdicts::publish(&old.conditions, said, generation, input.now, false);
    new
}

/// Takes in how a Job ended.
fn record(input: InstallationInput<'_>, status: &mut AppInstallationStatus, result: &JobResult) {
    status.job = Some(result.job.clone());
    if result.is_check {
        drift::record(input, status, &result.outcome);
        return;
    }
    match &result.outcome {
        Outcome::Failed(failure) => {
            status.failures = Some(status.failures.unwrap_or_default().saturating_add(1));
            status.failed_at = Some(Time(input.now));
            status.message = Some(failure.message.clone());
            status.foreign = (failure.at == At::Foreign).then_some(true);
            if !input.is_deleted() {
                status.phase = Some(phase::FAILED.to_owned());
            }
        }
        Outcome::Uninstalled => {
            // Nothing was asked for: nothing is to be uninstalled any more.
            (status.asked, status.release) = (None, None);
            (status.failures, status.failed_at, status.message, status.foreign) = (None, None, None, None);
        }
        Outcome::Deployed(deployed) => {
            status.release = Some(release(input, deployed, &result.asked, status.release.take()));
            (status.failures, status.failed_at, status.foreign) = (None, None, None);
            status.message = Some(deployed.mended.clone()).filter(|mended| !mended.is_empty());
            // It may be of a spec from before its Job began: who goes by it would take a change for deployed that has not come.
            let is_newest = job::asked(input).is_some_and(|asked| asked.digest == result.asked);
            status.phase = Some(if is_newest { phase::DEPLOYED } else { phase::RUNNING }.to_owned());
        }
        // Only a look for drift says so.
        Outcome::Checked(_) => {}
    }
}

fn release(
    input: InstallationInput<'_>,
    deployed: &Deployed,
    asked: &str,
    old: Option<ReleaseStatus>,
) -> ReleaseStatus {
    let spec = &input.object.spec.release;
    let since = old.filter(|old| old.revision == deployed.revision && deployed.unchanged).and_then(|old| old.since);
    ReleaseStatus {
        namespace: spec.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: spec.release_name.clone().unwrap_or_else(|| input.object.spec.app.name.clone()),
        asked: asked.to_owned(),
        revision: deployed.revision,
        chart: deployed.chart.clone(),
        version: deployed.version.clone(),
        app_version: Some(deployed.app_version.clone()).filter(|version| !version.is_empty()),
        chart_digest: deployed.chart_digest.clone(),
        values_digest: deployed.values_digest.clone(),
        manifest_digest: Some(deployed.manifest_digest.clone()).filter(|digest| !digest.is_empty()),
        epoch: Some(deployed.epoch),
        since: Some(since.unwrap_or(Time(input.now))),
    }
}

/// What a call that failed leads to.
fn failed(failure: &Failure) -> Vec<Verdict> {
    verdicts::both(Some(false), true, failure.reason, &*failure.message)
}

/// `Ready` and `Degraded`.
fn said(planned: &InstallationPlan, new: &AppInstallationStatus, failure: Option<&Failure>) -> Vec<Verdict> {
    if let Some(failure) = failure {
        return failed(failure);
    }
    let problem = planned.plan.stages.iter().find(|s| !s.state.is_done());
    let sentence = problem.and_then(|s| s.state.sentence());
    if planned.phase == phase::DELETING {
        return verdicts::deleting(sentence.as_ref().map(|(_, text)| text.as_str()));
    }
    match (&planned.result, new.phase.as_deref()) {
        (Some(JobResult { outcome: Outcome::Failed(failure), is_check: false, .. }), _) => {
            verdicts::both(Some(false), true, Reason::AppFailed, &*failure.message)
        }
        (_, Some(phase::FAILED)) => {
            let (reason, message) = sentence.unwrap_or((Reason::AppFailed, "the last try failed".to_owned()));
            verdicts::both(Some(false), true, reason, message)
        }
        (_, Some(phase::DEPLOYED)) => {
            let of = new.release.clone().unwrap_or_default();
            verdicts::both(
                Some(true),
                false,
                Reason::AsExpected,
                format!(
                    "revision {} of release {}/{} has chart {} {}",
                    of.revision, of.namespace, of.name, of.chart, of.version
                ),
            )
        }
        _ => verdicts::under_way(problem, "waiting for its Job"),
    }
}
