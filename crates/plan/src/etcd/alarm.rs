//! What is said of an alarm.

use super::Health;
use super::members::{Steps, changing};
use super::subject::Subject;
use super::{upgrade, upkeep};
use crate::model::State;

const ROOM: &str = "Berth compacts and defragments it, and disarms the alarm";

/// What an alarm means and what helps.
pub(super) fn help(s: &Subject<'_>, health: &Health, steps: &Steps, upkeep: &upkeep::Step) -> String {
    let help = if health.corrupt() {
        let disarm = format!("{} alarm disarm", etcdctl(s));
        format!(
            "the members' data differ. Berth compares them, replaces a member that differs from a majority of the others, and disarms the alarm then. If the condition stays, no majority agrees: restore a backup, or the volume of the member that is wrong; then run: {disarm}"
        )
    } else {
        let next = match upkeep {
            upkeep::Step::Wait(on, _) => format!("waiting for {on}"),
            upkeep::Step::Call { via, call } => format!("next: {} at {via}", call.describe()),
            upkeep::Step::Rest => match changing(s, &steps.members).or_else(|| upgrade::act::state(&steps.upgrade)) {
                Some(State::Waiting { on, .. }) => format!("{ROOM} once what is under way has ended: waiting for {on}"),
                Some(State::Blocked { message, .. }) => format!("{ROOM} once this is settled: {message}"),
                _ => format!("{ROOM} as soon as all members are well, and nothing else goes on or is paused"),
            },
        };
        format!("the database is full, so etcd refuses writes. {next}")
    };
    format!("alarm {} to be disarmed: {help}", health.alarms.join(", "))
}

/// How a person calls `etcdctl`: in a member's pod, where the server's certificate is also a client's.
fn etcdctl(s: &Subject<'_>) -> String {
    let (namespace, name, pki) = (s.namespace, s.name, "/etc/kubernetes/pki/etcd/server");
    format!(
        "kubectl -n {namespace} exec {name}-0 -c etcd -- etcdctl --endpoints=https://127.0.0.1:2379 --cacert={pki}/ca.crt --cert={pki}/tls.crt --key={pki}/tls.key"
    )
}
