//! An etcd with its pods and volumes, as small as a search needs it.

use super::super::{Fact, MAX_LAG, MemberStep, MembersView, decide_members};
use berth_api::etcd_bootstrap::{MemberStage, OperationKind, Record};
use berth_plan::model::MemberChange;
use berth_plan::observed::ListedMember;
use berth_sim::etcd_members;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What is built in to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    None,
    /// A member is added with a vote.
    VoterFirst,
    /// Who is removed is found by its place in the list.
    VictimByIndex,
    /// A guard lets an empty volume start under the ID that the member had.
    EmptyUnderOldId,
    /// Whoever does not answer is taken for lost.
    ReplacesWhoIsAway,
    /// A learner gets its vote as soon as it runs.
    PromotesAtOnce,
    /// A call is made without the record.
    ForgetsTheRecord,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pod {
    /// Its guard found nothing on the volume.
    Held,
    /// etcd runs under that ID.
    Runs(String),
    /// It was cut off, or is restarting.
    Away,
    /// etcd ends each time: it began anew under an ID that had data, and its leader counts on what it acknowledged; or it is told of other
    /// members than there are.
    Crashes,
    /// The node with its volume is gone: it finds none to run on.
    Stranded,
}

/// What is on a volume that no node has any more.
pub(super) const GONE: &str = "gone";

/// All that there is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    pub(super) wanted: i32,
    pub(super) record: Record,
    pub(super) list: Vec<ListedMember>,
    pub(super) leader: String,
    pub(super) pods: BTreeMap<i32, Pod>,
    /// The ID whose data is on the volume. Without an entry there is no claim; without an ID it is empty.
    pub(super) volumes: BTreeMap<i32, Option<String>>,
    /// Learners that have all data.
    pub(super) caught_up: Vec<String>,
    /// A call that etcd may still carry out although nobody waits for it any more.
    pub(super) late: Option<MemberChange>,
    /// NOSPACE is raised.
    pub(super) is_full: bool,
    pub(super) faults: u32,
    /// Members that were ever added: none of them has the ID of another.
    pub(super) added: u32,
}

pub(super) const NAME: &str = "e";

fn name(ordinal: i32) -> String {
    format!("{NAME}-{ordinal}")
}

fn url(ordinal: i32) -> String {
    format!("https://{}", name(ordinal))
}

impl State {
    pub(super) fn new(from: i32, to: i32, faults: u32) -> Self {
        let id = |i: i32| format!("a{i}");
        let listed = |i| ListedMember { name: name(i), id: id(i), peer_urls: vec![url(i)], learner: false };
        Self {
            wanted: to,
            record: Record { replicas: from, ..Record::default() },
            // In an order that is not that of the names, as etcd sorts by ID.
            list: (0..from).rev().map(listed).collect(),
            leader: id(0),
            pods: (0..from).map(|i| (i, Pod::Runs(id(i)))).collect(),
            volumes: (0..from).map(|i| (i, Some(id(i)))).collect(),
            caught_up: vec![],
            late: None,
            is_full: false,
            faults,
            added: 0,
        }
    }

    /// IDs of members that run.
    fn up(&self) -> Vec<String> {
        self.pods.values().filter_map(|pod| if let Pod::Runs(id) = pod { Some(id.clone()) } else { None }).collect()
    }

    /// Voters that run, voters whose data is there, and voters.
    pub(super) fn voters(&self) -> (usize, usize, usize) {
        let voters: Vec<_> = self.list.iter().filter(|m| !m.learner).collect();
        let up = self.up();
        let has = |m: &&&ListedMember| self.volumes.values().flatten().any(|id| *id == m.id);
        (voters.iter().filter(|m| up.contains(&m.id)).count(), voters.iter().filter(has).count(), voters.len())
    }

    pub(super) fn has_quorum(&self) -> bool {
        let (up, _, of) = self.voters();
        up * 2 > of
    }

