//! A change is under way: its next step.

use super::{BETWEEN_LOOKS, Fact, LATE, LONG, MAX_LAG, MemberStep, MembersView, quorum, with_member};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{MemberRecord, MemberStage, Operation, OperationKind, Phase, Record};
use berth_plan::model::MemberChange;
use berth_plan::observed::ListedMember;

/// The change with what it is about.
struct Change<'a> {
    view: &'a MembersView<'a>,
    list: &'a [ListedMember],
    operation: &'a Operation,
    /// The member, as it is on record.
    member: Option<&'a MemberRecord>,
    /// As etcd lists it.
    listed: Option<&'a ListedMember>,
    fact: Fact,
}

pub(super) fn go_on(view: &MembersView<'_>, list: &[ListedMember], operation: &Operation) -> MemberStep {
    let target = &operation.target;
    let recorded = &view.record.bootstrap;
    let member = recorded.member(target);
    let listed = list.iter().find(|l| member.is_some_and(|m| is_of(l, m)));
    let known = |l: &ListedMember| recorded.members.iter().any(|m| is_of(l, m));
    if let Some(stranger) = list.iter().find(|l| !known(l)) {
        return MemberStep::Unknown(stranger.clone());
    }
    let newer = member.is_some_and(|m| m.stage == MemberStage::Other)
        || matches!(operation.kind, OperationKind::Restore | OperationKind::Upgrade | OperationKind::Other);
    if newer {
        return MemberStep::Stop(
            Reason::VersionUnsupported,
            format!(
                "a newer operator began a change of member {target} that this one does not know. Run that version again; until then Berth changes no member"
            ),
        );
    }
    // What a person did meanwhile: whoever joins has to name those that etcd lists, where it lists them.
    let others = || recorded.members.iter().filter(|m| !m.id.is_empty() && m.name != *target);
    if let Some(gone) = others().find(|m| !list.iter().any(|l| l.id == m.id)) {
        let gone = MemberRecord { id: String::new(), ..gone.clone() };
        return MemberStep::write(with_member(view.record, &gone.name.clone(), Some(gone)));
    }
    let moved = |m: &&MemberRecord| {
        let listed = list.iter().find(|l| l.id == m.id);
        listed.is_some_and(|l| !l.peer_urls.is_empty() && !l.peer_urls.contains(&m.peer_url))
    };
    if let Some((member, listed)) = others().find(moved).and_then(|m| Some((m, list.iter().find(|l| l.id == m.id)?))) {
        let member = MemberRecord { peer_url: listed.peer_urls[0].clone(), ..member.clone() };
        return MemberStep::write(with_member(view.record, &member.name.clone(), Some(member)));
    }
    let change = Change { view, list, operation, member, listed, fact: view.fact(target) };
    if let Some(step) = change.turned_back() {
        return step;
    }
    match member.map(|m| m.stage) {
        None if operation.kind == OperationKind::Shrink => change.clean_up(),
        None => change.prepared(),
        Some(MemberStage::Adding) => change.added(),
        Some(MemberStage::Joining) => change.joined(),
        Some(MemberStage::Leaving) => change.removed(),
        Some(MemberStage::Voter | MemberStage::Other) => change.promoted(),
    }
}

/// By its ID; or, until etcd has given it one, a learner at its peer URL.
fn is_of(listed: &ListedMember, record: &MemberRecord) -> bool {
    if record.id.is_empty() {
        listed.learner && listed.peer_urls.contains(&record.peer_url)
    } else {
        listed.id == record.id
    }
}

