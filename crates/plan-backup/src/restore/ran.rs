//! The Jobs of an `EtcdRestore`, as they go.

use super::input::RestoreInput;
use super::place::Place;
use crate::backup::job::task_of;
use crate::backup::{Owner, outcome};
use berth_api::backup::{Failure, Outcome, Task};
use berth_plan::model::{Stage, State};
use berth_plan::secrets::foreign;
use berth_render::{Object, ObjectKey};

/// How a Job goes.
pub(super) enum Ran {
    /// It is not there.
    Not(State),
    Runs(State),
    Done(Box<Outcome>),
    Failed(Failure),
}

/// Makes it, if it is not there.
pub(super) fn run(
    input: RestoreInput<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    key: &ObjectKey,
    does: &str,
    make: impl FnOnce(&Owner<'_>, &ObjectKey) -> Result<Object, State>,
) -> Ran {
    let owner = input.owner();
    stage.owns.push(key.clone());
    if let Some(live) = input.observed.get(key) {
        if !owner.is_ours(live) {
            return Ran::Not(foreign(key));
        }
        // One that writes to a member's volume may do so still, whoever gives it up.
        let only_reads = matches!(task_of(live), Some(Task::Check(_)));
        let overdue = || outcome::overdue(key, live, input.now).filter(|_| only_reads);
        return match outcome::of(&owner, live).or_else(overdue) {
            Some(Outcome::Failed(failure)) => Ran::Failed(failure),
            Some(said) => Ran::Done(Box::new(said)),
            None => Ran::Runs(outcome::progress(&owner, live, None, does)),
        };
    }
    let made = owner.credentials(&place.store, key).and_then(|secret| Ok((secret, make(&owner, key)?)));
    match made {
        Ok((secret, job)) => Ran::Runs(Owner::begin(stage, secret, job)),
        Err(state) => Ran::Not(state),
    }
}
