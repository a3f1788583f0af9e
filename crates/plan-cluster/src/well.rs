//! Whether the status says that all is well.

use crate::planned::Input;
use berth_api::conditions::{ConditionType, find, is_settled};

/// Whether the status, of the newest spec, says that all is done.
pub(crate) fn is_well(input: Input<'_>) -> bool {
    let status = input.object.status.as_ref();
    let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
    let seen = status.is_some_and(|s| s.observed_generation == input.object.metadata.generation);
    seen && find(conditions, ConditionType::Ready).is_some_and(is_settled)
}
