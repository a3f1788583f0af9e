//! Decides which member comes, goes or is replaced next.

mod operation;
mod start;

#[cfg(test)]
mod tests;

use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{MemberRecord, OperationKind, Record};
use berth_api::names;
use berth_plan::model::MemberChange;
use berth_plan::observed::ListedMember;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// A learner may be so many entries of the log behind its leader when it gets its vote, and a member that stays when another one goes. etcd
/// itself asks only for 90 % of the log.
pub(crate) const MAX_LAG: u64 = 1000;

/// Seconds between the two looks that must find a learner close enough.
pub(crate) const BETWEEN_LOOKS: i64 = 2;

/// The next record, in which that member is as given; None: it is not in it any more.
fn with_member(record: &Record, name: &str, member: Option<MemberRecord>) -> Record {
    let mut next = record.revise();
    let members = &mut next.bootstrap.members;
    match (members.iter().position(|m| m.name == name), member) {
        (Some(at), Some(member)) => members[at] = member,
        (Some(at), None) => _ = members.remove(at),
        (None, Some(member)) => members.push(member),
        (None, None) => {}
    }
    next
}

/// Seconds after which a member that does not come is looked at otherwise.
pub(crate) const LONG: i64 = 600;

/// Seconds within which etcd may still carry out a call that nobody waits for any more.
pub(crate) const LATE: i64 = 15;

/// What is known of a member beside what etcd lists.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fact {
    /// It answers, has a leader, and is of this cluster: it does what etcd lists it for.
    pub(crate) well: bool,
    /// It leads.
    pub(crate) leads: bool,
    /// The ID with which it answers, or that its guard found on its volume.
    pub(crate) id: Option<String>,
    /// Entries of the log that it has not applied yet, of those that its leader has.
    pub(crate) lag: Option<u64>,
    /// Its data is gone: its guard found the volume without it, the node with the volume does not come back, or it differs from what the
    /// majority has.
    pub(crate) lost: bool,
    /// The node with its volume does not come back: it needs another claim.
    pub(crate) stranded: bool,
    /// Its container ends each time that it starts.
    pub(crate) crashes: bool,
    /// Its pod finds no node.
    pub(crate) unplaced: bool,
    /// It has a pod.
    pub(crate) pod: bool,
    /// Its pod is being deleted.
    pub(crate) pod_ends: bool,
    /// It has a claim; `Some(true)`: which is being deleted.
    pub(crate) claim: Option<bool>,
    /// Where peers are to reach it, once its Service has an address.
    pub(crate) peer_url: Option<String>,
}

/// What a decision is made from.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct MembersView<'a> {
    /// Name of the etcd.
    pub(crate) name: &'a str,
    pub(crate) now: Timestamp,
    /// `spec.replicas`.
    pub(crate) wanted: i32,
    /// All members were seen together once.
    pub(crate) is_formed: bool,
    /// The members' guard lets one join; those of earlier builds do not.
    pub(crate) can_join: bool,
    /// Nothing else goes on: no pod is replaced, no claim is being deleted.
    pub(crate) is_settled: bool,
    /// An alarm for which no member is changed. NOSPACE is none: changes of members are no writes to the database.
    pub(crate) has_alarm: bool,
    /// NOSPACE is raised. What makes room needs all members, and nobody else at work: so no change begins before it that can wait.
    pub(crate) is_full: bool,
    /// Nobody names another leader than the others: they are not parts of a cluster that was torn.
    pub(crate) has_one_leader: bool,
    pub(crate) record: &'a Record,
    /// None: no quorum answered.
    pub(crate) list: Option<Vec<ListedMember>>,
    /// By name.
    pub(crate) facts: BTreeMap<String, Fact>,
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum MemberStep {
    /// All is as it should be, or nothing is known.
    #[default]
    Rest,
    /// For what people read.
    Wait(String),
    /// What goes on, in a sentence of its own.
    Going(String),
    /// Nothing is changed until a person does something.
    Stop(Reason, String),
    /// etcd lists one that is not on record: nothing is changed until it is gone.
    Unknown(ListedMember),
    /// The record first.
    Write(Box<Record>),
    /// etcd is told.
    Call { via: String, change: MemberChange },
    /// Another pod reads what is on record by now.
    ReplacePod(String),
    /// The volume of a member that is gone.
    DeleteClaim(String),
}

