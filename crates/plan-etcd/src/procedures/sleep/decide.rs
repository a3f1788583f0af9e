//! Decides the next step into a sleep, or out of it.

#[cfg(test)]
mod tests;

use berth_api::etcd_bootstrap::{Operation, OperationKind, Phase, Record};
use jiff::{SignedDuration, Timestamp};

/// Members that do not come up as they were get what is new after so long: it may be what helps.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// What a decision is made from.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct SleepView<'a> {
    pub(crate) now: Timestamp,
    /// `spec.hibernation.enabled`.
    pub(crate) wanted: bool,
    /// All members were seen together once.
    pub(crate) is_formed: bool,
    /// Why members are not stopped now. None: all are well, and nothing is under way.
    pub(crate) obstacle: Option<String>,
    /// No pod of a member is there, and none is about to be made.
    pub(crate) is_down: bool,
    /// All members serve.
    pub(crate) is_up: bool,
    /// A member's volume is not as it was: whatever is done about that is not done amid a wake.
    pub(crate) has_lost: bool,
    pub(crate) name: &'a str,
    pub(crate) record: &'a Record,
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SleepStep {
    /// It is awake, and is to be.
    #[default]
    None,
    /// It is to sleep, and does not begin to.
    Hold(String),
    /// Its pods end.
    Falling,
    /// It sleeps.
    Asleep(Operation),
    /// Its pods start.
    Waking,
    /// The record first.
    Write(Box<Record>),
}

/// The next step.
pub(crate) fn decide_sleep(view: &SleepView<'_>) -> SleepStep {
    let Some(operation) = view.record.under_way(OperationKind::Sleep) else { return view.awake() };
    match operation.phase {
        Phase::Stop | Phase::Asleep if !view.wanted => view.at(Phase::Start),
        Phase::Stop if view.is_down => view.at(Phase::Asleep),
        Phase::Stop => SleepStep::Falling,
        Phase::Asleep => SleepStep::Asleep(operation.clone()),
        // Whoever wants it asleep again has stopped its clients again.
        Phase::Start if view.wanted => view.at(Phase::Stop),
        Phase::Start if view.is_up || view.has_lost || view.is_late(operation) => view.end(),
        Phase::Start => SleepStep::Waking,
        // Of a newer build: it is awake to this one.
        _ => view.end(),
    }
}

impl SleepView<'_> {
    fn awake(&self) -> SleepStep {
        if !self.wanted {
            return SleepStep::None;
        }
        let under_way = self.record.operation.as_ref().map(|operation| {
            format!("what is under way to end (status.operation: {:?} {})", operation.kind, operation.target)
        });
        if !self.is_formed {
            return SleepStep::Hold("etcd to be formed for the first time".into());
        }
        if let Some(why) = under_way.or_else(|| self.obstacle.clone()) {
            return SleepStep::Hold(why);
        }
        let next = self.record.revise().begin(OperationKind::Sleep, self.name, Phase::Stop, self.now);
        SleepStep::Write(Box::new(next))
    }

    fn at(&self, phase: Phase) -> SleepStep {
        SleepStep::Write(Box::new(self.record.revise().advance(phase, self.now)))
    }

    fn end(&self) -> SleepStep {
        SleepStep::Write(Box::new(self.record.revise().end()))
    }

    fn is_late(&self, operation: &Operation) -> bool {
        self.now.duration_since(operation.since.0) >= PATIENCE
    }
}
