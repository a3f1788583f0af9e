//! Takes in what a look for drift found.

use super::asked::{is_left, request};
use crate::installation::input::InstallationInput;
use berth_api::app::{AppInstallationStatus, Drift, DriftMode, DriftStatus, DriftedObject};
use berth_api::apps::{Checked, Drifted, Outcome, What};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Kind of what stands for Helm's release itself.
pub(super) const RELEASE: &str = "Release";

/// Takes it into the status.
pub(crate) fn record(input: InstallationInput<'_>, status: &mut AppInstallationStatus, outcome: &Outcome) {
    // By what was on record as it began: the spec may be another one by now.
    let request = status.check.take().map_or_else(|| request(input).0, |check| check.request);
    let old = status.drift.take().unwrap_or_default();
    let at = Some(Time(input.now));
    status.drift = Some(match outcome {
        Outcome::Checked(checked) => {
            let before = if old.request.as_ref() == Some(&request) { old.objects } else { vec![] };
            let repairs = input.object.spec.release.drift.mode == DriftMode::Repair;
            found(
                status,
                checked,
                &before,
                repairs,
                DriftStatus { checked_at: at, request: Some(request), ..DriftStatus::default() },
            )
        }
        Outcome::Failed(failure) => {
            DriftStatus { checked_at: at, request: Some(request), message: Some(failure.message.clone()), ..old }
        }
        Outcome::Deployed(_) | Outcome::Uninstalled => old,
    });
}

fn found(
    status: &mut AppInstallationStatus,
    checked: &Checked,
    before: &[DriftedObject],
    repairs: bool,
    new: DriftStatus,
) -> DriftStatus {
    let mut objects: Vec<DriftedObject> = checked.objects.iter().map(object).collect();
    let mut count = checked.count;
    if !checked.replaced.is_empty() {
        objects.insert(0, release(status, &checked.replaced));
    }
    for object in &mut objects {
        let was = before.iter().find(|was| is_same(was, object));
        object.repairs = was.and_then(|was| was.repairs);
        if object.kind == RELEASE {
            object.mended = repairs && !is_left(object);
            count += i64::from(!object.mended);
        }
        if object.mended {
            object.repairs = Some(object.repairs.unwrap_or_default().saturating_add(1));
        }
    }
    // Its Job finds out what is there.
    let is_again = |object: &DriftedObject| object.kind == RELEASE && object.mended;
    if let Some(release) = status.release.as_mut().filter(|_| objects.iter().any(is_again)) {
        release.asked.clear();
    }
    DriftStatus { count: Some(count), objects, ..new }
}

/// Whether the same was found of the same object.
fn is_same(was: &DriftedObject, is: &DriftedObject) -> bool {
    (&was.kind, &was.namespace, &was.name, &was.paths) == (&is.kind, &is.namespace, &is.name, &is.paths)
}

fn release(status: &AppInstallationStatus, why: &str) -> DriftedObject {
    let release = status.release.clone().unwrap_or_default();
    DriftedObject {
        kind: RELEASE.to_owned(),
        namespace: Some(release.namespace),
        name: release.name,
        what: Drift::Replaced,
        message: Some(why.to_owned()),
        ..DriftedObject::default()
    }
}

fn object(found: &Drifted) -> DriftedObject {
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    DriftedObject {
        kind: found.object.kind.clone(),
        namespace: given(&found.object.namespace),
        name: found.object.name.clone(),
        what: match found.what {
            What::Missing => Drift::Missing,
            What::Changed => Drift::Changed,
            What::Taken => Drift::Taken,
            What::Refused => Drift::Refused,
        },
        paths: found.paths.clone(),
        message: given(&found.message),
        mended: found.mended,
        repairs: None,
    }
}
