use super::*;

const NEWEST: There = There {
    is_newest: true,
    is_of_former: false,
    failed: false,
    is_foreign: false,
    runs: false,
    is_bare: false,
    state: AppState::Deployed,
};
const RUNS: There = There { runs: true, state: AppState::Running, ..NEWEST };
const OLDER: There = There { is_newest: false, ..NEWEST };
const FAILED: There = There { failed: true, state: AppState::Failed, ..NEWEST };

fn wanted(there: Option<There>) -> Place {
    Place { wanted: true, there, ..Place::default() }
}

fn in_wave(wave: usize, there: Option<There>) -> Place {
    Place { wave, ..wanted(there) }
}

fn steps(places: &[Place], at_once: usize, failures: usize) -> Vec<Step> {
    decide(places, at_once, failures).steps
}

#[test]
fn so_many_at_once_and_those_that_wait_take_no_place() {
    let waits = wanted(Some(There { state: AppState::Waiting, ..NEWEST }));
    let new = wanted(None);
    let all = [wanted(Some(RUNS)), waits, wanted(Some(OLDER)), new.clone(), new];
    assert_eq!(steps(&all, 1, 1), [Step::None; 5]);
    assert_eq!(steps(&all, 2, 1), [Step::None, Step::None, Step::None, Step::Create, Step::None]);
    assert_eq!(steps(&all, 3, 1), [Step::None, Step::None, Step::None, Step::Create, Step::Create]);
    assert_eq!(steps(&all, 9, 1), [Step::None, Step::None, Step::Update, Step::Create, Step::Create]);
}

#[test]
fn whatever_runs_takes_a_place_and_one_that_has_a_place_needs_no_other() {
    let again = wanted(Some(There { runs: true, ..FAILED }));
    let new = wanted(None);
    assert_eq!(steps(&[again.clone(), new.clone()], 1, 2), [Step::None, Step::None], "it is tried again");
    assert_eq!(steps(&[wanted(Some(FAILED)), new.clone()], 1, 2), [Step::None, Step::Create], "it waits to be");
    let old = wanted(Some(There { is_newest: false, ..RUNS }));
    assert_eq!(steps(&[wanted(Some(OLDER)), old], 1, 1), [Step::None, Step::Update], "amid an earlier spec");
    let unwanted = Place { wanted: false, ..again };
    assert_eq!(steps(&[unwanted, new], 1, 1), [Step::Delete, Step::None]);
}

#[test]
fn failures_at_the_newest_hold_back_who_has_it_not() {
    let failed = wanted(Some(FAILED));
    let failed_before = wanted(Some(There { is_newest: false, ..FAILED }));
    let new = wanted(None);
    let of = |places: &[Place], failures| {
        let decision = decide(places, 9, failures);
        (decision.steps, decision.held)
    };
    assert_eq!(of(&[failed.clone(), new.clone()], 1), (vec![Step::None, Step::None], true));
    assert_eq!(of(&[failed.clone(), new.clone()], 2), (vec![Step::None, Step::Create], false));
    // Set back, it goes on: what failed at another spec counts no more.
    assert_eq!(of(&[failed_before, new], 1), (vec![Step::Update, Step::Create], false));
    assert!(!of(&[failed.clone(), wanted(Some(NEWEST))], 1).1, "nobody waits");
    let young = Place { is_young: true, ..wanted(None) };
    assert_eq!(of(&[failed, young], 1), (vec![Step::None, Step::None], true), "a new tenant is nobody to try it on");
}

/// A chart may be why a tenant does not answer, and never why somebody sent it to sleep.
#[test]
fn a_failure_of_one_that_rests_or_has_somebody_elses_release_holds_nobody_up() {
    let later = in_wave(1, None);
    let away = Place { is_away: true, ..wanted(Some(FAILED)) };
    let foreign = wanted(Some(There { is_foreign: true, ..FAILED }));
    for (failed, step) in [
        (wanted(Some(FAILED)), Step::None),
        (away.clone(), Step::None),
        (Place { rests: Some(Rest::Asleep), ..away.clone() }, Step::Create),
        (Place { rests: Some(Rest::Paused), ..away.clone() }, Step::Create),
        (foreign, Step::Create),
        (Place { wanted: false, stays: true, ..wanted(Some(FAILED)) }, Step::Create),
    ] {
        for failures in [1, 2] {
            assert_eq!(steps(&[failed.clone(), later.clone()], 9, failures)[1], step, "{failed:?}");
        }
        assert_eq!(decide(&[failed, later.clone()], 9, 1).held, step == Step::None);
    }
}

