//! Decides which member gets the next version.

#[cfg(test)]
mod tests;

use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{FailedVersion, Operation, OperationKind, Phase, Record, Release};
use berth_api::version::Version;
use jiff::{SignedDuration, Timestamp};

/// A pod that fails visibly may still be told something else by kubelet at its next start.
const GRACE: SignedDuration = SignedDuration::from_secs(30);
/// What does not say what is wrong with it; a large store is read for minutes.
const LATE: SignedDuration = SignedDuration::from_mins(10);
/// etcd itself calls a member healthy once it has answered its peers for so long.
const SETTLED: SignedDuration = SignedDuration::from_secs(5);

/// Whoever ran for so long may have raised the data: a leader looks at the others' versions every few seconds, and a single member at its own
/// when it starts.
pub(crate) const RAN: SignedDuration = SignedDuration::from_secs(3);

/// Members of 3.5 before this one may bring back members that were removed, once 3.6 reads their data.
pub(crate) const LEAST_FOR_3_6: &str = "3.5.32";

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) name: String,
    /// Its ID, if it answered.
    pub(crate) id: String,
    /// Version of the template that its pod was made from.
    pub(crate) pod: Option<Version>,
    /// The version that it says it runs.
    pub(crate) says: Option<Version>,
    /// It answers as a voter of a quorum, and its pod is ready.
    pub(crate) well: bool,
    /// Its pod has run etcd for a while, or nobody knows for how long.
    pub(crate) has_run: bool,
    /// Since when its pod is ready.
    pub(crate) since: Option<Timestamp>,
    pub(crate) leads: bool,
    /// What is wrong with it, and visibly so.
    pub(crate) problem: Option<(Reason, String)>,
}

impl Seat {
    fn has(&self, version: Version) -> bool {
        self.pod == Some(version) && self.says == Some(version) && self.well
    }
}

/// Whether the members have the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parity {
    /// Not compared lately.
    Unknown,
    /// A member gave no answer in time: it is asked again later.
    Silent,
    /// They have.
    Same,
    /// They have not, which is said elsewhere.
    Differs,
}

/// What a decision is made from.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct UpgradeView<'a> {
    pub(crate) now: Timestamp,
    /// What restores a backup of it, but for which.
    pub(crate) restore: String,
    pub(crate) record: &'a Record,
    /// What the spec asks for, if Berth can do it.
    pub(crate) wanted: Option<Version>,
    /// What members get with that version, if there are templates for it.
    pub(crate) release: Option<Release>,
    /// By ordinal.
    pub(crate) members: Vec<Seat>,
    /// All members were seen together once.
    pub(crate) is_formed: bool,
    /// All members are well and of one cluster with one leader, and no alarm is raised but NOSPACE.
    pub(crate) is_well: bool,
    /// NOSPACE is raised: no change begins, and one that is under way goes on. Room is made only while nothing else is done.
    pub(crate) is_full: bool,
    /// No pod is being replaced, no claim is being deleted, and nothing is to be written.
    pub(crate) is_settled: bool,
    pub(crate) parity: Parity,
    /// The StatefulSet's controller knows what pods are to be made from that do not have the new version.
    pub(crate) knows_current: bool,
    /// A member says that its data are of the new minor: the former one does not start with them.
    pub(crate) is_raised: bool,
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum UpgradeStep {
    /// All is as it should be, or somebody else says why not.
    #[default]
    Rest,
    /// For what people read.
    Wait(String),
    /// It does not come up, and there may be no way back.
    Hold(String),
    /// The hashes of the members' data.
    Compare,
    /// Another member leads.
    MoveLeader { via: String, id: String },
    /// The record first.
    Write(Box<Record>),
}

/// The next step.
pub(crate) fn decide_upgrade(view: &UpgradeView<'_>) -> UpgradeStep {
    match &view.record.operation {
        Some(operation) if operation.kind == OperationKind::Upgrade => go_on(view, operation),
        Some(_) => UpgradeStep::Rest,
        None => begin(view),
    }
}

