//! No change is under way: is one to begin?

use super::{MemberStep, MembersView, quorum, with_member};
use berth_api::etcd_bootstrap::{MemberRecord, MemberStage, OperationKind, Phase, Record};
use berth_plan::observed::ListedMember;
use std::collections::BTreeSet;

/// First whoever lost its data, then whoever is too many, then whoever is missing.
pub(super) fn begin(view: &MembersView<'_>, list: &[ListedMember]) -> MemberStep {
    if let Some(newer) = newer(view, list) {
        return MemberStep::write(newer);
    }
    let record = match recorded(view, list) {
        Ok(record) => record,
        Err(stop) => return stop,
    };
    let (wanted, there) = (view.wanted, record.replicas);
    let members = record.bootstrap.members.iter();
    let listed: BTreeSet<String> =
        members.filter(|m| list.iter().any(|l| l.id == m.id)).map(|m| m.name.clone()).collect();
    // The one that is to go anyway is not replaced first.
    let last = view.member(there - 1);
    let goes = |name: &String| wanted < there && *name == last;
    let names: Vec<_> = (0..there).map(|i| view.member(i)).collect();
    let lost = |name: &&String| !listed.contains(*name) || view.fact(name).lost;
    if let Some(name) = names.iter().filter(|name| !goes(name)).find(lost).filter(|_| there > 1) {
        return replace(view, list, &record, name, listed.contains(name));
    }
    if wanted < there { shrink(view, list, &record, &last) } else { grow(view, list, &record) }
}

/// The record with all members in it, from what etcd lists if none was changed yet.
pub(super) fn recorded(view: &MembersView<'_>, list: &[ListedMember]) -> Result<Record, MemberStep> {
    let mut record = view.record.clone();
    let members = &mut record.bootstrap.members;
    if members.is_empty() {
        let listed = |name: String| {
            let listed = list.iter().find(|l| l.name == name);
            MemberRecord {
                id: listed.map(|l| l.id.clone()).unwrap_or_default(),
                peer_url: listed.and_then(|l| l.peer_urls.first().cloned()).unwrap_or_default(),
                stage: MemberStage::Voter,
                added: false,
                name,
            }
        };
        *members = (0..record.replicas).map(|i| listed(view.member(i))).collect();
    }
    match list.iter().find(|l| l.learner || !members.iter().any(|m| m.id == l.id)) {
        Some(stranger) => Err(MemberStep::Unknown(stranger.clone())),
        None => Ok(record),
    }
}

/// The record with IDs that are newer than its own: a quorum lists a voter under another one, and that member itself has it. Its guard let
/// nobody have it who was not on record then.
fn newer(view: &MembersView<'_>, list: &[ListedMember]) -> Option<Record> {
    let mut record = view.record.revise();
    for member in &mut record.bootstrap.members {
        let has = view.fact(&member.name).id;
        let is_new = |l: &&ListedMember| !l.learner && l.name == member.name && has.as_ref() == Some(&l.id);
        let is_listed = list.iter().any(|l| l.id == member.id);
        if let Some(new) = list.iter().find(is_new).filter(|_| !is_listed) {
            let peer_url = new.peer_urls.first().cloned().unwrap_or_default();
            let (id, stage) = (new.id.clone(), MemberStage::Voter);
            *member = MemberRecord { name: member.name.clone(), id, peer_url, stage, added: true };
        }
    }
    (record.bootstrap.members != view.record.bootstrap.members).then_some(record)
}

fn replace(view: &MembersView<'_>, list: &[ListedMember], record: &Record, name: &str, is_listed: bool) -> MemberStep {
    let voters = view.voters(list);
    let others = voters.iter().filter(|(other, well)| *other != name && **well).count();
    let needed = quorum(voters.keys().filter(|other| *other != name).count());
    // What is lost, and an alarm, is said elsewhere. A full database is no reason to wait: nobody makes room before all members are well.
    if !view.can_join || view.has_alarm {
        return MemberStep::Rest;
    }
    if others < needed {
        return MemberStep::Rest;
    }
    let before = record.bootstrap.member(name).cloned().unwrap_or_default();
    let (stage, phase) =
        if is_listed { (MemberStage::Leaving, Phase::Remove) } else { (MemberStage::Adding, Phase::Add) };
    let id = if is_listed { before.id } else { String::new() };
    let peer_url = view.fact(name).peer_url.unwrap_or(before.peer_url);
    let member = MemberRecord { name: name.to_owned(), id, peer_url, stage, added: before.added };
    let next = with_member(record, name, Some(member));
    MemberStep::write(next.begin(OperationKind::Replace, name, phase, view.now))
}

fn shrink(view: &MembersView<'_>, list: &[ListedMember], record: &Record, last: &str) -> MemberStep {
    let voters = view.voters(list);
    if let Some((ill, _)) = voters.iter().find(|(name, well)| *name != last && !**well) {
        return MemberStep::Wait(format!("member {ill} to be well; then Berth removes {last}"));
    }
    // Room is made first, unless the one that is to go keeps it from being made.
    if view.has_alarm || (view.is_full && view.fact(last).well) {
        return MemberStep::Rest;
    }
    if let Some(unfit) = view.unfit(list, last).filter(|_| !view.fact(last).lost) {
        return MemberStep::Wait(format!("member {last} to be removed: {unfit}"));
    }
    if !view.is_settled {
        return MemberStep::Wait(format!("changes of members' pods or volumes; after that Berth removes {last}"));
    }
    let leaving = record.bootstrap.member(last).map(|m| MemberRecord { stage: MemberStage::Leaving, ..m.clone() });
    MemberStep::write(with_member(record, last, leaving).begin(OperationKind::Shrink, last, Phase::Remove, view.now))
}

fn grow(view: &MembersView<'_>, list: &[ListedMember], record: &Record) -> MemberStep {
    let there = record.replicas;
    if view.wanted <= there || !view.can_join {
        return MemberStep::Rest;
    }
    let next = view.member(there);
    if let Some((ill, _)) = view.voters(list).iter().find(|(_, well)| !**well) {
        return MemberStep::Wait(format!("member {ill} to be well; then Berth adds {next}"));
    }
    if view.has_alarm || view.is_full {
        return MemberStep::Rest;
    }
    if !view.is_settled {
        return MemberStep::Wait(format!("changes of members' pods or volumes; after that Berth adds {next}"));
    }
    MemberStep::write(with_member(record, &next, None).begin(OperationKind::Grow, &next, Phase::Prepare, view.now))
}