#[test]
fn what_is_to_go_from_a_tenant_that_is_away_takes_no_place_and_what_waits_for_a_person_stays() {
    let goes = Place { wanted: false, ..wanted(Some(There { state: AppState::Deleting, ..NEWEST })) };
    let new = wanted(None);
    assert_eq!(steps(&[goes.clone(), new.clone()], 1, 1), [Step::None, Step::None]);
    let away = Place { is_away: true, ..goes };
    assert_eq!(steps(&[away.clone(), away, new.clone()], 1, 1), [Step::None, Step::None, Step::Create]);
    let stays = Place { wanted: false, stays: true, ..wanted(Some(NEWEST)) };
    assert_eq!(steps(&[stays, new], 1, 1), [Step::None, Step::Create], "nor that");
}

#[test]
fn who_is_not_wanted_any_more_loses_it_also_amid_failures() {
    let unwanted = Place { wanted: false, ..wanted(Some(NEWEST)) };
    let goes = Place { wanted: false, ..wanted(Some(There { state: AppState::Deleting, ..NEWEST })) };
    let failed = wanted(Some(FAILED));
    assert_eq!(steps(&[failed, unwanted.clone(), goes.clone()], 9, 1), [Step::None, Step::Delete, Step::None]);
    assert_eq!(steps(&[unwanted.clone(), goes], 1, 1), [Step::None, Step::None], "one by one");
    let later = Place { wave: 1, ..unwanted };
    assert_eq!(steps(&[wanted(Some(FAILED)), later], 9, 1), [Step::None, Step::Delete], "in no order");
    let former = wanted(Some(There { is_of_former: true, ..NEWEST }));
    assert_eq!(steps(&[former], 1, 1), [Step::Delete]);
    assert_eq!(steps(&[Place { wanted: false, ..wanted(None) }], 9, 1), [Step::None]);
}

#[test]
fn who_lacks_an_app_that_comes_first_waits_and_takes_no_place() {
    let lacks = |there| Place { lacks: true, ..wanted(there) };
    let all = [lacks(None), lacks(Some(OLDER)), wanted(None), Place { wanted: false, ..lacks(Some(NEWEST)) }];
    assert_eq!(steps(&all, 2, 1), [Step::None, Step::None, Step::Create, Step::Delete]);
    let later = in_wave(1, Some(OLDER));
    assert_eq!(decide(&[lacks(Some(OLDER)), later.clone()], 9, 1).wave, Some(0), "its wave waits for it");
    let away = Place { is_away: true, ..lacks(Some(OLDER)) };
    assert_eq!(steps(&[away, later], 9, 1), [Step::None, Step::Update], "but not for one that sleeps");
}

#[test]
fn a_wave_begins_once_all_before_it_have_the_newest_or_wait() {
    let later = in_wave(2, Some(OLDER));
    let waits = There { state: AppState::Waiting, ..NEWEST };
    for (before, is_away, begins) in [
        (NEWEST, false, true),
        (NEWEST, true, true),
        (waits, true, true),
        (waits, false, false),
        (OLDER, true, true),
        (OLDER, false, false),
        (RUNS, true, false),
        (FAILED, true, false),
        (There { state: AppState::Deleting, ..NEWEST }, true, false),
        (There { is_of_former: true, ..NEWEST }, false, false),
    ] {
        let second = Place { is_away, ..in_wave(1, Some(before)) };
        let decision = decide(&[in_wave(0, Some(NEWEST)), second, later.clone()], 9, 9);
        let step = if begins { Step::Update } else { Step::None };
        assert_eq!((decision.steps[2], decision.wave), (step, Some(if begins { 2 } else { 1 })), "{before:?}");
    }
    assert_eq!(decide(&[in_wave(0, Some(NEWEST)), in_wave(2, Some(NEWEST))], 9, 9).wave, None, "all are through");
    let unwanted = Place { wanted: false, ..in_wave(0, Some(FAILED)) };
    assert_eq!(steps(&[unwanted, later], 9, 9), [Step::Delete, Step::Update]);
}

