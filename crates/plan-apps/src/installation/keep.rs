//! Whether the release stays in the tenant when its installation goes.

use super::input::InstallationInput;
use berth_api::app::OnRemoval;
use berth_plan::object_meta::uid;
use serde_json::Value;

/// As the `App` says it now. One that is gone says nothing any more: then as it said it when it was last there.
pub(super) fn on_removal(input: InstallationInput<'_>) -> OnRemoval {
    let app = input.observed.get(&input.target().app).filter(|app| uid(app) == input.object.spec.app.uid);
    let Some(app) = app else { return input.status().on_removal.unwrap_or_default() };
    match &app["spec"]["onRemoval"] {
        Value::Null => OnRemoval::default(),
        // A newer Berth's word is no reason to uninstall anything.
        said => serde_json::from_value(said.clone()).unwrap_or(OnRemoval::Keep),
    }
}

/// Whether nothing is uninstalled.
pub(super) fn keeps(input: InstallationInput<'_>) -> bool {
    on_removal(input) == OnRemoval::Keep
}
