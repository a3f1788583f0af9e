//! What people read of an alarm.

use crate::health::Health;
use crate::procedures::membership::{MemberStep, members_state};
use crate::procedures::upgrade::{UpgradeStep, upgrade_state};
use crate::procedures::upkeep::{Room, UpkeepStep};
use crate::subject::{Subject, etcdctl};
use crate::way_back;
use berth_api::conditions::Reason;
use berth_plan::etcd_home::Home;
use berth_plan::model::{EtcdCall, Maintenance, State};
use berth_plan::observed::RaisedAlarm;

const ROOM: &str = "Berth compacts and defragments it, and disarms the alarm";
/// The largest quota that there may be: 8 GiB, as the CRD has it.
const MOST: i64 = 8 * 1024 * 1024 * 1024;

/// What an alarm means, and what helps.
pub(crate) fn alarm_state(
    s: &Subject<'_>,
    health: &Health,
    (members, upgrade): (&MemberStep, &UpgradeStep),
    upkeep: &UpkeepStep,
) -> State {
    if health.corrupt() {
        let disarm = etcdctl(s, &format!("{}-0", s.name), "alarm disarm");
        let on = format!(
            "alarm {} to be disarmed: the members' data differ. Berth compares them, replaces a member that differs from a majority of the others, and disarms the alarm then. If the condition stays, no majority agrees. {}. An alarm that stays after that: {disarm}",
            health.raised(),
            way_back::differing(s)
        );
        return State::Waiting { reason: Reason::EtcdAlarm, on };
    }
    let next = match upkeep {
        UpkeepStep::CatchUp(Some(member), _) => format!("Berth is making room, and waits for {member} to catch up"),
        UpkeepStep::CatchUp(None, _) => "Berth is making room, and waits for the members to catch up".to_owned(),
        UpkeepStep::UsedUp(room, None) => used_up(s, room),
        UpkeepStep::UsedUp(..) => "Keys were deleted since room was made last; within a minute Berth compacts and defragments again, and disarms the alarm".to_owned(),
        UpkeepStep::Call { via, call } => format!("Next, {}", does(via, call)),
        UpkeepStep::Rest => match members_state(s, members).or_else(|| upgrade_state(upgrade)) {
            Some(State::Waiting { on, .. }) => format!("{ROOM} once what is under way has ended: waiting for {on}"),
            Some(State::Blocked { message, .. }) => format!("{ROOM} once this is settled: {message}"),
            _ => format!("{ROOM} once all members are well and nothing else runs or is paused"),
        },
    };
    let message = format!("{} (alarm NOSPACE): etcd refuses all writes but deletions. {next}", full(s));
    State::Reported { reason: Reason::EtcdAlarm, message }
}

/// Whose database has reached its quota.
fn full(s: &Subject<'_>) -> String {
    let members = s.alarms().iter().filter(|a| a.kind == RaisedAlarm::NOSPACE).map(|a| a.member.as_str());
    match members.collect::<Vec<_>>().as_slice() {
        [one] => format!("{one}'s database is full"),
        several => format!("the databases of {} are full", several.join(", ")),
    }
}

/// A call in words.
fn does(via: &str, call: &EtcdCall) -> String {
    match call {
        EtcdCall::Maintain(Maintenance::Compact { .. }) => "Berth compacts etcd".to_owned(),
        EtcdCall::Maintain(Maintenance::Defragment) => format!("Berth defragments {via}"),
        EtcdCall::Maintain(Maintenance::Disarm { .. }) => "Berth disarms the alarm".to_owned(),
        EtcdCall::Change(_) => format!("{via} hands over the leadership, and Berth defragments it"),
        EtcdCall::Maintain(Maintenance::Put | Maintenance::CompareHashes { .. }) => ROOM.to_owned(),
    }
}

/// A person has to make room, or give more.
fn used_up(s: &Subject<'_>, room: &Room) -> String {
    let Home { namespace, field, name } = Home::of(s.etcd);
    let is_tenants = field == "clusterRef";
    let delete = if is_tenants {
        format!(
            "delete unneeded objects, such as Events (kubectl berth connect {name} -n {namespace} -- kubectl delete events --all --all-namespaces)"
        )
    } else {
        "have its clients delete unneeded keys".to_owned()
    };
    let larger = room.quota.saturating_mul(2).min(MOST);
    let raise = if larger <= room.quota {
        "It has the largest quota that there may be".to_owned()
    } else {
        let (kind, fields) = if is_tenants {
            ("clusters.berth.dev", format!(r#"{{"etcd":{{"quotaBackendBytes":{larger}}}}}"#))
        } else {
            ("etcdclusters.berth.dev", format!(r#"{{"quotaBackendBytes":{larger}}}"#))
        };
        format!(
            r#"Or raise its quota, to a third of its volume at most, which restarts one member at a time: kubectl -n {namespace} patch {kind} {name} --type=merge -p '{{"spec":{fields}}}'"#
        )
    };
    let mib = |bytes: i64| bytes / 1024 / 1024;
    format!(
        "Berth compacted and defragmented it, and {} MiB of {} MiB are still in use. To make room, {delete}. Berth looks every few seconds: within a minute of a deletion it compacts and defragments again, and disarms the alarm. {raise}",
        mib(room.used.max(room.size)),
        mib(room.quota)
    )
}