#[test]
fn a_tenant_that_is_younger_than_the_app_comes_before_all_waves() {
    let young = |there| Place { is_young: true, ..in_wave(2, there) };
    let all = [in_wave(0, Some(OLDER)), in_wave(2, None), young(None), young(Some(OLDER))];
    assert_eq!(steps(&all, 1, 1), [Step::None, Step::None, Step::Create, Step::None]);
    assert_eq!(steps(&all, 9, 1), [Step::Update, Step::None, Step::Create, Step::None]);
    // Nothing of what it was told first can be installed any more, such as where a Secret is another one by now.
    let bare = |there| young(Some(There { is_bare: true, state: AppState::Waiting, ..there }));
    let all = [in_wave(0, Some(OLDER)), bare(OLDER), bare(NEWEST)];
    assert_eq!(steps(&all, 1, 1), [Step::None, Step::Update, Step::None]);
}

#[test]
fn in_a_wave_those_that_lack_something_come_before_those_that_are_well() {
    let older = |state| in_wave(0, Some(There { state, ..OLDER }));
    let all = [older(AppState::Deployed), older(AppState::Waiting), in_wave(0, None), older(AppState::Deployed)];
    assert_eq!(steps(&all, 2, 1), [Step::None, Step::Update, Step::Create, Step::None]);
    assert_eq!(steps(&all, 3, 1), [Step::Update, Step::Update, Step::Create, Step::None]);
}

/// Twelve tenants in three waves, of which these are asleep. What the Jobs come to is up to the caller.
struct Fleet {
    places: Vec<Place>,
    at_once: usize,
    failures: usize,
    /// In which order the waves began to get the newest spec.
    began: Vec<usize>,
}

impl Fleet {
    fn new(at_once: usize, failures: usize, asleep: &[usize]) -> Self {
        let place = |n: usize| Place { is_away: asleep.contains(&n), ..in_wave(n / 4, Some(NEWEST)) };
        Self { places: (0..12).map(place).collect(), at_once, failures, began: vec![] }
    }

    /// The App's spec is another one.
    fn changes(&mut self) {
        self.places.iter_mut().filter_map(|place| place.there.as_mut()).for_each(|there| there.is_newest = false);
        self.began.clear();
    }

    fn at_work(&self) -> usize {
        self.places.iter().filter(|place| place.there.is_some_and(|there| there.runs)).count()
    }

    fn count(&self, is_it: impl Fn(&There) -> bool) -> usize {
        self.places.iter().filter_map(|place| place.there.as_ref()).filter(|there| is_it(there)).count()
    }

    /// One reconcile; then one Job ends as `succeeds` says. Whether anything happened.
    fn round(&mut self, succeeds: bool) -> bool {
        let Decision { steps, wave, .. } = decide(&self.places, self.at_once, self.failures);
        let given = steps.iter().filter(|step| **step != Step::None).count();
        for (place, step) in self.places.iter_mut().zip(steps) {
            match (step, &mut place.there) {
                (Step::None, _) => {}
                (Step::Update, Some(there)) => {
                    assert!(wave.is_none_or(|at| place.wave <= at), "{wave:?} is not through");
                    self.began.push(place.wave);
                    *there = if place.is_away { There { state: AppState::Waiting, ..NEWEST } } else { RUNS };
                }
                (step, there) => panic!("{step:?} {there:?}"),
            }
        }
        assert!(self.at_work() <= self.at_once, "{}", self.at_work());
        let mut there = self.places.iter_mut().filter_map(|place| place.there.as_mut());
        let ended = there.find(|there| there.runs);
        let is_news = given > 0 || ended.is_some();
        if let Some(there) = ended {
            *there = There { is_newest: there.is_newest, ..if succeeds { NEWEST } else { FAILED } };
        }
        is_news
    }