/// The next step.
pub(crate) fn decide_members(view: &MembersView<'_>) -> MemberStep {
    let Some(list) = view.list.as_ref().filter(|_| view.is_formed) else { return MemberStep::Rest };
    if view.record.under_way(OperationKind::Upgrade).is_some() {
        return MemberStep::Rest;
    }
    let step = match &view.record.operation {
        Some(operation) => operation::go_on(view, list, operation),
        None => start::begin(view, list),
    };
    match step {
        MemberStep::Write(_) | MemberStep::Call { .. } | MemberStep::ReplacePod(_) | MemberStep::DeleteClaim(_)
            if !view.has_one_leader =>
        {
            let on = "the members to agree on a leader; if they do not, some have older data of this etcd";
            MemberStep::Wait(on.to_owned())
        }
        step => step,
    }
}

/// All members, as the record is to have them. None: etcd lists what is not to be there.
pub(crate) fn recorded(view: &MembersView<'_>) -> Option<Vec<MemberRecord>> {
    start::recorded(view, view.list.as_ref()?).ok().map(|record| record.bootstrap.members)
}

/// A majority of so many.
fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

impl MemberStep {
    fn write(record: Record) -> Self {
        Self::Write(Box::new(record))
    }
}

impl MembersView<'_> {
    fn fact(&self, name: &str) -> Fact {
        self.facts.get(name).cloned().unwrap_or_default()
    }

    fn member(&self, ordinal: i32) -> String {
        names::etcd::member(self.name, ordinal)
    }

    fn ordinal(&self, member: &str) -> i32 {
        names::etcd::ordinal(self.name, member).unwrap_or(i32::MAX)
    }

    /// The name of a listed member: as it is on record, or as it says itself.
    fn name_of(&self, listed: &ListedMember) -> String {
        let recorded = self.record.bootstrap.members.iter().find(|m| m.id == listed.id);
        recorded.map_or_else(|| listed.name.clone(), |m| m.name.clone())
    }

    /// Voters by name, and whether they are well.
    fn voters(&self, list: &[ListedMember]) -> BTreeMap<String, bool> {
        let voters = list.iter().filter(|m| !m.learner).map(|m| self.name_of(m));
        voters.map(|name| (name.clone(), self.fact(&name).well)).collect()
    }

    /// Why a member cannot be spared, nor its volume: of those who stay not all have what it has.
    fn unfit(&self, list: &[ListedMember], leaving: &str) -> Option<String> {
        let facts = self.voters(list).into_keys().filter(|name| name != leaving).map(|name| (self.fact(&name), name));
        facts.into_iter().find_map(|(fact, name)| match (fact.claim, fact.lag) {
            (None, _) => Some(format!("PersistentVolumeClaim data-{name} of a member that stays does not exist")),
            (Some(true), _) => {
                Some(format!("PersistentVolumeClaim data-{name} of a member that stays is being deleted"))
            }
            _ if !fact.well => Some(format!("member {name}, which stays, is not well")),
            (_, Some(lag)) if lag < MAX_LAG => None,
            _ => Some(format!("member {name}, which stays, has not caught up with its leader")),
        })
    }

    /// Who is told: the leader, which has to be a voter that stays.
    fn leader(&self, list: &[ListedMember], but: &str) -> Option<String> {
        let voters = self.voters(list);
        voters.into_keys().find(|name| name != but && self.fact(name).well && self.fact(name).leads)
    }
}