    pub(super) fn decide(&self, bug: Bug) -> MemberStep {
        let has_quorum = self.has_quorum();
        let stranded = |i: i32| {
            let is_there = self.volumes.get(&i).is_some_and(|id| id.as_deref() == Some(GONE));
            self.pods.get(&i) == Some(&Pod::Stranded) && is_there
        };
        let fact = |i: i32| {
            let running = match self.pods.get(&i) {
                Some(Pod::Runs(id)) => self.list.iter().find(|m| m.id == *id),
                _ => None,
            };
            let caught_up = running.is_some_and(|m| !m.learner || self.caught_up.contains(&m.id));
            let lag = if caught_up || bug == Bug::PromotesAtOnce { 0 } else { MAX_LAG };
            let away = bug == Bug::ReplacesWhoIsAway && self.pods.get(&i) == Some(&Pod::Away);
            Fact {
                well: running.is_some() && has_quorum,
                leads: running.is_some_and(|m| m.id == self.leader),
                id: running.map(|m| m.id.clone()),
                lag: running.map(|_| lag),
                lost: self.pods.get(&i) == Some(&Pod::Held) || away || stranded(i),
                stranded: stranded(i),
                crashes: self.pods.get(&i) == Some(&Pod::Crashes),
                unplaced: self.pods.get(&i) == Some(&Pod::Stranded),
                pod: self.pods.contains_key(&i),
                pod_ends: false,
                claim: self.volumes.contains_key(&i).then_some(false),
                peer_url: Some(url(i)),
            }
        };
        let view = MembersView {
            name: NAME,
            now: Timestamp::from_second(3600).unwrap(),
            wanted: self.wanted,
            is_formed: true,
            can_join: true,
            is_settled: true,
            has_one_leader: true,
            has_alarm: false,
            is_full: self.is_full,
            record: &self.record,
            list: has_quorum.then(|| self.list.clone()),
            facts: (0..5).map(|i| (name(i), fact(i))).collect(),
        };
        let step = decide_members(&view);
        match (bug, step) {
            (Bug::VictimByIndex, MemberStep::Call { via, change: MemberChange::Remove { .. } }) => {
                let target = self.record.operation.as_ref().map(|o| o.target.clone()).unwrap_or_default();
                let at = target.strip_prefix("e-").and_then(|n| n.parse::<usize>().ok()).unwrap_or_default();
                MemberStep::Call {
                    via,
                    change: MemberChange::Remove { id: self.list[at.min(self.list.len() - 1)].id.clone() },
                }
            }
            (Bug::ForgetsTheRecord, MemberStep::Write(next)) if self.list.iter().all(|m| !m.learner) => {
                match next.bootstrap.members.iter().find(|m| m.stage == MemberStage::Adding) {
                    Some(added) => MemberStep::Call {
                        via: name(0),
                        change: MemberChange::AddLearner { peer_url: added.peer_url.clone() },
                    },
                    None => MemberStep::Write(next),
                }
            }
            (_, step) => step,
        }
    }

