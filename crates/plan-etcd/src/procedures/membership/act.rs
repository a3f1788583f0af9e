//! What a step does to the members, and what people read.

use super::decide::MemberStep;
use crate::health;
use crate::subject::{Subject, etcdctl, told};
use berth_api::conditions::Reason;
use berth_plan::model::{Action, EtcdCall, MemberChange, State};
use berth_plan::observed::ListedMember;
use berth_plan::workload;
use berth_render::Kind;

/// What is done to the members.
pub(crate) fn members_action(s: &Subject<'_>, step: &MemberStep) -> Option<Action> {
    let delete = |kind, name: &str| {
        let key = s.key(kind, name);
        Some(Action::delete(&key, s.observed.get(&key)?, None))
    };
    match step {
        MemberStep::Call { via, change } => Some(told(s, via.clone(), EtcdCall::Change(change.clone()))),
        MemberStep::ReplacePod(member) => delete(Kind::Pod, member),
        MemberStep::DeleteClaim(member) => delete(Kind::PersistentVolumeClaim, &format!("data-{member}")),
        _ => None,
    }
}

/// What the change of members waits for.
pub(crate) fn members_state(s: &Subject<'_>, step: &MemberStep) -> Option<State> {
    let waiting = |on: String| State::Waiting { reason: Reason::MembersChanging, on };
    let pod = |target: &str, said: &str| {
        let found = s.pod(target).and_then(workload::pod_problem);
        // etcd ends so when it is removed.
        let found = found.filter(|(reason, why)| !health::is_data(*reason) && !why.contains("(last exit code 0"));
        found.map_or_else(|| said.to_owned(), |(_, why)| format!("{said}; {why}"))
    };
    let target = s.record.operation.as_ref().map(|o| o.target.clone()).unwrap_or_default();
    match step {
        MemberStep::Rest => None,
        MemberStep::Stop(reason, message) => Some(State::blocked(*reason, message.clone())),
        MemberStep::Unknown(stranger) => Some(State::blocked(Reason::UnknownMember, unknown(s, stranger))),
        MemberStep::Wait(on) => Some(waiting(pod(&target, on))),
        MemberStep::Going(message) => {
            Some(State::Reported { reason: Reason::MembersChanging, message: pod(&target, message) })
        }
        MemberStep::Write(_) => Some(waiting(format!("Berth to record the next step with member {target}"))),
        MemberStep::Call { via, change } => Some(waiting(match change {
            MemberChange::AddLearner { .. } => format!("etcd to add member {target}"),
            MemberChange::Promote { .. } => format!("etcd to promote member {target}"),
            MemberChange::Remove { .. } => format!("etcd to remove member {target}"),
            MemberChange::MoveLeader { .. } => format!("{via} to hand over the leadership, before Berth removes it"),
        })),
        MemberStep::ReplacePod(member) => Some(waiting(format!("pod {member} to be replaced"))),
        MemberStep::DeleteClaim(member) => Some(waiting(format!("the volume of member {member} to be deleted"))),
    }
}

/// etcd has a member that is not on record: what that means, and the command that removes it.
fn unknown(s: &Subject<'_>, stranger: &ListedMember) -> String {
    let ListedMember { name, id, peer_urls, learner } = stranger;
    let voters = s.listed().map_or(0, |list| list.iter().filter(|m| !m.learner).count());
    let (kind, vote) = if *learner {
        ("learner", "It has no vote".to_owned())
    } else {
        (
            "member",
            format!("It counts as a voter, whether it runs or not: etcd now needs {} of {voters}", voters / 2 + 1),
        )
    };
    let answers = |m: &&String| s.said(m).is_some_and(|said| said.leader != "0");
    let members = s.members();
    let pod = members.iter().find(answers).or(members.first()).cloned().unwrap_or_default();
    format!(
        "etcd lists a {kind} that Berth did not add: ID {id}, {}, at {}. {vote}. Berth adds, removes and replaces no member until it is gone; etcd serves meanwhile. To remove it: {}",
        if name.is_empty() { "without a name" } else { name },
        peer_urls.join(", "),
        etcdctl(s, &pod, &format!("member remove {id}"))
    )
}
