//! Every state that a change of the release can come to: what is written, one write after the other, with a crash after each; pods that
//! come up, or do not; an etcd that loses its quorum; and a spec that changes its mind at any time.

use super::*;
use crate::explore::that_end;
use std::collections::HashSet;

/// A release: the one that succeeded, one whose pods come up, and one whose pods never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Of {
    Good,
    Fine,
    Bad,
}

const ALL: [Of; 3] = [Of::Good, Of::Fine, Of::Bad];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct World {
    spec: Of,
    /// The newest revision, and how it came out.
    newest: (Of, Option<Outcome>),
    /// The last other one that succeeded.
    good: Of,
    /// What the workloads are to run.
    template: Of,
    /// A pod of the template is ready, as are those that it is to replace.
    new_ready: bool,
    old_ready: bool,
    late: bool,
    soaked: bool,
    etcd: bool,
    paused: bool,
    asked_again: bool,
    goes_back: bool,
}

impl World {
    fn facts(self) -> RollbackFacts {
        let through = self.template == self.newest.0 && self.new_ready;
        RollbackFacts {
            recorded: self.newest.1,
            same: self.spec == self.newest.0,
            asked_again: self.asked_again,
            paused: self.paused,
            through,
            soaked: self.soaked,
            late: self.late && !self.paused,
            goes_back: self.goes_back,
            old_well: self.old_ready,
            rest_well: self.etcd,
            way_back: true,
        }
    }

    fn writes(self) -> Vec<Self> {
        let mut all = vec![];
        let mut now = self;
        let facts = self.facts();
        let next = decide_rollback(facts);
        let fresh = |world: &mut Self| (world.late, world.soaked) = (false, false);
        match next.write {
            Some(RollbackWrite::Revision) => {
                if now.newest.1 == Some(Outcome::Succeeded) {
                    now.good = now.newest.0;
                }
                (now.newest, now.asked_again) = ((now.spec, None), false);
                fresh(&mut now);
            }
            Some(RollbackWrite::Outcome(outcome)) => {
                if outcome == Outcome::RolledBack {
                    let well = facts.goes_back && facts.old_well && facts.rest_well && facts.way_back;
                    assert!(well && facts.late && !facts.through && !facts.paused, "nobody needed it: {self:?}");
                }
                assert!(self.newest.1 != Some(Outcome::Succeeded), "it succeeded: {self:?}");
                now.newest.1 = Some(outcome);
                fresh(&mut now);
            }
            None => {}
        }
        assert!(!self.paused || now == self, "paused: {self:?}");
        all.push(now);
        // Until a revision is read again, nothing that runs is changed.
        if next.write != Some(RollbackWrite::Revision) && !self.paused {
            let target = match next.runs {
                Runs::Asked => self.spec,
                Runs::Good => self.good,
            };
            if now.template != target {
                assert!([self.newest.0, self.good].contains(&target), "it is not recorded: {self:?}");
                // Back: the old pods are of the template again. Otherwise those that were ready become the old ones.
                let ready = now.old_ready && next.runs == Runs::Good;
                now.old_ready = if ready { now.old_ready } else { now.new_ready || now.old_ready };
                (now.template, now.new_ready) = (target, ready);
                fresh(&mut now);
                all.push(now);
            }
        }
        all.retain(|world| *world != self);
        all
    }

    /// What else happens by itself.
    fn goes_on(self) -> Vec<Self> {
        let mut next = self.writes();
        if self.template != Of::Bad && self.etcd && !self.new_ready {
            next.push(Self { new_ready: true, ..self });
        }
        if self.new_ready && !self.soaked && self.newest.1.is_none_or(|o| o == Outcome::Held) {
            next.push(Self { soaked: true, ..self });
        }
        if !self.new_ready && !self.late && self.newest.1.is_none() && !self.paused {
            next.push(Self { late: true, ..self });
        }
        next
    }