fn write(record: Record) -> UpgradeStep {
    UpgradeStep::Write(Box::new(record))
}

/// It is that member's turn to get that version.
fn with_turn(view: &UpgradeView<'_>, member: &str, version: Version, phase: Phase) -> Record {
    view.record.revise().begin(OperationKind::Upgrade, &target(member, version), phase, view.now)
}

/// All have the new version.
fn finish(view: &UpgradeView<'_>) -> UpgradeStep {
    let mut record = Record { failed: None, ..view.record.revise().end() };
    if let Some(next) = record.next.take() {
        (record.version, record.templates) = (next.version, next.templates);
        (record.agent_image, record.agent_delivery) = (next.agent_image, next.agent_delivery);
        record.helper_resources = next.helper_resources;
    }
    write(record)
}

/// Nobody gets the new version any more. None: the spec does not ask for it any more.
fn go_back(view: &UpgradeView<'_>, why: Option<String>) -> UpgradeStep {
    let mut record = view.record.revise().end();
    let next = record.next.take();
    record.failed = why.and_then(|why| Some(FailedVersion { version: next?.version, why }));
    write(record)
}

fn begin(view: &UpgradeView<'_>) -> UpgradeStep {
    let Some(wanted) = view.wanted else { return UpgradeStep::Rest };
    let failed = view.record.failed.as_ref();
    if failed.is_some_and(|failed| failed.version != wanted) {
        // It may be tried again.
        return write(Record { failed: None, ..view.record.revise() });
    }
    if wanted == view.record.version || failed.is_some() {
        return UpgradeStep::Rest;
    }
    let wait = |on: &str| UpgradeStep::Wait(format!("{on}; then the members get etcd {wanted}, one after the other"));
    if !view.is_formed {
        return wait("etcd to be formed");
    }
    // The alarm is said elsewhere. To wait for it here would keep room from being made.
    if view.is_full {
        return UpgradeStep::Rest;
    }
    if !view.is_well {
        return wait("all members to be ready, without an alarm");
    }
    if !view.is_settled {
        return wait("changes of members' pods or volumes");
    }
    match view.parity {
        Parity::Differs => UpgradeStep::Rest,
        Parity::Unknown if view.members.len() > 1 => UpgradeStep::Compare,
        Parity::Silent if view.members.len() > 1 => wait(
            "the comparison of the members' data: a member gave no hash in time, and is asked again in ten minutes",
        ),
        _ => {
            let last = view.members.last().map_or("", |member| &member.name);
            let begun = with_turn(view, last, wanted, Phase::Prepare);
            write(Record { next: view.release.clone(), failed: None, ..begun })
        }
    }
}

fn go_on(view: &UpgradeView<'_>, operation: &Operation) -> UpgradeStep {
    let Some(next) = view.record.next.as_ref().map(|next| next.version) else { return go_back(view, None) };
    // All members have run it. Whoever does not come up is seen to as in any other etcd of this version, and no template is the former any more.
    if view.is_raised {
        return finish(view);
    }
    let may_be_raised =
        next.minor() > view.record.version.minor() && view.members.iter().all(|m| m.pod == Some(next) && m.has_run);
    let can_go_back = !may_be_raised && !view.members.iter().all(|m| m.has(next));
    if can_go_back && view.wanted.is_some_and(|wanted| wanted != next) {
        return go_back(view, None);
    }
    let turn = match operation.phase {
        Phase::Prepare => None,
        _ => view.members.iter().position(|m| names(&operation.target, &m.name)),
    };
    if let Some(why) = failure(view, operation, turn, next) {
        // A lost volume is not the version's fault: once the member is replaced, the change begins anew.
        return if can_go_back {
            go_back(view, Some(why).filter(|_| lost(view).is_none()))
        } else {
            hold(view, next, &why)
        };
    }
    if operation.phase == Phase::Prepare && !view.is_well {
        return UpgradeStep::Wait(format!("all members to be ready, without the alarm CORRUPT, to get etcd {next}"));
    }
    if operation.phase == Phase::Prepare && !view.knows_current {
        return UpgradeStep::Wait(format!(
            "the StatefulSet's controller to keep etcd {} for the other members",
            view.record.version
        ));
    }
    let Some(turn) = turn else { return turn_of(view, view.members.len().saturating_sub(1), next) };
    let member = &view.members[turn];
    if !member.has(next) {
        let what = if member.pod == Some(next) { "to come up" } else { "to get a pod" };
        let why = member.problem.as_ref().map_or(String::new(), |(_, why)| format!("; {why}"));
        return UpgradeStep::Wait(format!("member {} {what} with etcd {next}{why}", member.name));
    }
    if !view.is_well {
        return UpgradeStep::Wait(format!(
            "all members to be ready, without the alarm CORRUPT; then the next one gets etcd {next}"
        ));
    }
    if member.since.is_none_or(|since| view.now.duration_since(since) < SETTLED) {
        return UpgradeStep::Wait(format!(
            "member {} to have been ready for five seconds with etcd {next}",
            member.name
        ));
    }
    match turn.checked_sub(1) {
        Some(below) => turn_of(view, below, next),
        None if view.members.iter().all(|m| m.has(next)) => finish(view),
        None => UpgradeStep::Wait(format!("all members to have etcd {next}")),
    }
}