    fn rounds(&mut self, succeeds: bool) {
        let all = (0..100).take_while(|_| self.round(succeeds)).count();
        assert!(all < 100, "it does not come to rest");
    }
}

#[test]
fn twelve_tenants_in_three_waves_get_it_wave_by_wave() {
    for asleep in [&[][..], &[1, 5], &[0, 1, 2, 3]] {
        let mut fleet = Fleet::new(3, 1, asleep);
        fleet.changes();
        fleet.rounds(true);
        assert!(fleet.began.is_sorted(), "{:?}", fleet.began);
        assert_eq!((fleet.began.len(), fleet.count(|there| there.is_newest)), (12, 12));
        assert_eq!(fleet.count(|there| there.state == AppState::Waiting), asleep.len(), "a sleeper holds no wave up");
        assert_eq!(decide(&fleet.places, 3, 1), Decision { steps: vec![Step::None; 12], held: false, wave: None });
    }
}

#[test]
fn a_bad_version_stops_in_its_wave_and_set_back_it_goes_on() {
    for (at_once, failures) in [(1, 1), (2, 2), (3, 1)] {
        let mut fleet = Fleet::new(at_once, failures, &[]);
        fleet.changes();
        fleet.rounds(false);
        let decision = decide(&fleet.places, at_once, failures);
        assert!(decision.held && decision.wave == Some(0), "{decision:?}");
        assert!(fleet.began.iter().all(|wave| *wave == 0), "{:?}", fleet.began);
        // Those that were at work when the first one failed end, too.
        let failed = fleet.count(|there| there.failed);
        assert!((failures..failures + at_once).contains(&failed), "{failed}");
        assert_eq!(fleet.count(|there| !there.is_newest), 12 - failed, "nobody else has it");

        // Of the former spec is who never got the bad one.
        fleet.places.iter_mut().filter_map(|place| place.there.as_mut()).for_each(|there| {
            there.is_newest = !there.is_newest;
        });
        fleet.began.clear();
        fleet.rounds(true);
        assert_eq!((fleet.began.len(), fleet.count(|there| *there == NEWEST)), (failed, 12));
    }
}

/// One failure that is allowed ends its wave all the same: what comes later would meet it, too.
#[test]
fn below_the_limit_a_failure_holds_up_the_later_waves_until_it_is_mended() {
    let mut fleet = Fleet::new(1, 3, &[]);
    fleet.changes();
    fleet.round(false);
    fleet.rounds(true);
    assert_eq!((fleet.count(|there| there.is_newest), fleet.began.len()), (4, 4));
    let decision = decide(&fleet.places, 1, 3);
    assert_eq!((decision.held, decision.wave), (false, Some(0)));
    // It is tried again by itself, and takes the one place while it is.
    let there = fleet.places[0].there.as_mut().unwrap();
    (there.runs, there.failed) = (true, true);
    fleet.rounds(true);
    assert_eq!(fleet.count(|there| *there == NEWEST), 12);
}

/// Whatever happens, all get it in the end, never more than so many at once.
#[test]
fn everybody_gets_it_in_turn() {
    let mut places = vec![wanted(None); 12];
    for round in 0..40 {
        let at_work = places.iter().filter(|p| p.there.is_some_and(|t| t.runs)).count();
        assert!(at_work <= 3, "{round}: {at_work}");
        let steps = steps(&places, 3, 1);
        for (place, step) in places.iter_mut().zip(steps) {
            match (step, &mut place.there) {
                (Step::Create, there) => *there = Some(RUNS),
                (Step::None, Some(there)) => *there = NEWEST,
                (Step::None, None) => {}
                (step, there) => panic!("{step:?} {there:?}"),
            }
        }
    }
    assert!(places.iter().all(|place| place.there == Some(NEWEST)));
}
