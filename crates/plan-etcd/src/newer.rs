//! Volumes that are newer than the record: the objects of the meta cluster were put back to an earlier state, as from a backup, and etcd's
//! data was not. Their guards hold them, since they know only the record.
//!
//! Two things prove that it is the record that is old. A restore begins an epoch, and nothing else does: where the volumes of a majority are
//! of a later epoch, and nobody answers, too few are left that could serve what was before, and the record takes up their epoch. And where
//! a quorum lists a voter under another ID than the record has, and the member's own volume has that ID, the record takes up the ID
//! ([`super::membership`]). Data is touched by neither.

use super::subject::Subject;
use berth_api::etcd_bootstrap::{BootstrapState, FoundData};
use berth_plan::model::Action;
use berth_plan::workload::found_data;
use berth_render::Kind;

/// etcd's ID of a member: that with which it answers, or that which its guard found on the volume.
pub(super) fn id(s: &Subject<'_>, member: &str) -> Option<String> {
    let found = || match found_data(s.pod(member)?)? {
        FoundData::Id(id) => Some(id),
        FoundData::Of(_) => None,
    };
    s.said(member).map(|said| said.member_id.clone()).or_else(found)
}

/// The epoch of this cluster's data that the guard of a member found on its volume, if it is none that the record has.
fn epoch(s: &Subject<'_>, member: &str) -> Option<i64> {
    let FoundData::Of(found) = found_data(s.pod(member)?)? else { return None };
    (found.cluster_uid == s.record.bootstrap.cluster_uid && found.member == member).then_some(found.epoch)
}

/// Takes up the epoch of the volumes. Members are learned from etcd's list again, once it answers.
pub(super) fn take_up(s: &mut Subject<'_>) {
    if !s.acts() || s.record.operation.is_some() || s.answers().next().is_some() {
        return;
    }
    let members = s.members();
    let of = |epoch_: &i64| members.iter().filter(|m| epoch(s, m) == Some(*epoch_)).count() * 2 > members.len();
    let later = members.iter().filter_map(|m| epoch(s, m)).filter(|found| *found > s.record.bootstrap.epoch);
    let Some(epoch) = later.into_iter().find(of) else { return };
    let bootstrap = &mut s.record.bootstrap;
    (bootstrap.epoch, bootstrap.restored, bootstrap.state) = (epoch, true, BootstrapState::Established);
    bootstrap.serial += 1;
    bootstrap.joined.clear();
    bootstrap.members.clear();
    s.record.founders.get_or_insert(s.record.replicas);
    s.record.next = None;
}

/// Why a member does not run whose guard would let it by now.
pub(super) fn outdated(s: &Subject<'_>, member: &str) -> Option<String> {
    let bootstrap = &s.record.bootstrap;
    let what = match found_data(s.pod(member)?)? {
        FoundData::Id(id) => bootstrap.member(member).filter(|m| m.id == id).map(|_| format!("the ID {id}")),
        FoundData::Of(_) => epoch(s, member).filter(|e| *e == bootstrap.epoch).map(|epoch| format!("epoch {epoch}")),
    }?;
    Some(format!(
        "pod {member} restarts: the record now agrees with its volume ({what}), as after a restore of the meta cluster"
    ))
}

/// Another pod reads the record of now. Nothing runs in the one that is held.
pub(super) fn restart(s: &Subject<'_>) -> Option<Action> {
    let held = s.members().into_iter().find(|member| outdated(s, member).is_some())?;
    Some(Action::delete(&s.key(Kind::Pod, held.clone()), s.pod(&held)?, None))
}
