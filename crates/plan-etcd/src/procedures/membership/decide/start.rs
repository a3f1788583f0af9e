//! No change is under way: is one to begin?

use super::{Journal, MemberStep, MembersView, quorum};
use berth_api::etcd_bootstrap::{MemberRecord, MemberStage, OperationKind, Phase};
use berth_plan::observed::ListedMember;
use std::collections::BTreeSet;

/// First whoever lost its data, then whoever is too many, then whoever is missing.
pub(super) fn begin(view: &MembersView<'_>, list: &[ListedMember]) -> MemberStep {
    if let Some(newer) = newer(view, list) {
        return MemberStep::Write(newer);
    }
    let journal = match journal(view, list) {
        Ok(journal) => journal,
        Err(stop) => return stop,
    };
    let (wanted, there) = (view.wanted, journal.replicas);
    let listed: BTreeSet<String> =
        journal.members.iter().filter(|m| list.iter().any(|l| l.id == m.id)).map(|m| m.name.clone()).collect();
    // The one that is to go anyway is not replaced first.
    let last = view.member(there - 1);
    let goes = |name: &String| wanted < there && *name == last;
    let names: Vec<_> = (0..there).map(|i| view.member(i)).collect();
    let lost = |name: &&String| !listed.contains(*name) || view.fact(name).lost;
    if let Some(name) = names.iter().filter(|name| !goes(name)).find(lost).filter(|_| there > 1) {
        return replace(view, list, &journal, name, listed.contains(name));
    }
    if wanted < there { shrink(view, list, &journal, &last) } else { grow(view, list, &journal) }
}

/// The record with all members in it, from what etcd lists if none was changed yet.
pub(super) fn journal(view: &MembersView<'_>, list: &[ListedMember]) -> Result<Journal, MemberStep> {
    let mut journal = view.journal.clone();
    if journal.members.is_empty() {
        let recorded = |name: String| {
            let listed = list.iter().find(|l| l.name == name);
            MemberRecord {
                id: listed.map(|l| l.id.clone()).unwrap_or_default(),
                peer_url: listed.and_then(|l| l.peer_urls.first().cloned()).unwrap_or_default(),
                stage: MemberStage::Voter,
                added: false,
                name,
            }
        };
        journal.members = (0..journal.replicas).map(|i| recorded(view.member(i))).collect();
    }
    match list.iter().find(|l| l.learner || !journal.members.iter().any(|m| m.id == l.id)) {
        Some(stranger) => Err(MemberStep::Unknown(stranger.clone())),
        None => Ok(journal),
    }
}

/// The record with IDs that are newer than its own: a quorum lists a voter under another one, and that member itself has it. Its guard let
/// nobody have it who was not on record then.
fn newer(view: &MembersView<'_>, list: &[ListedMember]) -> Option<Journal> {
    let mut journal = view.journal.clone();
    for member in &mut journal.members {
        let has = view.fact(&member.name).id;
        let is_new = |l: &&ListedMember| !l.learner && l.name == member.name && has.as_ref() == Some(&l.id);
        let is_listed = list.iter().any(|l| l.id == member.id);
        if let Some(new) = list.iter().find(is_new).filter(|_| !is_listed) {
            let peer_url = new.peer_urls.first().cloned().unwrap_or_default();
            let (id, stage) = (new.id.clone(), MemberStage::Voter);
            *member = MemberRecord { name: member.name.clone(), id, peer_url, stage, added: true };
        }
    }
    journal.serial += 1;
    (journal.members != view.journal.members).then_some(journal)
}

fn replace(
    view: &MembersView<'_>,
    list: &[ListedMember],
    journal: &Journal,
    name: &str,
    is_listed: bool,
) -> MemberStep {
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
    let record = journal.member(name).cloned().unwrap_or_default();
    let (stage, phase) =
        if is_listed { (MemberStage::Leaving, Phase::Remove) } else { (MemberStage::Adding, Phase::Add) };
    let id = if is_listed { record.id } else { String::new() };
    let peer_url = view.fact(name).peer_url.unwrap_or(record.peer_url);
    let record = MemberRecord { name: name.to_owned(), id, peer_url, stage, added: record.added };
    MemberStep::Write(journal.with(name, Some(record)).beginning(OperationKind::Replace, name, phase, view.now))
}

fn shrink(view: &MembersView<'_>, list: &[ListedMember], journal: &Journal, last: &str) -> MemberStep {
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
        return MemberStep::Wait(format!(
            "the pods or volumes of members that are being changed; after that Berth removes {last}"
        ));
    }
    let leaving = journal.member(last).map(|m| MemberRecord { stage: MemberStage::Leaving, ..m.clone() });
    MemberStep::Write(journal.with(last, leaving).beginning(OperationKind::Shrink, last, Phase::Remove, view.now))
}

fn grow(view: &MembersView<'_>, list: &[ListedMember], journal: &Journal) -> MemberStep {
    let there = journal.replicas;
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
        return MemberStep::Wait(format!(
            "the pods or volumes of members that are being changed; after that Berth adds {next}"
        ));
    }
    MemberStep::Write(journal.with(&next, None).beginning(OperationKind::Grow, &next, Phase::Prepare, view.now))
}
