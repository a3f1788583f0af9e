//! What the upkeep of an etcd is decided from, as it was observed.

use super::decide::{Room, UpkeepView};
use crate::health::Health;
use crate::subject::Subject;
use berth_api::etcd_bootstrap::BootstrapState;
use berth_api::labels;
use berth_plan::observed::MemberProbe;

/// Size of the database, unless asked for: 2 GiB, as etcd's own default.
const QUOTA: i64 = 2 * 1024 * 1024 * 1024;

/// The quota that the templates get.
pub(crate) fn rendered_quota(s: &Subject<'_>) -> i64 {
    s.etcd.spec.quota_backend_bytes.unwrap_or(QUOTA)
}

/// The view of a reconcile; `is_settled`: nothing else is to be done to this etcd.
pub(crate) fn view_upkeep(s: &Subject<'_>, health: &Health, is_settled: bool) -> UpkeepView {
    let probe = s.observed.etcd.as_ref();
    let answers = || probe.into_iter().flat_map(|p| &p.members);
    let members = answers().filter_map(|(name, said)| Some(room(s, name, said.as_ref().ok()?))).collect();
    let annotations = s.etcd.metadata.annotations.as_ref();
    UpkeepView {
        now: s.now,
        is_well: is_settled
            && health.complete
            && s.record.bootstrap.state == BootstrapState::Established
            && s.record.operation.is_none()
            && !s.etcd.spec.paused,
        members,
        alarms: probe.map(|p| p.alarms.clone()).unwrap_or_default(),
        revision: answers().flat_map(|(_, said)| said).map(|m| m.progress.revision).max().unwrap_or_default(),
        request: annotations.and_then(|a| a.get(labels::DEFRAG)).filter(|value| !value.is_empty()).cloned(),
        last: s.etcd.status.as_ref().and_then(|status| status.upkeep.clone()),
        told: s.observed.told.clone(),
    }
}

fn room(s: &Subject<'_>, name: &str, said: &MemberProbe) -> Room {
    let mut progress = said.progress;
    if progress.quota == 0 {
        progress.quota = rendered_quota(s);
    }
    Room {
        name: name.to_owned(),
        id: said.member_id.clone(),
        leads: said.leader == said.member_id,
        size: progress.db_size,
        used: progress.db_size_in_use,
        quota: progress.quota,
        is_fragmented: progress.is_fragmented(),
    }
}
