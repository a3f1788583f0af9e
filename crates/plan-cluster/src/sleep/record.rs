//! What is recorded of a tenant's sleep.

use berth_api::hibernation::SleepRecord;
use berth_api::labels;
use berth_plan::object_meta::annotation;
use serde_json::Value;

/// What a control-plane namespace says of it.
pub(super) fn recorded(namespace: &Value) -> Option<SleepRecord> {
    SleepRecord::parse(annotation(namespace, labels::SLEEP)?)
}
