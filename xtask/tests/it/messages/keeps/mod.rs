//! What a message tells a person to do is the best that can be done for the data of that etcd: each is followed in its state, whatever turns
//! out on the way, and what is served then, and what can still be got back by hand, is compared with the best that anybody could reach.
//! What else is deleted, replaced or given up by a message's words is in a table, with what it keeps.

mod data;
mod phrases;
mod typed;

use super::{Situation, situations};
use data::{Act, Etcd, Fate, act};
use typed::commands;

/// An etcd that is not well, and what its message says.
struct Row {
    kind: &'static str,
    situation: &'static str,
    /// See [`Etcd::new`].
    members: &'static str,
    has_backup: bool,
    automatic: bool,
    /// The `EtcdRestore` is of what is left: when their backup fails, it says what to do instead.
    then: Option<&'static str>,
    /// What confirms the restore that waits for it.
    confirms: Option<Act>,
    /// What is done, in order: words of the message that come right before a command; or, without one, what is done by other means.
    steps: Vec<(&'static str, Option<Act>)>,
}

/// Restores of what is left end so when their backup fails.
const FAILS: &str = "no backup can be taken of the members that are left";
/// A command follows.
const TYPED: Option<Act> = None;
/// Members that are away are brought back, by whatever ails them.
const RETURN: Option<Act> = Some(Act::Return);

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    vec![
    Row {
        kind: "EtcdCluster", situation: "a node with the only member's volume is out of service",
        members: "a", has_backup: true, automatic: false, then: None, confirms: None,
        steps: vec![("bring the node back", RETURN), ("If it does not come back, start etcd-0 on an empty volume", TYPED), ("the condition then says how to restore a backup", Some(Act::Backup))],
    },
    Row {
        kind: "EtcdCluster", situation: "the only member's PersistentVolume is gone",
        members: "L", has_backup: true, automatic: false, then: None, confirms: None,
        steps: vec![("start etcd-0 on an empty volume", TYPED), ("the condition then says how to restore a backup", Some(Act::Backup))],
    },
    Row {
        kind: "EtcdCluster", situation: "two of three members' volumes are empty, and there are a store and a proven backup",
        members: "LLA", has_backup: true, automatic: false, then: None, confirms: None,
        steps: vec![("may be newer than any backup: restore it", TYPED), ("If that cannot be, restore the newest backup", TYPED)],
    },
    Row {
        kind: "EtcdCluster", situation: "two of three members' volumes are empty",
        members: "LLA", has_backup: false, automatic: false, then: None, confirms: None,
        steps: vec![("Keep the volume", TYPED), ("Then restore it by a store of your own", TYPED)],
    },
    Row {
        kind: "EtcdCluster", situation: "two of three members' volumes are empty, and no store may have what is left",
        members: "LLA", has_backup: false, automatic: false, then: None, confirms: None,
        steps: vec![("Keep the volume", TYPED), ("Then restore it by a store of your own", TYPED)],
    },
    Row {
        kind: "EtcdCluster", situation: "the only member's volume is empty, and there is a proven backup",
        members: "L", has_backup: true, automatic: false, then: None, confirms: None,
        steps: vec![("Restore the newest backup", TYPED)],
    },
    Row {
        kind: "EtcdCluster", situation: "the only member's volume is empty",
        members: "L", has_backup: false, automatic: false, then: None, confirms: None,
        steps: vec![],
    },
    Row {
        kind: "EtcdCluster", situation: "recovery Automatic: the member that is left does not answer",
        members: "LLa", has_backup: true, automatic: true, then: None, confirms: None,
        steps: vec![("waiting for member etcd-2 to answer", RETURN), ("If it cannot come back, start it on an empty volume", TYPED)],
    },
    Row {
        kind: "EtcdCluster", situation: "recovery Automatic: what the member holds that is left could not be restored",
        members: "LLA", has_backup: true, automatic: true, then: None, confirms: None,
        steps: vec![("have Berth try again", TYPED), ("If that cannot be, start etcd-2 on an empty volume", TYPED)],
    },
    Row {
        kind: "EtcdCluster", situation: "recovery Automatic: no store for backups is configured",
        members: "LLA", has_backup: false, automatic: false, then: None, confirms: None,
        steps: vec![("Keep the volume", TYPED), ("Then restore it by a store of your own", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "etcd does not answer, and no member is known to have lost its data",
        members: "aaA", has_backup: true, automatic: false, then: None, confirms: Some(Act::Backup),
        steps: vec![("To keep it, have them run", RETURN), ("If that cannot be, restore what etcd-2 may hold and the backup does not", TYPED), ("To give that up, confirm it", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "etcd does not answer, and says nothing of its members",
        members: "aaa", has_backup: true, automatic: false, then: None, confirms: Some(Act::Backup),
        steps: vec![("To keep it, have them run", RETURN), ("To give that up, confirm it", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "a majority lost its data, and a member that is left answers",
        members: "LLA", has_backup: true, automatic: false, then: None, confirms: Some(Act::Backup),
        steps: vec![("To keep it, restore what is left instead", TYPED), ("To give that up, confirm it", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "a majority lost its data, one member answers, and one is away",
        members: "LLAa", has_backup: true, automatic: false, then: None, confirms: Some(Act::Backup),
        steps: vec![("To keep it, have etcd-3 run", RETURN), ("and restore what is left instead", TYPED), ("If that cannot be, leave it out", TYPED), ("To give that up, confirm it", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "a majority lost its data, and a member that is left is away",
        members: "LLa", has_backup: true, automatic: false, then: None, confirms: Some(Act::Backup),
        steps: vec![("have it run, and restore what is left instead", TYPED), ("To give that up, confirm it", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "a member is away whose data is not known to be lost",
        members: "LLAa", has_backup: true, automatic: false, then: Some(FAILS), confirms: None,
        steps: vec![("waiting for member etcd-3 to answer", Some(Act::Survivors(vec![]))), ("If it cannot come back, leave it out", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "what is left is to be restored, and the quorum is not known to be lost",
        members: "LAa", has_backup: true, automatic: false, then: Some(FAILS), confirms: Some(Act::Survivors(vec![2])),
        steps: vec![("To keep it, have them run", RETURN), ("To give that up, confirm it", TYPED)],
    },
    Row {
        kind: "EtcdRestore", situation: "what is left is to be restored without a member",
        members: "LLAa", has_backup: true, automatic: false, then: Some(FAILS), confirms: Some(Act::Survivors(vec![3])),
        steps: vec![("have etcd-3 run, and restore what is left with it", Some(Act::Survivors(vec![]))), ("To give that up, confirm it", TYPED)],
    },
    ]
}

/// The conditions' messages, each once.
fn messages(situation: &Situation) -> Vec<String> {
    let mut all: Vec<String> = situation.conditions.iter().map(|c| c.message.clone()).collect();
    all.sort();
    all.dedup();
    all
}

/// What is done by a step, as the message has it.
fn step(row: &Row, message: &str, (words, other): &(&str, Option<Act>)) -> Act {
    let at = message.find(words).unwrap_or_else(|| panic!("{}: {words} is not in: {message}", row.situation));
    if let Some(other) = other {
        return other.clone();
    }
    let after = &message[at + words.len()..];
    let command = commands(after).first().copied().unwrap_or_else(|| panic!("{words}: no command follows: {message}"));
    match (act(command), &row.confirms) {
        (Act::Nothing, Some(confirms)) if command.contains("confirm") => confirms.clone(),
        (act, _) => act,
    }
}

/// As it reads, one step after the other, as long as etcd does not serve.
fn follow(row: &Row, all: &[Situation], fate: Fate) -> Etcd {
    let mut etcd = Etcd::new(row.members, row.has_backup, row.automatic, fate);
    let first = (row.situation, row.steps.clone());
    let after = [("restore them again", TYPED), ("If that cannot be, restore the newest backup", TYPED)];
    for (situation, steps) in std::iter::once(first).chain(row.then.map(|then| (then, after.to_vec()))) {
        let message = ready(all, row.kind, situation);
        let mut last = 0;
        for one in &steps {
            let at = message.find(one.0).unwrap_or_default();
            assert!(at >= last, "{situation}: {} comes earlier: {message}", one.0);
            last = at;
            etcd = etcd.does(&step(row, &message, one));
        }
    }
    etcd
}

fn ready(all: &[Situation], kind: &str, situation: &str) -> String {
    let found = all.iter().find(|s| s.kind == kind && s.text == situation);
    let found = found.unwrap_or_else(|| panic!("there is no situation {situation} ({kind})"));
    found.conditions.iter().find(|c| c.type_ == "Ready").unwrap().message.clone()
}

#[test]
fn what_a_message_tells_is_the_best_for_the_data() {
    let all = situations();
    let mut worse = vec![];
    for row in &rows() {
        for fate in [(true, true), (true, false), (false, true), (false, false)] {
            let fate = Fate { returns: fate.0, readable: fate.1 };
            let (reached, best) =
                (follow(row, all, fate).outcome(), Etcd::new(row.members, row.has_backup, row.automatic, fate).best());
            if reached != best {
                worse.push(format!(
                    "{} ({fate:?}): it keeps {reached:?}, and {best:?} is possible: {}",
                    row.situation,
                    ready(all, row.kind, row.situation)
                ));
            }
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

/// Each command of a row's message is one of its steps: none is left out of the comparison.
#[test]
fn every_command_for_an_etcd_without_a_quorum_is_compared() {
    let rows = rows();
    for situation in situations() {
        let is_away = situation.conditions.iter().any(|c| {
            let reason = ["QuorumLost", "DataLost", "ConfirmationRequired", "RestoreFailed"].contains(&&*c.reason);
            reason && c.type_ == "Ready"
        });
        let of = |row: &&Row| {
            row.kind == situation.kind && [Some(row.situation), row.then].contains(&Some(&*situation.text))
        };
        let row = rows.iter().find(of);
        for message in messages(situation).iter().filter(|_| is_away) {
            for command in commands(message).into_iter().filter(|c| act(c) != Act::Nothing) {
                let is_step = |row: &Row| {
                    row.steps.iter().any(|(words, other)| {
                        let after = message.find(words).map(|at| &message[at + words.len()..]);
                        other.is_none() && after.is_some_and(|after| commands(after).first() == Some(&command))
                    })
                };
                let is_listed = row.is_some_and(|row| row.then == Some(&*situation.text) || is_step(row))
                    || phrases::HARMLESS.iter().any(|(s, _)| *s == situation.text);
                assert!(is_listed, "{} ({}): no row has {command}", situation.text, situation.kind);
            }
        }
    }
}

/// Nobody has to fill in a pod, a namespace, an endpoint or a certificate.
#[test]
fn every_command_can_be_typed_as_it_stands() {
    let mut wrong: Vec<String> = situations()
        .iter()
        .flat_map(messages)
        .flat_map(|message| commands(&message).into_iter().filter_map(typed::wrong).collect::<Vec<_>>())
        .collect();
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
