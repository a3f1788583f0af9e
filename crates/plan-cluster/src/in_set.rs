//! What was seen in the tenant of a set that comes and goes.

use crate::subject::Tenant;
use berth_api::labels;
use berth_plan::object_meta::label;
use berth_plan::observed::ApiProbe;
use berth_render::{ObjectKey, TenantSet};
use serde_json::Value;

/// Whether an object of it is there. None: it was not read.
pub(crate) fn is_there(t: &Tenant<'_>, set: &TenantSet, key: &ObjectKey) -> Option<bool> {
    let ApiProbe::Answered { read, .. } = &t.observed.api else { return None };
    let is_ours = |live: &Value| label(live, labels::TENANT_SET) == Some(set.name());
    read.get(key).map(|live| live.is_some_and(is_ours))
}
