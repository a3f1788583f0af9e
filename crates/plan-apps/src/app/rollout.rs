//! Who gets an app, and when: from what is there to the next steps.

use berth_api::app::AppState;

/// One `Cluster`, as far as an app is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Whether it is to have it.
    pub(super) wanted: bool,
    /// What of it is there.
    pub(super) there: Option<There>,
    /// It lacks an app that comes first.
    pub(super) lacks: bool,
}

/// An installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct There {
    /// Its spec is as that of the `App`, and its status is of that spec.
    pub(super) is_newest: bool,
    /// It is of another `Cluster` of that name, which is gone.
    pub(super) is_of_former: bool,
    /// It failed since its spec was changed last, and has not succeeded since.
    pub(super) failed: bool,
    /// What it says; that it is being deleted before all else.
    pub(super) state: AppState,
}

/// What is done about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It stays as it is.
    None,
    /// It is made.
    Create,
    /// It is given the newest spec.
    Update,
    /// It is deleted.
    Delete,
}

/// The steps, in the order of the places, and whether others are held back by failures.
pub(super) fn decide(places: &[Place], at_once: usize, failures: usize) -> (Vec<Step>, bool) {
    let there = || places.iter().filter_map(|place| place.there);
    let at_work = |there: &There| match there.state {
        AppState::Deleting => true,
        AppState::Running | AppState::Queued => there.is_newest,
        AppState::Failed | AppState::Waiting | AppState::Deployed => false,
    };
    let mut room = at_once.saturating_sub(there().filter(at_work).count());
    let failed = there().filter(|there| there.is_newest && there.failed).count();
    let held = failed >= failures;
    let mut take = |step: Step| {
        if room == 0 {
            return Step::None;
        }
        room -= 1;
        step
    };
    let mut waits = false;
    let steps = places.iter().map(|place| match place.there {
        Some(there) if there.state == AppState::Deleting => Step::None,
        Some(there) if there.is_of_former => Step::Delete,
        Some(_) if !place.wanted => take(Step::Delete),
        Some(there) if there.is_newest => Step::None,
        None if !place.wanted => Step::None,
        _ if place.lacks => Step::None,
        _ if held => {
            waits = true;
            Step::None
        }
        Some(_) => take(Step::Update),
        None => take(Step::Create),
    });
    let steps = steps.collect();
    (steps, waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWEST: There = There { is_newest: true, is_of_former: false, failed: false, state: AppState::Deployed };

    fn wanted(there: Option<There>) -> Place {
        Place { wanted: true, there, lacks: false }
    }

    fn steps(places: &[Place], at_once: usize, failures: usize) -> Vec<Step> {
        decide(places, at_once, failures).0
    }

    #[test]
    fn so_many_at_once_and_those_that_wait_take_no_place() {
        let running = wanted(Some(There { state: AppState::Running, ..NEWEST }));
        let waits = wanted(Some(There { state: AppState::Waiting, ..NEWEST }));
        let older = wanted(Some(There { is_newest: false, ..NEWEST }));
        let new = wanted(None);
        let all = [running.clone(), waits, older, new.clone(), new];
        assert_eq!(steps(&all, 1, 1), [Step::None; 5]);
        assert_eq!(steps(&all, 2, 1), [Step::None, Step::None, Step::Update, Step::None, Step::None]);
        assert_eq!(steps(&all, 3, 1), [Step::None, Step::None, Step::Update, Step::Create, Step::None]);
        assert_eq!(steps(&all, 9, 1), [Step::None, Step::None, Step::Update, Step::Create, Step::Create]);
    }

    #[test]
    fn failures_at_the_newest_hold_back_who_has_it_not() {
        let failed = wanted(Some(There { failed: true, state: AppState::Failed, ..NEWEST }));
        let failed_before = wanted(Some(There { is_newest: false, failed: true, ..NEWEST }));
        let new = wanted(None);
        assert_eq!(decide(&[failed.clone(), new.clone()], 9, 1), (vec![Step::None, Step::None], true));
        assert_eq!(decide(&[failed.clone(), new.clone()], 9, 2), (vec![Step::None, Step::Create], false));
        // Set back, it goes on: what failed at another spec counts no more.
        assert_eq!(decide(&[failed_before, new], 9, 1), (vec![Step::Update, Step::Create], false));
        assert!(!decide(&[failed, wanted(Some(NEWEST))], 9, 1).1, "nobody waits");
    }

    #[test]
    fn who_is_not_wanted_any_more_loses_it_also_amid_failures() {
        let failed = wanted(Some(There { failed: true, state: AppState::Failed, ..NEWEST }));
        let unwanted = Place { wanted: false, there: Some(NEWEST), lacks: false };
        let goes = Place { wanted: false, there: Some(There { state: AppState::Deleting, ..NEWEST }), lacks: false };
        assert_eq!(steps(&[failed, unwanted.clone(), goes.clone()], 9, 1), [Step::None, Step::Delete, Step::None]);
        assert_eq!(steps(&[unwanted, goes], 1, 1), [Step::None, Step::None], "one by one");
        let former = wanted(Some(There { is_of_former: true, ..NEWEST }));
        assert_eq!(steps(&[former], 1, 1), [Step::Delete]);
        assert_eq!(steps(&[Place { wanted: false, there: None, lacks: false }], 9, 1), [Step::None]);
    }

    #[test]
    fn who_lacks_an_app_that_comes_first_waits_and_takes_no_place() {
        let lacks = |there| Place { lacks: true, ..wanted(there) };
        let older = There { is_newest: false, ..NEWEST };
        let all = [lacks(None), lacks(Some(older)), wanted(None), Place { wanted: false, ..lacks(Some(NEWEST)) }];
        assert_eq!(steps(&all, 2, 1), [Step::None, Step::None, Step::Create, Step::Delete]);
    }

    /// Whatever happens, all get it in the end, never more than so many at once.
    #[test]
    fn everybody_gets_it_in_turn() {
        let mut places = vec![wanted(None); 12];
        for round in 0..40 {
            let at_work = places.iter().filter(|p| p.there.is_some_and(|t| t.state == AppState::Running)).count();
            assert!(at_work <= 3, "{round}: {at_work}");
            let steps = steps(&places, 3, 1);
            for (place, step) in places.iter_mut().zip(steps) {
                match (step, &mut place.there) {
                    (Step::Create, there) => *there = Some(There { state: AppState::Running, ..NEWEST }),
                    (Step::None, Some(there)) => there.state = AppState::Deployed,
                    (Step::None, None) => {}
                    (step, there) => panic!("{step:?} {there:?}"),
                }
            }
        }
        assert!(places.iter().all(|place| place.there == Some(NEWEST)));
    }
}
