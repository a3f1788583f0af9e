//! Every state that a change of the minor can come to: what is written, one write after the other, with a crash after each; pods that come
//! up, or do not; and a spec that changes its mind at any time.

use super::*;
use crate::explore::that_end;
use std::collections::HashSet;

/// A component as it is: what its workload is to run, the pods that there are of each, those of them that serve, and those that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Component {
    template: Run,
    pods: [Pods; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pods {
    Gone,
    Starting,
    Serve,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    step: Step,
    ask: Ask,
    proven: bool,
    due: bool,
    /// No change is recorded any more.
    done: bool,
    all: [Component; 3],
}

const RUNS: [Run; 3] = [Run::Old, Run::Emulating, Run::New];

impl Component {
    fn at(run: Run) -> Self {
        let pods = RUNS.map(|of| if of == run { Pods::Serve } else { Pods::Gone });
        Self { template: run, pods }
    }

    fn there(self) -> impl Iterator<Item = Run> {
        RUNS.into_iter().zip(self.pods).filter(|(_, pods)| *pods != Pods::Gone).map(|(run, _)| run)
    }

    fn serves(self) -> bool {
        self.pods.contains(&Pods::Serve)
    }

    fn seen(self) -> Seen {
        let current = self.pods[self.template as usize] == Pods::Serve;
        Seen {
            oldest: Some(self.template),
            newest: Some(self.template),
            new_pods: self.there().any(|run| run > Run::Old),
            settled: current && self.there().eq([self.template]),
            serves: self.serves(),
        }
    }

    /// What its controller and kubelets may do next. Pods of those that talk to the API come up only while it serves.
    fn goes_on(self, api: Option<bool>) -> Vec<Self> {
        let mut all = vec![];
        let mut with = |run: Run, pods| {
            let mut next = self;
            next.pods[run as usize] = pods;
            all.push(next);
        };
        for run in RUNS {
            let current = run == self.template;
            let replaced = !current && self.pods[self.template as usize] == Pods::Serve;
            match self.pods[run as usize] {
                Pods::Gone if current => with(run, Pods::Starting),
                Pods::Starting if current && api != Some(false) => with(run, Pods::Serve),
                Pods::Starting if !current => with(run, Pods::Gone),
                Pods::Serve if replaced => with(run, Pods::End),
                Pods::End => with(run, Pods::Gone),
                Pods::Gone | Pods::Starting | Pods::Serve => {}
            }
        }
        all
    }
}

impl World {
    fn facts(self) -> MinorFacts {
        let Self { step, ask, proven, due, all: [api, a, b], .. } = self;
        let answers = api.serves();
        MinorFacts { step, ask, proven, due, answers, api: api.seen(), clients: vec![a.seen(), b.seen()] }
    }

    /// After each write of a reconcile, if it ends there. Nothing recorded counts before it was read again.
    fn writes(self) -> Vec<Self> {
        if self.done {
            return vec![];
        }
        let next = decide_minor(&self.facts());
        let mut all = vec![];
        let mut now = self;
        match next.write {
            Some(MinorWrite::Proven) => now.proven = true,
            Some(MinorWrite::NotProven) => (now.proven, now.due) = (false, false),
            Some(MinorWrite::StepTwo) => now.step = Step::Two,
            Some(MinorWrite::Done) => now.done = true,
            None => {}
        }
        all.push(now);
        let targets = [next.api, next.clients[0], next.clients[1]];
        for (n, target) in targets.into_iter().enumerate() {
            if now.all[n].template != target {
                now.all[n].template = target;
                all.push(now);
            }
        }
        all.retain(|world| *world != self);
        all
    }

    /// What else may happen by itself.
    fn goes_on(self) -> Vec<Self> {
        let mut next = self.writes();
        let api = self.all[0].serves();
        for n in 0..3 {
            next.extend(self.all[n].goes_on((n > 0).then_some(api)).into_iter().map(|component| {
                let mut world = self;
                world.all[n] = component;
                world
            }));
        }
        if self.proven && !self.due {
            next.push(Self { due: true, ..self });
        }
        next
    }

    /// Also what people, and bad luck, do.
    fn anything(self) -> Vec<Self> {
        let mut next = self.goes_on();
        if !self.done {
            next.extend([Ask::New, Ask::Old, Ask::Neither].map(|ask| Self { ask, ..self }));
        }
        for n in 0..3 {
            for run in RUNS {
                if self.all[n].pods[run as usize] == Pods::Serve {
                    let mut world = self;
                    world.all[n].pods[run as usize] = Pods::Starting;
                    next.push(world);
                }
            }
        }
        next
    }

    fn check(self) {
        let [api, ..] = self.all;
        let of_api: Vec<Run> = api.there().collect();
        assert!(
            !(of_api.contains(&Run::Old) && (of_api.contains(&Run::New) || api.template == Run::New)),
            "two steps at once: {self:?}"
        );
        if self.step == Step::One {
            let new = self.all.iter().any(|c| c.template == Run::New || c.there().any(|run| run == Run::New));
            assert!(!new, "served before it is recorded: {self:?}");
        } else {
            let old = self.all.iter().any(|c| c.template == Run::Old || c.there().any(|run| run == Run::Old));
            assert!(!old, "back, or never up, though it counts as served: {self:?}");
        }
    }

    /// A write that is allowed: who talks to the API servers is never made newer than the oldest of them, and they are never made older
    /// than it, unless none of them serves.
    fn check_write(self, after: Self) {
        let (before, now) = (self.all, after.all);
        let oldest = before[0].there().chain([before[0].template]).min().unwrap();
        for n in 1..3 {
            if now[n].template > before[n].template {
                assert!(now[n].template <= oldest, "{n} is newer than the API: {self:?} → {after:?}");
            }
        }
        if now[0].template < before[0].template && before[0].serves() {
            let newest = before[1..].iter().flat_map(|c| c.there().chain([c.template])).max().unwrap();
            assert!(newest <= now[0].template, "older than what talks to it: {self:?} → {after:?}");
        }
    }
}

#[test]
fn every_state_is_safe_and_leads_to_what_was_asked_for() {
    let start = World {
        step: Step::One,
        ask: Ask::New,
        proven: false,
        due: false,
        done: false,
        all: [Component::at(Run::Old); 3],
    };
    let mut known = HashSet::from([start]);
    let mut left = vec![start];
    while let Some(world) = left.pop() {
        world.check();
        for after in world.writes() {
            world.check_write(after);
        }
        left.extend(world.anything().into_iter().filter(|next| known.insert(*next)));
    }
    assert!(known.len() > 5_000, "{}", known.len());
    let ends = |world: &World| {
        let at = |run| world.all == [Component::at(run); 3];
        world.done && if world.step == Step::Two { at(Run::New) } else { at(Run::Old) }
    };
    let good = that_end(&known, |world| world.goes_on(), ends);
    let asks = |world: &&World| world.ask != Ask::Neither || world.step == Step::Two || world.done;
    let stuck: Vec<_> = known.iter().filter(asks).filter(|world| !good.contains(world)).collect();
    assert!(stuck.is_empty(), "{} of {} never end, such as {:#?}", stuck.len(), known.len(), stuck.first());
    let reached = |step| known.iter().any(|world| ends(world) && world.step == step);
    assert!(reached(Step::One) && reached(Step::Two), "there, and back");
}

#[test]
fn what_is_gone_comes_back_no_older_than_what_talks_to_it() {
    let emulating = Component::at(Run::Emulating).seen();
    let facts = MinorFacts {
        step: Step::One,
        ask: Ask::Neither,
        proven: true,
        due: true,
        answers: false,
        api: Seen::default(),
        clients: vec![emulating; 2],
    };
    assert_eq!(decide_minor(&facts).api, Run::Emulating);
    let old = Component::at(Run::Old).seen();
    assert_eq!(decide_minor(&MinorFacts { clients: vec![old; 2], ..facts.clone() }).api, Run::Old);
    // None of the old is left in the second step, whatever somebody restored.
    let next = decide_minor(&MinorFacts { step: Step::Two, api: old, clients: vec![old; 2], ..facts });
    assert_eq!((next.api, next.clients), (Run::New, vec![Run::Emulating; 2]));
}