    /// Also what people, and bad luck, do.
    fn anything(self) -> Vec<Self> {
        let mut next = self.goes_on();
        next.extend(ALL.map(|spec| Self { spec, ..self }));
        next.push(Self { etcd: !self.etcd, ..self });
        next.push(Self { old_ready: !self.old_ready, ..self });
        next.push(Self { paused: !self.paused, late: false, soaked: false, ..self });
        next.push(Self { asked_again: true, ..self });
        next.push(Self { goes_back: !self.goes_back, ..self });
        if self.new_ready {
            next.push(Self { new_ready: false, soaked: false, ..self });
        }
        next
    }

    fn check(self) {
        assert!(self.good != Of::Bad, "one that never came up counts as good: {self:?}");
    }
}

#[test]
fn every_state_is_safe_and_leads_to_what_was_asked_for_or_back() {
    let start = World {
        spec: Of::Good,
        newest: (Of::Good, Some(Outcome::Succeeded)),
        good: Of::Good,
        template: Of::Good,
        new_ready: true,
        old_ready: true,
        late: false,
        soaked: false,
        etcd: true,
        paused: false,
        asked_again: false,
        goes_back: true,
    };
    let mut known = HashSet::from([start]);
    let mut left = vec![start];
    while let Some(world) = left.pop() {
        world.check();
        left.extend(world.anything().into_iter().filter(|next| known.insert(*next)));
    }
    assert!(known.len() > 2_000, "{}", known.len());
    let ends = |world: &World| {
        let asked = world.newest.0 == world.spec && world.template == world.spec;
        match world.newest.1 {
            Some(Outcome::Succeeded) => asked && world.new_ready,
            Some(Outcome::RolledBack) => {
                world.newest.0 == world.spec && world.template == world.good && world.new_ready
            }
            Some(Outcome::Held) => asked && world.spec == Of::Bad,
            _ => false,
        }
    };
    let good = that_end(&known, |world| world.goes_on(), ends);
    let goes = |world: &&World| world.etcd && !world.paused;
    let stuck: Vec<_> = known.iter().filter(goes).filter(|world| !good.contains(world)).collect();
    assert!(stuck.is_empty(), "{} of {} never end, such as {:#?}", stuck.len(), known.len(), stuck.first());
    for outcome in [Outcome::Succeeded, Outcome::RolledBack, Outcome::Held] {
        assert!(known.iter().any(|world| ends(world) && world.newest.1 == Some(outcome)), "{outcome}");
    }
}

#[test]
fn one_that_failed_goes_back_only_while_all_else_is_well() {
    let late = RollbackFacts {
        recorded: None,
        same: true,
        asked_again: false,
        paused: false,
        through: false,
        soaked: false,
        late: true,
        goes_back: true,
        old_well: true,
        rest_well: true,
        way_back: true,
    };
    let writes = |facts| decide_rollback(facts).write;
    assert_eq!(writes(late), Some(RollbackWrite::Outcome(Outcome::RolledBack)));
    for facts in [
        RollbackFacts { goes_back: false, ..late },
        RollbackFacts { old_well: false, ..late },
        RollbackFacts { rest_well: false, ..late },
        RollbackFacts { way_back: false, ..late },
    ] {
        assert_eq!(writes(facts), Some(RollbackWrite::Outcome(Outcome::Held)), "{facts:?}");
    }
    for facts in [
        RollbackFacts { paused: true, ..late },
        RollbackFacts { through: true, ..late },
        RollbackFacts { late: false, ..late },
    ] {
        assert_eq!(writes(facts), None, "{facts:?}");
    }
    let back = RollbackFacts { recorded: Some(Outcome::RolledBack), ..late };
    assert_eq!(decide_rollback(back), RollbackNext { runs: Runs::Good, write: None });
    assert_eq!(writes(RollbackFacts { asked_again: true, ..back }), Some(RollbackWrite::Revision));
    assert_eq!(writes(RollbackFacts { asked_again: true, ..late }), Some(RollbackWrite::Outcome(Outcome::RolledBack)));
}