fn hold(view: &UpgradeView<'_>, next: Version, why: &str) -> UpgradeStep {
    UpgradeStep::Hold(format!(
        "etcd {next} does not come up: {why}. All members have run it, and the members' data may be of the new minor version by now, which etcd {} does not read; so Berth does not go back. Correct what the message names, and the change goes on by itself. If that cannot be, restore the newest backup of before the change, which loses what was written since: {} --backup NAME",
        view.record.version, view.restore
    ))
}

/// Its turn, once another one leads.
fn turn_of(view: &UpgradeView<'_>, ordinal: usize, next: Version) -> UpgradeStep {
    let member = &view.members[ordinal];
    let others = || view.members.iter().filter(|m| m.name != member.name && m.well);
    // The lowest comes last, so that the leadership is handed over twice at most.
    let heir = if ordinal == 0 { others().next_back() } else { others().next() };
    match heir {
        Some(heir) if member.leads => UpgradeStep::MoveLeader { via: member.name.clone(), id: heir.id.clone() },
        _ => write(with_turn(view, &member.name, next, Phase::Roll)),
    }
}

/// Whose data is lost. What changes members replaces it, and waits for this.
fn lost<'a>(view: &'a UpgradeView<'_>) -> Option<&'a (Reason, String)> {
    let is_data = |reason: Reason| matches!(reason, Reason::DataLost | Reason::ForeignData);
    view.members.iter().find_map(|m| m.problem.as_ref().filter(|(reason, _)| is_data(*reason)))
}

/// Why the new version is not to be had.
fn failure(view: &UpgradeView<'_>, operation: &Operation, turn: Option<usize>, next: Version) -> Option<String> {
    let since = view.now.duration_since(operation.since.0);
    let fails = view.members.iter().filter(|m| m.pod == Some(next)).find_map(|m| m.problem.as_ref());
    let found = lost(view).or(fails.filter(|_| since >= GRACE)).map(|(_, why)| why.clone());
    let member = turn.and_then(|turn| view.members.get(turn));
    let late = || {
        let member = member.filter(|m| !m.has(next) && since >= LATE)?;
        Some(match (&member.problem, member.says.filter(|says| *says != next)) {
            (Some((_, why)), _) => why.clone(),
            (None, Some(says)) => format!("member {} runs etcd {says}", member.name),
            (None, None) => format!("member {} was not ready within {} minutes", member.name, LATE.as_mins()),
        })
    };
    found.or_else(late)
}

/// The operation's target.
fn target(member: &str, version: Version) -> String {
    format!("{member}@{version}")
}

fn names(target: &str, member: &str) -> bool {
    target.split_once('@').is_some_and(|(name, _)| name == member)
}
