//! The data of one etcd, and what becomes of it by what a person does, as tests of recoveries and restores show it.

use super::typed::parts;
use serde_json::Value;

/// What is known of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Answers,
    Away,
    Lost,
}

/// What the one who reads a message finds out by trying.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// Who is away comes back.
    pub(super) returns: bool,
    /// Members that answer give a backup.
    pub(super) readable: bool,
}

/// An etcd. Each member may hold writes that no other has; the backup is older than all of them.
#[derive(Clone, Debug)]
pub(super) struct Etcd {
    /// What each holds, by ordinal.
    pub(super) members: Vec<(State, u32)>,
    pub(super) backup: Option<u32>,
    /// Berth restores it by itself.
    pub(super) automatic: bool,
    pub(super) fate: Fate,
    /// What is on volumes that no member starts from any more.
    aside: Vec<u32>,
    /// What it serves.
    served: Option<u32>,
}

/// What a person does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Has members run that are away.
    Return,
    /// Restores what is left, without these.
    Survivors(Vec<usize>),
    /// Restores the backup.
    Backup,
    /// Has members begin anew; true: their volumes are kept.
    GiveUp(Vec<usize>, bool),
    /// Has Berth try again.
    Again,
    /// It changes no data.
    Nothing,
}

impl Etcd {
    /// Such as `LLa`: lost, lost, and away; `A` answers. Each member holds more than the one before.
    pub(super) fn new(members: &str, has_backup: bool, automatic: bool, fate: Fate) -> Self {
        let member = |(at, state)| {
            let state = match state {
                'A' => State::Answers,
                'a' => State::Away,
                _ => State::Lost,
            };
            (state, 10 + u32::try_from(at).unwrap())
        };
        let members = members.chars().enumerate().map(member).collect();
        let mut etcd = Self { members, backup: has_backup.then_some(7), automatic, fate, aside: vec![], served: None };
        etcd.serve();
        etcd
    }

    fn of(&self, wanted: State) -> Vec<usize> {
        (0..self.members.len()).filter(|at| self.members[*at].0 == wanted).collect()
    }

    fn most(&self, members: &[usize]) -> Option<u32> {
        members.iter().map(|at| self.members[*at].1).max()
    }

    /// A quorum serves.
    fn serve(&mut self) {
        let answer = self.of(State::Answers);
        if self.served.is_none() && answer.len() * 2 > self.members.len() {
            self.served = self.most(&answer);
        }
    }

    fn is_lost_for_good(&self) -> bool {
        self.of(State::Lost).len() * 2 >= self.members.len()
    }

    pub(super) fn does(&self, act: &Act) -> Self {
        let mut next = self.clone();
        match act {
            _ if self.served.is_some() => {}
            Act::Return if self.fate.returns => {
                next.members.iter_mut().filter(|(state, _)| *state == State::Away).for_each(|m| m.0 = State::Answers);
            }
            Act::Survivors(without) => next.survivors(without),
            Act::Backup => next.serves(self.backup),
            Act::GiveUp(members, kept) => {
                for at in members {
                    let (state, holds) = next.members[*at];
                    if state != State::Lost {
                        next.aside.extend(Some(holds).filter(|_| *kept));
                        next.members[*at].0 = State::Lost;
                    }
                }
            }
            Act::Return | Act::Again | Act::Nothing => {}
        }
        next.serve();
        if next.automatic && next.served.is_none() && next.is_lost_for_good() {
            next.recovers();
        }
        next
    }

    /// What Berth does by itself.
    fn recovers(&mut self) {
        match (self.of(State::Answers).len(), self.of(State::Away).len()) {
            (0, 0) => self.serves(self.backup),
            (_, 0) => self.survivors(&[]),
            _ => {}
        }
    }

    fn survivors(&mut self, without: &[usize]) {
        let waits = self.of(State::Away).iter().any(|at| !without.contains(at));
        if waits && self.fate.returns {
            *self = self.does(&Act::Return);
        } else if waits || !self.fate.readable {
            return;
        }
        let asked: Vec<usize> = self.of(State::Answers).into_iter().filter(|at| !without.contains(at)).collect();
        if self.served.is_none() && !asked.is_empty() && self.fate.readable {
            self.serves(self.most(&asked).max(self.backup));
        }
    }

    /// A restore sets aside what members hold, on their volumes.
    fn serves(&mut self, what: Option<u32>) {
        if what.is_some() {
            self.served = what;
            let held = self.members.iter().filter(|(state, _)| *state != State::Lost).map(|(_, holds)| *holds);
            self.aside.extend(held);
        }
    }

