//! By what a Job is known to look for drift, and what it is asked for with.

use crate::installation::input::InstallationInput;
use berth_api::app::{AppDrift, DriftedObject};
use berth_api::labels;
use berth_plan::digest::sha256;
use berth_plan::object_meta::{annotation, label};
use serde_json::{Value, json};

/// After so many times in a row it is left: somebody else writes it.
const REPAIRS: i64 = 3;

/// Whether a Job looks for drift.
pub(crate) fn is_check(job: &Value) -> bool {
    label(job, labels::APP_CHECK_UID).is_some()
}

/// Whether an object was set back often enough.
pub(super) fn is_left(object: &DriftedObject) -> bool {
    object.repairs.is_some_and(|repairs| repairs >= REPAIRS)
}

/// What a look is asked for with: digest of the spec's part, and of what a person wrote to ask for one. True: a person did.
pub(super) fn request(input: InstallationInput<'_>) -> (String, bool) {
    let AppDrift { mode, ignore, interval_seconds: _ } = &input.object.spec.release.drift;
    let app = input.0.observed.get(&input.target().app);
    let text = app.and_then(|app| annotation(app, labels::CHECK));
    let mut digest = sha256(json!([mode, ignore, text]).to_string().as_bytes());
    digest.truncate(40);
    (digest, text.is_some())
}
