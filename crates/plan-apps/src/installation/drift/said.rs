//! What is said of drift.

use super::asked::is_left;
use berth_api::app::{AppDrift, AppInstallationStatus, Drift, DriftMode, DriftedObject, ReleaseStatus};
use berth_api::conditions::{ConditionType, Reason, Verdict};

/// Objects in a message.
const NAMED: usize = 3;

/// `Drifted`. None: nobody looked.
pub(crate) fn verdict(spec: &AppDrift, status: &AppInstallationStatus) -> Option<Verdict> {
    let said = |is, reason, message: String| Some(Verdict::new(ConditionType::Drifted, is, reason, message));
    let drift = status.drift.as_ref().filter(|_| spec.mode != DriftMode::Ignore)?;
    let ReleaseStatus { namespace, name, revision, .. } = status.release.clone()?;
    let release = format!("revision {revision} of release {namespace}/{name}");
    if let Some(why) = &drift.message {
        return said(None, Reason::DriftUnknown, format!("what is there could not be compared with {release}: {why}"));
    }
    let count = drift.count?;
    if count > 0 {
        let those = named(&drift.objects, false, count);
        let hint = hint(spec.mode, &drift.objects);
        return said(Some(true), Reason::Drifted, format!("not as {release} left it: {those}{hint}"));
    }
    let mended = drift.objects.iter().any(|object| object.mended);
    let message = if mended {
        format!("set back to what {release} left: {}", named(&drift.objects, true, 0))
    } else {
        format!("all is as {release} left it")
    };
    said(Some(false), Reason::AsExpected, message)
}

/// The first few of those that were set back, or were not. `count`: how many there are of them at least.
fn named(all: &[DriftedObject], mended: bool, count: i64) -> String {
    let all: Vec<&DriftedObject> = all.iter().filter(|object| object.mended == mended).collect();
    let names: Vec<String> = all.iter().take(NAMED).map(|object| told(object)).collect();
    let more = usize::try_from(count).unwrap_or_default().max(all.len()) - names.len();
    if more == 0 { names.join("; ") } else { format!("{}; and {more} more", names.join("; ")) }
}

fn told(object: &DriftedObject) -> String {
    let within = object.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let own = format!("{} {within}{}", object.kind, object.name);
    let why = object.message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let (is, has) = if object.mended { ("was", "had") } else { ("is", "has") };
    match object.what {
        Drift::Missing => format!("{own} {is} missing{why}"),
        Drift::Changed => format!("{own} {has} other values at {}{why}", object.paths.join(", ")),
        Drift::Taken => format!("{own} is of another release of Helm{why}"),
        Drift::Refused => format!("{own} cannot be compared{why}"),
        Drift::Replaced => format!("{own}{why}"),
    }
}

/// The way out.
fn hint(mode: DriftMode, objects: &[DriftedObject]) -> String {
    let left = objects.iter().find(|object| !object.mended && is_left(object));
    match (left, mode) {
        (Some(object), _) => format!(
            ". Somebody else writes {} {}: it was set back three times in a row, and is left now. Have whoever writes it stop, or name it in spec.drift.ignore of the App; a new text in the annotation berth.dev/check of the App has it set back once more",
            object.kind, object.name
        ),
        (None, DriftMode::Report) => {
            ". Set it back, or set spec.drift.mode of the App to Repair, which does so; spec.drift.ignore names what others may change".to_owned()
        }
        (None, DriftMode::Repair | DriftMode::Ignore) => String::new(),
    }
}