    /// What it serves in the end, and then what may still be got back by hand.
    pub(super) fn outcome(&self) -> (Option<u32>, Option<u32>) {
        let held = self.members.iter().filter(|(state, _)| *state != State::Lost).map(|(_, holds)| *holds);
        (self.served, held.chain(self.aside.iter().copied()).chain(self.backup).max())
    }

    /// The best that anybody can do.
    pub(super) fn best(&self) -> (Option<u32>, Option<u32>) {
        let all = 0..self.members.len();
        let sets: Vec<Vec<usize>> =
            (0..1_u32 << self.members.len()).map(|set| all.clone().filter(|at| set >> at & 1 == 1).collect()).collect();
        let some = |act: fn(Vec<usize>) -> Act| sets.iter().cloned().map(act).collect::<Vec<_>>();
        let mut acts = vec![Act::Return, Act::Backup];
        acts.extend(some(Act::Survivors));
        acts.extend(some(|set| Act::GiveUp(set, true)));
        let mut reached = vec![self.clone()];
        for _ in 0..3 {
            let next: Vec<Self> = reached.iter().flat_map(|etcd| acts.iter().map(|act| etcd.does(act))).collect();
            reached.extend(next);
            reached.sort_by_key(|etcd| {
                (etcd.outcome(), etcd.members.clone().into_iter().map(|m| m.0 as u8).collect::<Vec<_>>())
            });
            reached.dedup_by_key(|etcd| {
                (etcd.outcome(), etcd.members.clone().into_iter().map(|m| m.0 as u8).collect::<Vec<_>>())
            });
        }
        reached.iter().map(Self::outcome).max().unwrap_or_default()
    }
}

/// What a command does, by its words.
pub(super) fn act(command: &str) -> Act {
    let parts = parts(command);
    let text: Vec<String> = parts.iter().map(|part| part.join(" ")).collect();
    let has = |what: &str| text.iter().any(|part| part.contains(what));
    let ordinals = |prefix: &str| {
        let words = parts.iter().flatten();
        let ordinal = |word: &String| word.strip_prefix(prefix)?.rsplit_once('-')?.1.parse().ok();
        words.filter_map(ordinal).collect::<std::collections::BTreeSet<usize>>().into_iter().collect::<Vec<_>>()
    };
    if let Some(object) = parts.iter().find(|part| part[0] == "echo").map(|part| &part[1]) {
        let object: Value = serde_json::from_str(object).unwrap();
        return if object["spec"]["source"]["survivors"].is_object() { Act::Survivors(vec![]) } else { Act::Backup };
    }
    if has("etcd restore ") {
        let words: Vec<&String> = parts.iter().flatten().collect();
        let without = words.windows(2).filter(|pair| pair[0] == "--without");
        let without = without.map(|pair| pair[1].rsplit_once('-').unwrap().1.parse().unwrap()).collect();
        return if has("--survivors") { Act::Survivors(without) } else { Act::Backup };
    }
    if has("delete pvc/") {
        return Act::GiveUp(ordinals("pvc/data-"), has("Retain"));
    }
    if has("withoutMembers") {
        let patch = parts.iter().flatten().find_map(|word| serde_json::from_str::<Value>(word).ok()).unwrap();
        let names = patch["spec"]["withoutMembers"].as_array().unwrap();
        return Act::Survivors(
            names.iter().map(|n| n.as_str().unwrap().rsplit_once('-').unwrap().1.parse().unwrap()).collect(),
        );
    }
    if has("delete etcdrestores") { Act::Again } else { Act::Nothing }
}

#[test]
fn what_keeps_less_is_found() {
    let fate = |returns, readable| Fate { returns, readable };
    let of = |members: &str, fate, acts: &[Act]| {
        let etcd = Etcd::new(members, true, false, fate);
        let reached = acts.iter().fold(etcd.clone(), |etcd, act| etcd.does(act)).outcome();
        (reached, reached == etcd.best())
    };
    // A backup before what is left; a volume that is deleted; a member that is not waited for.
    assert_eq!(of("LLA", fate(true, true), &[Act::Backup]), ((Some(7), Some(12)), false));
    assert_eq!(of("LLA", fate(true, true), &[Act::Survivors(vec![])]), ((Some(12), Some(12)), true));
    assert_eq!(of("a", fate(false, true), &[Act::GiveUp(vec![0], false), Act::Backup]), ((Some(7), Some(7)), false));
    assert_eq!(of("a", fate(false, true), &[Act::GiveUp(vec![0], true), Act::Backup]), ((Some(7), Some(10)), true));
    assert_eq!(of("LAa", fate(true, true), &[Act::Survivors(vec![2])]), ((Some(11), Some(12)), false));
    assert_eq!(of("LAa", fate(true, true), &[Act::Return]), ((Some(12), Some(12)), true));
    assert_eq!(of("AAa", fate(false, false), &[]), ((Some(11), Some(12)), true), "it serves");
}