impl Change<'_> {
    fn name(&self) -> &str {
        &self.operation.target
    }

    /// The next record, with the member as given.
    fn with(&self, member: Option<MemberRecord>) -> Record {
        with_member(self.view.record, self.name(), member)
    }

    /// The record with the member at that stage, under that ID.
    fn stage(&self, stage: MemberStage, id: &str) -> Record {
        let old = self.member.cloned().unwrap_or_default();
        let peer_url = match stage {
            MemberStage::Adding => self.fact.peer_url.clone().unwrap_or(old.peer_url),
            _ => old.peer_url,
        };
        let added = old.added || stage == MemberStage::Joining;
        self.with(Some(MemberRecord { name: self.name().to_owned(), id: id.to_owned(), peer_url, stage, added }))
    }

    /// On to the next step, with the member at that stage, under that ID.
    fn advance(&self, stage: MemberStage, id: &str, phase: Phase) -> MemberStep {
        MemberStep::write(self.stage(stage, id).advance(phase, self.view.now))
    }

    fn wait(&self, on: impl AsRef<str>) -> MemberStep {
        let what = match self.operation.kind {
            OperationKind::Grow => "added",
            OperationKind::Replace => "replaced",
            _ => "removed",
        };
        let (name, on, way_out) = (self.name(), on.as_ref(), self.way_out());
        if self.is_removed_by_hand() {
            return MemberStep::Going(format!(
                "somebody removed {name}; Berth adds it again under another ID: {on}{way_out}"
            ));
        }
        MemberStep::Wait(format!("member {name} to be {what}: {on}{way_out}"))
    }

    /// Whether etcd listed it no more when this began. Each step is a write of the record: where Berth removes a member, there is one more
    /// before it is added. Other writes meanwhile make this forget.
    fn is_removed_by_hand(&self) -> bool {
        let steps = match self.member.map(|m| m.stage) {
            Some(MemberStage::Adding) => 0,
            Some(MemberStage::Joining) => 1,
            Some(MemberStage::Voter) => 2,
            _ => return false,
        };
        self.operation.kind == OperationKind::Replace && self.view.record.bootstrap.serial - self.operation.id == steps
    }

    /// What helps against a member that does not come.
    fn way_out(&self) -> &'static str {
        let comes = self.member.is_some_and(|r| matches!(r.stage, MemberStage::Adding | MemberStage::Joining));
        match self.operation.kind {
            _ if !comes || !self.is_late(LONG) => "",
            OperationKind::Grow => {
                ", for more than 10 minutes. It has no vote and harms nothing; see its pod. Setting spec.replicas back removes it"
            }
            _ => ", for more than 10 minutes. It has no vote and harms nothing; see its pod. The others serve",
        }
    }

    /// Whether it has been at this step for so many seconds.
    fn is_late(&self, seconds: i64) -> bool {
        self.view.now.duration_since(self.operation.since.0).as_secs() >= seconds
    }

    /// Why etcd is not told now: it would lose its quorum, or there is nobody to tell.
    fn call(&self, healthy_of: (usize, usize), change: MemberChange) -> MemberStep {
        let (healthy, needed) = healthy_of;
        if healthy < needed {
            return self.wait(format!("{needed} members have to be well, and {healthy} are"));
        }
        if self.view.has_alarm {
            return MemberStep::Rest;
        }
        match self
            .view
            .leader(self.list, if matches!(change, MemberChange::MoveLeader { .. }) { "" } else { self.name() })
        {
            Some(via) => MemberStep::Call { via, change },
            None => self.wait("there is no leader at the moment"),
        }
    }

    /// Another member lost its data, or is none any more.
    fn other_is_lost(&self) -> bool {
        let is_lost = |m: &MemberRecord| m.id.is_empty() || self.view.fact(&m.name).lost;
        self.view.record.bootstrap.members.iter().any(|m| m.name != self.name() && is_lost(m))
    }

    /// The spec asks for less than what is being added, or for what is being removed; or another member lost its data, and comes first.
    fn turned_back(&self) -> Option<MemberStep> {
        let (view, now) = (self.view, self.view.now);
        let wanted = view.ordinal(self.name()) < view.wanted;
        let is_last = view.ordinal(self.name()) == view.record.replicas - 1;
        let stage = self.member.map(|m| m.stage);
        let other_is_lost = self.other_is_lost();
        let is_unheard =
            self.operation.kind == OperationKind::Grow && stage == Some(MemberStage::Adding) && self.listed.is_none();
        match (self.operation.kind, stage) {
            (OperationKind::Grow, None) if !wanted || other_is_lost => Some(MemberStep::write(self.with(None).end())),
            // etcd adds nobody while a member is away, and one that lost its data stays away until it is replaced.
            (OperationKind::Grow | OperationKind::Replace, Some(MemberStage::Adding | MemberStage::Joining))
                if (!wanted && (is_last || self.operation.kind == OperationKind::Grow))
                    || (is_unheard && other_is_lost) =>
            {
                let id = self.listed.map(|l| l.id.clone()).or_else(|| self.member.map(|r| r.id.clone()));
                let next = self.stage(MemberStage::Leaving, &id.unwrap_or_default());
                Some(MemberStep::write(next.begin(OperationKind::Shrink, self.name(), Phase::Remove, now)))
            }
            (OperationKind::Shrink, Some(MemberStage::Leaving))
                if (wanted || other_is_lost) && self.listed.is_some_and(|l| !l.learner) && !self.fact.lost =>
            {
                Some(MemberStep::write(self.stage(MemberStage::Voter, &self.member?.id).end()))
            }
            _ => None,
        }
    }

    /// It has an address, which is in the certificates.
    fn prepared(&self) -> MemberStep {
        match &self.fact.peer_url {
            Some(_) => self.advance(MemberStage::Adding, "", Phase::Add),
            None => self.wait("its Service has no address yet"),
        }
    }

    /// etcd lists it as a learner.
    fn added(&self) -> MemberStep {
        if let Some(listed) = self.listed {
            let mut next = self.stage(MemberStage::Joining, &listed.id).advance(Phase::Start, self.view.now);
            next.replicas = next.replicas.max(self.view.ordinal(self.name()).saturating_add(1));
            return MemberStep::write(next);
        }
        if let Some(other) = self.list.iter().find(|l| l.learner) {
            return MemberStep::Unknown(other.clone());
        }
        let voters = self.view.voters(self.list);
        let healthy = voters.values().filter(|well| **well).count();
        let peer_url = self.member.map(|r| r.peer_url.clone()).unwrap_or_default();
        self.call((healthy, quorum(voters.len())), MemberChange::AddLearner { peer_url })
    }

    /// It runs and has caught up.
    fn joined(&self) -> MemberStep {
        let Some(listed) = self.listed else {
            return self.advance(MemberStage::Adding, "", Phase::Add);
        };
        let votes = || self.advance(MemberStage::Voter, &listed.id, Phase::Promote);
        if !listed.learner {
            return votes();
        }
        if let Some(step) = self.elsewhere() {
            return step;
        }
        if self.fact.lost {
            // Its guard was told something older.
            return if self.fact.pod_ends {
                self.wait("its pod is being replaced")
            } else {
                MemberStep::ReplacePod(self.name().to_owned())
            };
        }
        if self.fact.crashes && !listed.name.is_empty() && self.is_late(LONG) {
            // It ran once. Under this ID its leader counts on what it acknowledged, and a volume that is empty again has none of it.
            return self.advance(MemberStage::Leaving, &listed.id, Phase::Remove);
        }
        match self.has_caught_up(listed) {
            Ok(()) => votes(),
            Err(wait) => wait,
        }
    }

    /// Its volume is on a node that does not come back: nothing of it is this member's any more, and on another one it can be anywhere.
    fn elsewhere(&self) -> Option<MemberStep> {
        match self.fact.claim {
            Some(false) if self.fact.stranded => Some(MemberStep::DeleteClaim(self.name().to_owned())),
            // The StatefulSet makes a claim for a pod that it makes.
            None if self.fact.unplaced => Some(MemberStep::ReplacePod(self.name().to_owned())),
            _ => None,
        }
    }

    fn has_caught_up(&self, listed: &ListedMember) -> Result<(), MemberStep> {
        if listed.name.is_empty() || !self.fact.well {
            return Err(self.wait("it has not started yet"));
        }
        match self.fact.lag {
            Some(lag) if lag < MAX_LAG => Ok(()),
            // How far it is changes all the time, and a message with it would be a write each time.
            _ => Err(self.wait("it copies the data")),
        }
    }

    /// It votes.
    fn promoted(&self) -> MemberStep {
        let (now, Some(listed)) = (self.view.now, self.listed) else {
            return self.advance(MemberStage::Adding, "", Phase::Add);
        };
        if !listed.learner {
            return MemberStep::write(self.with(self.member.cloned()).end());
        }
        if self.fact.lost {
            let next = self.stage(MemberStage::Leaving, &listed.id);
            return MemberStep::write(next.begin(OperationKind::Replace, self.name(), Phase::Remove, now));
        }
        if let Err(wait) = self.has_caught_up(listed) {
            return wait;
        }
        if !self.is_late(BETWEEN_LOOKS) {
            return self.wait("it has caught up; its promotion follows");
        }
        let voters = self.view.voters(self.list);
        let healthy = voters.values().filter(|well| **well).count();
        self.call((healthy + 1, quorum(voters.len() + 1)), MemberChange::Promote { id: listed.id.clone() })
    }

    /// etcd lists it no more.
    fn removed(&self) -> MemberStep {
        let (view, now) = (self.view, self.view.now);
        let replaces = self.operation.kind != OperationKind::Shrink;
        let Some(listed) = self.listed else {
            if replaces {
                return self.advance(MemberStage::Adding, "", Phase::Add);
            }
            if self.member.is_some_and(|r| r.id.is_empty()) && !self.is_late(LATE) {
                return self
                    .wait(format!("the call that adds {} got no answer, and may still take effect", self.name()));
            }
            let mut next = self.with(None).advance(Phase::CleanUp, now);
            next.replicas = next.replicas.min(view.ordinal(self.name()));
            return MemberStep::write(next);
        };
        if self.member.is_some_and(|r| r.id != listed.id) {
            // Nobody heard that it was added before it was turned back.
            return MemberStep::write(self.stage(MemberStage::Leaving, &listed.id));
        }
        if replaces && self.fact.well && !self.fact.lost && !listed.learner {
            // Its data is back.
            return MemberStep::write(self.stage(MemberStage::Voter, &listed.id).end());
        }
        // Nobody needs what a learner has, or who lost its data.
        let is_needed = !replaces && !listed.learner && !self.fact.lost;
        if let Some(unfit) = view.unfit(self.list, self.name()).filter(|_| is_needed) {
            // What helps the others may wait for the end of this.
            return if self.is_late(LONG) {
                MemberStep::write(self.stage(MemberStage::Voter, &listed.id).end())
            } else {
                self.wait(unfit)
            };
        }
        let voters = view.voters(self.list);
        let others: Vec<_> = voters.iter().filter(|(name, _)| *name != self.name()).collect();
        let healthy: Vec<_> = others.iter().filter(|(_, well)| **well).map(|(name, _)| *name).collect();
        let enough = (healthy.len(), quorum(others.len()));
        if !listed.learner && self.fact.leads && self.fact.well {
            let heir = self.list.iter().find(|l| !l.learner && healthy.contains(&&view.name_of(l)));
            return match heir {
                Some(heir) => self.call(enough, MemberChange::MoveLeader { id: heir.id.clone() }),
                None => self.wait("no other member is well"),
            };
        }
        self.call(enough, MemberChange::Remove { id: listed.id.clone() })
    }

    /// Its pod and then its volume are gone.
    fn clean_up(&self) -> MemberStep {
        match (self.fact.pod, self.fact.claim) {
            (true, _) => self.wait("its pod ends"),
            (false, Some(false)) => match self.view.unfit(self.list, self.name()) {
                None => MemberStep::DeleteClaim(self.name().to_owned()),
                // Who lost its data is replaced first, and what helps the others may wait for the end of this: the volume is kept.
                Some(_) if self.is_late(LONG) || self.other_is_lost() => MemberStep::write(self.with(None).end()),
                Some(unfit) => self.wait(unfit),
            },
            (false, Some(true)) => self.wait("its volume is being deleted"),
            (false, None) => MemberStep::write(self.with(None).end()),
        }
    }
}
