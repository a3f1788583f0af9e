//! All states that can be reached.

use super::super::MemberStep;
use super::model::{Bug, GONE, Pod, State};
use berth_plan::model::MemberChange;
use std::collections::BTreeSet;

/// What was seen.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) states: usize,
    /// States that are as asked for.
    pub(super) ends: usize,
}

/// Steps that must be enough for any change.
const ENOUGH: usize = 400;

/// From so many members to so many, with so many faults. Err: what must never happen, and how it came.
pub(super) fn explore(from: i32, to: i32, faults: u32, bug: Bug) -> Result<Report, String> {
    let first = State::new(from, to, faults);
    let mut seen = BTreeSet::from([first.clone()]);
    let (mut open, mut ends, mut well) = (vec![first], 0, BTreeSet::new());
    while let Some(state) = open.pop() {
        ends += usize::from(state.is_done());
        for next in successors(&state, from, bug).map_err(|why| format!("{why}; in {state:#?}"))? {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
        if bug == Bug::None {
            ends_well(&state, &mut well).map_err(|why| format!("{why}; from {state:#?}"))?;
        }
    }
    Ok(Report { states: seen.len(), ends })
}

fn successors(state: &State, from: i32, bug: Bug) -> Result<Vec<State>, String> {
    let mut all = vec![];
    let mut acted = state.clone();
    let step = state.decide(bug);
    acted.carry_out(&step, bug)?;
    all.push(acted);
    let mut ticked = state.clone();
    ticked.tick(bug)?;
    all.push(ticked);
    if let Some(change) = &state.late {
        let mut late = State { late: None, ..state.clone() };
        late.call(change, bug)?;
        all.push(late);
        all.push(State { late: None, ..state.clone() });
    }
    if state.faults > 0 {
        let fault = State { faults: state.faults - 1, ..state.clone() };
        // Nobody hears what became of the call: it is carried out later, or never.
        if let MemberStep::Call { change, .. } = &step {
            all.push(State { late: Some(change.clone()), ..fault.clone() });
        }
        // The database is full: whatever is under way ends, and then room is made.
        if !state.is_full {
            all.push(State { is_full: true, ..fault.clone() });
        }
        // The spec is set back.
        if state.wanted != from {
            all.push(State { wanted: from, ..fault.clone() });
        }
        // A person removes a member, as far as etcd lets them. It counts as two.
        for voter in state.list.iter().filter(|m| !m.learner && state.faults > 1) {
            let mut removed = State { faults: state.faults - 2, ..state.clone() };
            removed.call(&MemberChange::Remove { id: voter.id.clone() }, Bug::None)?;
            if removed.has_quorum() {
                all.push(removed);
            }
        }
        for i in state.pods.keys() {
            if matches!(state.pods[i], Pod::Runs(_)) {
                let mut away = fault.clone();
                away.pods.insert(*i, Pod::Away);
                all.push(away.clone());
                // With its volume.
                away.volumes.insert(*i, None);
                let (_, data, of) = away.voters();
                // What a majority has lost no change of members brings back.
                if data * 2 > of {
                    all.push(away.clone());
                    // With its node.
                    away.volumes.insert(*i, Some(GONE.to_owned()));
                    away.pods.insert(*i, Pod::Stranded);
                    all.push(away);
                }
            }
        }
    }
    Ok(all)
}

/// Once nothing more goes wrong, what was asked for comes, if a quorum is there and etcd lists nobody whom the record does not know. From
/// what is in `well` it does.
fn ends_well(state: &State, well: &mut BTreeSet<State>) -> Result<(), String> {
    let mut state = State { late: None, faults: 0, ..state.clone() };
    let mut way = vec![];
    for _ in 0..ENOUGH {
        if well.contains(&state) {
            well.extend(way);
            return Ok(());
        }
        way.push(state.clone());
        state.tick(Bug::None)?;
        let (_, data, of) = state.voters();
        let step = state.decide(Bug::None);
        if state.is_done() || data * 2 <= of || matches!(step, MemberStep::Stop(..) | MemberStep::Unknown(_)) {
            well.extend(way);
            return Ok(());
        }
        state.carry_out(&step, Bug::None)?;
    }
    Err(format!("it never ends; at last {:?} in {state:#?}", state.decide(Bug::None)))
}
