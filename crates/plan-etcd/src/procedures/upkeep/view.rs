//! What the upkeep of an etcd is decided from, as it was observed.

use super::decide::{Room, UpkeepView};
use crate::subject::Subject;
use berth_api::labels;
use berth_plan::observed::MemberProbe;
use kube_core::ResourceExt;

/// Size of the database, unless asked for: 2 GiB, as etcd's own default.
const QUOTA: i64 = 2 * 1024 * 1024 * 1024;

/// The quota that the templates get.
pub(crate) fn rendered_quota(s: &Subject<'_>) -> i64 {
    s.etcd.spec.quota_backend_bytes.unwrap_or(QUOTA)
}

/// The view of a reconcile; `is_well`: all members are, and nothing else is to be done to them.
pub(crate) fn view_upkeep(s: &Subject<'_>, is_well: bool) -> UpkeepView {
    let names = s.observed.etcd.iter().flat_map(|probe| probe.members.keys());
    UpkeepView {
        now: s.now,
        is_well,
        members: names.filter_map(|name| Some(room(s, name, s.said(name)?))).collect(),
        alarms: s.alarms().to_vec(),
        revision: s.answers().map(|m| m.progress.revision).max().unwrap_or_default(),
        request: s.etcd.annotations().get(labels::DEFRAG).filter(|value| !value.is_empty()).cloned(),
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