    /// What the operator does to the world. Err: it must never do that.
    pub(super) fn carry_out(&mut self, step: &MemberStep, bug: Bug) -> Result<(), String> {
        match step {
            MemberStep::Rest if self.is_whole() => self.is_full = false,
            MemberStep::Rest
            | MemberStep::Wait(_)
            | MemberStep::Going(_)
            | MemberStep::Stop(..)
            | MemberStep::Unknown(_) => {}
            MemberStep::Write(record) => self.write(record),
            MemberStep::ReplacePod(member) => _ = self.pods.insert(ordinal(member), Pod::Away),
            MemberStep::DeleteClaim(member) => {
                let id = self.volumes.remove(&ordinal(member)).flatten();
                let shrinks = self.record.under_way(OperationKind::Shrink).is_some();
                if shrinks && !self.all_are_up("") {
                    return Err(format!("the volume of {member} is deleted, and one that stays is away"));
                }
                if id.is_some_and(|id| self.list.iter().any(|m| m.id == id)) {
                    return Err(format!("the volume of {member}, which is a member, is deleted"));
                }
            }
            MemberStep::Call { change, .. } => {
                self.judge(change)?;
                self.call(change, bug)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, record: &Record) {
        self.record = record.clone();
        // Otherwise no state would ever be the same as another.
        self.record.bootstrap.serial = 1;
        if let Some(operation) = &mut self.record.operation {
            (operation.id, operation.since) = (1, Time(Timestamp::UNIX_EPOCH));
        }
    }

    /// All voters but that one.
    fn all_are_up(&self, but: &str) -> bool {
        let up = self.up();
        self.list.iter().all(|m| m.learner || m.id == but || up.contains(&m.id))
    }

    /// What must hold of a call before it is made.
    fn judge(&self, change: &MemberChange) -> Result<(), String> {
        let recorded = |id: &str| self.record.bootstrap.members.iter().find(|m| m.id == *id);
        match change {
            MemberChange::AddLearner { peer_url } => {
                let on_record = self
                    .record
                    .bootstrap
                    .members
                    .iter()
                    .any(|m| m.stage == MemberStage::Adding && m.peer_url == *peer_url);
                if !on_record {
                    return Err(format!("{peer_url} is added and is not on record"));
                }
            }
            MemberChange::Promote { id } => {
                if !self.caught_up.contains(id) {
                    return Err(format!("{id} is promoted and has not caught up"));
                }
                if recorded(id).is_none_or(|m| m.stage != MemberStage::Voter) {
                    return Err(format!("{id} is promoted and is not on record"));
                }
            }
            MemberChange::Remove { id } => {
                let shrinks = self.record.under_way(OperationKind::Shrink).is_some();
                let learner = self.list.iter().any(|m| m.id == *id && m.learner);
                if !shrinks && !learner && self.volumes.values().flatten().any(|there| there == id) {
                    return Err(format!("{id} is removed, whose data is there"));
                }
                let goes = self.list.iter().find(|m| m.id == *id && !m.learner && self.up().contains(id));
                if shrinks && goes.is_some() && !self.all_are_up(id) {
                    return Err(format!("{id} is removed, and one that stays is away"));
                }
                if recorded(id).is_none_or(|m| m.stage != MemberStage::Leaving) {
                    return Err(format!("{id} is removed and is not on record"));
                }
            }
            MemberChange::MoveLeader { .. } => {}
        }
        Ok(())
    }

    /// What etcd makes of a call.
    pub(super) fn call(&mut self, change: &MemberChange, bug: Bug) -> Result<(), String> {
        let (had, up) = (self.has_quorum(), self.up());
        // What etcd refuses changes nothing.
        let new_id = format!("f{}", self.added);
        let grows = self.record.under_way(OperationKind::Grow).is_some();
        let is_away = |m: &ListedMember| !m.learner && !up.contains(&m.id);
        if grows && matches!(change, MemberChange::AddLearner { .. }) && self.list.iter().any(is_away) {
            // "unhealthy cluster". Also where one is replaced, which this leaves out.
            return Ok(());
        }
        match etcd_members::apply(&mut self.list, &up, change, &new_id) {
            Ok(Some(leader)) => self.leader = leader,
            Ok(None) if matches!(change, MemberChange::AddLearner { .. }) => self.added += 1,
            Ok(None) | Err(_) => {}
        }
        if let (Bug::VoterFirst, MemberChange::AddLearner { .. }) = (bug, change) {
            self.list.iter_mut().for_each(|m| m.learner = false);
        }
        if had && !self.has_quorum() {
            return Err(format!("after {} etcd has no quorum any more", change.describe()));
        }
        if self.list.iter().filter(|m| m.learner).count() > 1 {
            return Err("there are two learners".to_owned());
        }
        Ok(())
    }

    /// Kubernetes' controllers, kubelets and etcd do what there is for them to do.
    pub(super) fn tick(&mut self, bug: Bug) -> Result<(), String> {
        let replicas = self.record.replicas;
        self.pods.retain(|i, _| *i < replicas);
        for i in 0..replicas {
            self.volumes.entry(i).or_insert(None);
            self.pods.entry(i).or_insert(Pod::Away);
        }
        let ids: Vec<_> = self.list.iter().map(|m| m.id.clone()).collect();
        for (i, pod) in &mut self.pods {
            let recorded = self.record.bootstrap.member(&name(*i));
            // Another claim can be anywhere; a pod that is made anew has the claim that there was.
            let is_gone = self.volumes.get(i).is_some_and(|id| id.as_deref() == Some(GONE));
            match pod {
                Pod::Stranded if !is_gone => *pod = Pod::Away,
                _ if is_gone => *pod = Pod::Stranded,
                _ => {}
            }
            // A pod that is held reads the record only when it is replaced.
            if matches!(pod, Pod::Away | Pod::Crashes) {
                let volume = self.volumes.entry(*i).or_insert(None);
                let joins = recorded.filter(|m| m.stage == MemberStage::Joining);
                let began = |id: &str| self.list.iter().any(|m| m.id == id && !m.name.is_empty());
                // Whoever joins has to name all members.
                let named = self.record.bootstrap.members.iter().map(|m| m.id.clone()).filter(|id| !id.is_empty());
                let names_all = named.collect::<BTreeSet<_>>() == ids.iter().cloned().collect();
                if joins.is_some_and(|m| *volume != Some(m.id.clone()) && (began(&m.id) || !names_all)) {
                    *pod = Pod::Crashes;
                    continue;
                }
                match joins {
                    Some(joins) => *volume = Some(joins.id.clone()),
                    None if bug == Bug::EmptyUnderOldId && volume.is_none() => {
                        let old = self.list.iter().find(|m| m.peer_urls.contains(&url(*i))).map(|m| m.id.clone());
                        if old.as_ref().is_some_and(|old| self.list.iter().any(|m| m.id == *old && !m.learner)) {
                            return Err(format!("{} starts empty under the ID {old:?}", name(*i)));
                        }
                    }
                    None => {}
                }
                *pod = volume.clone().map_or(Pod::Held, Pod::Runs);
            }
            // Whoever was removed ends.
            if let Pod::Runs(id) = pod
                && !ids.contains(id)
            {
                *pod = Pod::Away;
            }
        }
        let up = self.up();
        for member in &mut self.list {
            if up.contains(&member.id) && member.name.is_empty() {
                let at = member.peer_urls.first().and_then(|url| url.strip_prefix("https://")).unwrap_or_default();
                member.name = at.to_owned();
            } else if member.learner && up.contains(&member.id) && !self.caught_up.contains(&member.id) {
                self.caught_up.push(member.id.clone());
            }
        }
        self.caught_up.retain(|id| ids.contains(id));
        if !self.list.iter().any(|m| m.id == self.leader && !m.learner && up.contains(&m.id)) {
            let next = self.list.iter().find(|m| !m.learner && up.contains(&m.id));
            self.leader = next.map(|m| m.id.clone()).unwrap_or_default();
        }
        Ok(())
    }

    /// Nothing is under way, and all members that there are to be run: room is made.
    fn is_whole(&self) -> bool {
        let (up, _, of) = self.voters();
        let replicas = usize::try_from(self.record.replicas).unwrap();
        self.record.operation.is_none() && self.list.len() == replicas && (up, of) == (replicas, replicas)
    }

    /// Whether it is as asked for.
    pub(super) fn is_done(&self) -> bool {
        self.is_whole() && self.record.replicas == self.wanted && !self.is_full
    }
}

fn ordinal(member: &str) -> i32 {
    member.strip_prefix("e-").unwrap().parse().unwrap()
}
