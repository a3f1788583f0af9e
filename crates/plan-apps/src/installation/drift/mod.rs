//! Looks for drift: a Job compares what is in the tenant with what Helm left there, and sets it back if the spec says so. It begins only while nothing else is
//! to be done, and what is deployed counts as such meanwhile.

mod asked;
mod due;
mod record;
mod said;

pub(super) use asked::is_check;
pub(super) use record::record;
pub(super) use said::verdict;

use super::input::InstallationInput;
use super::job::{self, Asked};
use super::plan::InstallationPlan;
use crate::requeue::{AT_REST, WAITING};
use asked::{is_left, request};
use berth_api::app::{DriftMode, DriftedObject};
use berth_api::apps::{Check, Ignored, Known, Object};
use berth_plan::model::Stage;
use berth_plan::requeue::SOON;
use due::{Due, Looks};

/// What is due of it, in a tenant that has what it is to have. `waits`: the tenant cannot be asked.
pub(super) fn plan(
    input: InstallationInput<'_>,
    deployed: &Asked,
    waits: bool,
    stage: &mut Stage,
    out: &mut InstallationPlan,
) {
    let drift = &input.object.spec.release.drift;
    if waits || drift.mode == DriftMode::Ignore || !input.settings.apps.are_enabled() {
        return;
    }
    // It is given what Secrets hold to keep that out of messages: others than were deployed do not do.
    let Ok(values) = &deployed.values else { return };
    let (status, target, owner) = (input.status(), input.target(), input.owner());
    let (request, asked) = request(input);
    let selected = input.0.observed.get(&target.app).and_then(|app| app["status"]["selected"].as_i64());
    let looks = Looks {
        uid: input.uid(),
        interval: drift.interval_seconds.max(1),
        request: &request,
        asked,
        others: selected.unwrap_or(1),
        last: status.drift.as_ref(),
        next: status.check.as_ref(),
        since: status.release.as_ref().and_then(|release| release.since.as_ref()).map(|at| at.0),
    };
    let due = looks.due(input.now);
    if let Due::Later(at) = due {
        out.requeue_after = Some(at.duration_since(input.now).clamp(SOON, AT_REST));
        return;
    }
    if input.observed.get(&target.policy()).is_none() || input.pod_left().is_some() {
        out.requeue_after = Some(WAITING);
        return;
    }
    if let Due::Record(check) = due {
        (out.check, out.requeue_after) = (Some(check), Some(SOON));
        return;
    }
    let check = job::check(check(input, &request, deployed));
    let secret = owner.secret(&target.job, job::entries(input, values.clone()));
    // What is in the way is somebody else's, and is said once there is something to do.
    let _created = secret.and_then(|secret| owner.create(stage, check.shape(input, &target.job)?, Some(secret)));
}

/// What is to be compared: the release as the Job that deployed it would find it.
fn check(input: InstallationInput<'_>, request: &str, deployed: &Asked) -> Check {
    let (status, drift) = (input.status(), &input.object.spec.release.drift);
    let before = status.drift.filter(|before| before.request.as_deref() == Some(request)).unwrap_or_default();
    let ignored = |rule: &berth_api::app::DriftIgnore| Ignored {
        kind: rule.kind.clone(),
        name: rule.name.clone().unwrap_or_default(),
        namespace: rule.namespace.clone().unwrap_or_default(),
        paths: rule.paths.clone(),
    };
    let known = |object: &DriftedObject| Known {
        object: Object {
            kind: object.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
        },
        paths: object.paths.clone(),
        leave: is_left(object),
    };
    Check {
        release: deployed.task.release().clone(),
        repair: drift.mode == DriftMode::Repair,
        ignore: drift.ignore.iter().map(ignored).collect(),
        known: before.objects.iter().filter(|object| object.repairs.is_some()).map(known).collect(),
    }
}
