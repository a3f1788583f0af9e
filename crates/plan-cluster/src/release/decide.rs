//! The one decision of a change of the minor: what each component runs next, and what is recorded.
//!
//! It looks at what is recorded and at what runs, and at nothing else, so it goes on from wherever it was interrupted. What is recorded
//! changes first, and counts only once it was read again.

/// What a component runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Run {
    /// The old minor.
    Old,
    /// The new minor's binaries, which emulate the old minor.
    Emulating,
    /// The new minor.
    New,
}

/// How far the change has come, by what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    /// The new minor was never served: there is a way back.
    One,
    /// It may have been served: there is none.
    Two,
}

/// What the spec asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ask {
    /// The new minor.
    New,
    /// The old one.
    Old,
    /// What cannot be: everything stays as it is.
    Neither,
}

/// What is seen of a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Seen {
    /// The oldest that its workloads are to run. None: there is none.
    pub(super) oldest: Option<Run>,
    /// The newest that its workloads are to run.
    pub(super) newest: Option<Run>,
    /// A pod of the new minor is there, and be it one that ends; or it may be.
    pub(super) new_pods: bool,
    /// Its workloads are of the release that they are to be of, every pod is up to date and ready, and no other is left, nor ends.
    pub(super) settled: bool,
    /// A pod is ready.
    pub(super) serves: bool,
}

impl Seen {
    fn is_at(self, run: Run) -> bool {
        self.settled && self.oldest == Some(run) && self.newest == Some(run)
    }

    /// Nothing of the new minor runs, or is about to.
    fn is_back(self) -> bool {
        !self.new_pods && self.newest.is_none_or(|run| run == Run::Old)
    }
}

/// All that the decision depends on.
#[derive(Clone, Debug)]
pub(super) struct MinorFacts {
    pub(super) step: Step,
    pub(super) ask: Ask,
    /// It is recorded that the first step was through.
    pub(super) proven: bool,
    /// `spec.upgrade.finalizeAfter` has passed since then.
    pub(super) due: bool,
    /// The API answers.
    pub(super) answers: bool,
    pub(super) api: Seen,
    /// All that a release changes after the API, and waits for.
    pub(super) clients: Vec<Seen>,
}

/// What is to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum MinorWrite {
    /// The first step is through: `finalizeAfter` begins.
    Proven,
    /// It is not, or not any more.
    NotProven,
    /// The second step begins: the new minor counts as served.
    StepTwo,
    /// The change, or the way back, is through.
    Done,
}

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MinorNext {
    pub(super) api: Run,
    pub(super) clients: Vec<Run>,
    pub(super) write: Option<MinorWrite>,
}

/// What is next.
///
/// - Up: the API servers first. When all of them are rolled out and answer, the others.
/// - Back: the others first. When nothing of the new minor is left of them, the API servers; at once if none of these serves, since the
///   others cannot come up without.
pub(super) fn decide_minor(facts: &MinorFacts) -> MinorNext {
    let MinorFacts { step, ask, proven, due, answers, api, clients } = facts;
    let (step, proven, answers) = (*step, *proven, *answers);
    let least = if step == Step::Two { Run::Emulating } else { Run::Old };
    let stays = |seen: &Seen| seen.newest.unwrap_or(least).max(least);
    let up = |goal: Run| {
        let proven = answers && api.is_at(goal);
        (goal, clients.iter().map(|client| if proven { goal } else { stays(client) }).collect())
    };
    let back = || {
        let asked_back = clients.iter().all(|client| client.newest.is_none_or(|run| run == Run::Old));
        let gone = clients.iter().all(|client| client.is_back());
        let api = if gone || (asked_back && !api.serves) { Run::Old } else { api.newest.unwrap_or(Run::Emulating) };
        (api, vec![Run::Old; clients.len()])
    };
    let (next_api, next_clients) = match (step, ask) {
        (Step::Two, _) => up(Run::New),
        (Step::One, Ask::New) => up(Run::Emulating),
        (Step::One, Ask::Old) => back(),
        (Step::One, Ask::Neither) => {
            // One that was deleted comes back no older than what talks to it.
            let with = clients.iter().any(|client| !client.is_back());
            let lost = if with { Run::Emulating } else { Run::Old };
            (api.newest.unwrap_or(lost), clients.iter().map(stays).collect())
        }
    };
    let all = |run: Run| api.is_at(run) && clients.iter().all(|client| client.is_at(run));
    let all_are_to_be = |run: Run| clients.iter().chain([api]).all(|seen| seen.oldest == Some(run));
    let write = match (step, ask) {
        (Step::One, Ask::New) if all(Run::Emulating) && answers => match (proven, due) {
            (false, _) => Some(MinorWrite::Proven),
            (true, true) => Some(MinorWrite::StepTwo),
            (true, false) => None,
        },
        (Step::One, Ask::New) if proven && !all_are_to_be(Run::Emulating) => Some(MinorWrite::NotProven),
        (Step::One, Ask::Old) if all(Run::Old) => Some(MinorWrite::Done),
        (Step::One, Ask::Old) if proven => Some(MinorWrite::NotProven),
        (Step::Two, _) if all(Run::New) => Some(MinorWrite::Done),
        _ => None,
    };
    MinorNext { api: next_api, clients: next_clients, write }
}

#[cfg(test)]
mod tests;
