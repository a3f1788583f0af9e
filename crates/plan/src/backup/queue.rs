//! Whose turn it is. Each backup decides for itself from the same list, so that no memory is needed: those that run count first, then
//! those that are ready to, by age. One that waits for something else holds up nobody.

use super::Input;
use berth_api::backup::phase;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// How many others are before it, if these are as many as may run.
pub(super) fn ahead(input: Input<'_>) -> Option<usize> {
    let own = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), input.name());
    let all = input.observed.objects.iter().filter(|(key, _)| key.kind == Kind::EtcdBackup);
    let phase = |o: &Value| o["status"]["phase"].as_str().map(str::to_owned);
    let place = |key: &ObjectKey, o: &Value| {
        let runs = phase(o).as_deref() == Some(phase::RUNNING);
        let text = |field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
        // Those of one schedule, or of one second, are in the order of random numbers: spread over the fleet.
        (!runs, text("creationTimestamp"), text("uid"), key.clone())
    };
    let mine = place(&own, input.observed.get(&own)?);
    let counts = |o: &Value| matches!(phase(o).as_deref(), None | Some(phase::QUEUED | phase::RUNNING));
    let ahead = all.filter(|(key, o)| **key != own && counts(o) && place(key, o) < mine).count();
    (ahead >= input.settings.backups.concurrent).then_some(ahead)
}
