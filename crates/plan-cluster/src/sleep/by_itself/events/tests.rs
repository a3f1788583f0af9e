use super::*;
use crate::sleep::wish::latest;
use berth_plan::heard::Call;

const MINUTES: fn(i64) -> SignedDuration = SignedDuration::from_mins;

fn at(minutes: i64) -> Timestamp {
    "2026-11-29T20:00:00Z".parse::<Timestamp>().unwrap() + MINUTES(minutes)
}

fn record(state: SleepState, since: i64, by: Option<(Happened, i64)>) -> SleepRecord {
    let by = by.map(|(what, minutes)| Event { what, at: Time(at(minutes)) });
    let by_itself = ByItself { by, ..ByItself::default() };
    SleepRecord {
        state,
        since: Time(at(since)),
        cause: String::new(),
        failed: None,
        backup: None,
        hindrance: None,
        by_itself,
    }
}

/// All use since a day ago.
fn used(last: Option<i64>, now: bool) -> Uses {
    Uses::Known { since: at(-24 * 60), last: last.map(at), now }
}

fn heard(uses: Uses) -> Heard {
    Heard { uses, call: None }
}

fn called(turn: bool) -> Heard {
    Heard { uses: Uses::NotYet, call: Some(Call { at: at(0), turn }) }
}

/// After an hour; it stays for ten minutes.
fn facts<'a>(heard: &'a Heard, record: Option<&'a SleepRecord>) -> Facts<'a> {
    Facts {
        now: at(0),
        after_idle: Some(MINUTES(60)),
        wakes: true,
        stay_for: MINUTES(10),
        most: 2,
        at_once: 7,
        created: at(-10_000),
        heard,
        record,
    }
}

/// What happened, and when.
fn happened(told: &Told) -> Vec<(Happened, Timestamp)> {
    told.events.iter().map(|(what, wish)| (*what, wish.at)).collect()
}

fn sleeps(told: &Told) -> bool {
    let all: Vec<_> = told.events.iter().map(|(_, wish)| wish.clone()).collect();
    latest(&all, at(0)).is_some_and(|wish| wish.sleep)
}

#[test]
fn it_sleeps_once_nobody_was_connected_for_so_long_and_not_before() {
    for (last, now, idle, until) in [
        (Some(-60), false, Some(0), None),
        (Some(-59), false, None, Some(1)),
        (Some(-600), true, None, Some(60)),
        (Some(-600), false, Some(-540), None),
        (None, false, Some(-23 * 60), None),
    ] {
        let heard = heard(used(last, now));
        let told = events(&facts(&heard, None));
        let wanted: Vec<_> = idle.map(|minutes| (Happened::Idle, at(minutes))).into_iter().collect();
        assert_eq!((happened(&told), told.until), (wanted, until.map(at)), "{last:?} {now}");
    }
    let never = heard(used(None, false));
    let off = Facts { after_idle: None, ..facts(&never, None) };
    assert_eq!(events(&off), Told::default());
    let new = Facts { created: at(-30), ..facts(&never, None) };
    assert_eq!(events(&new).until, Some(at(30)), "one that was never used counts from its creation");
    let awake = record(SleepState::Awake, -5, None);
    assert_eq!(events(&facts(&never, Some(&awake))).until, Some(at(55)), "and one that woke from then");
}

#[test]
fn what_nobody_knows_puts_nobody_to_sleep() {
    let unknown = heard(Uses::Unknown("pod a does not tell".to_owned()));
    let told = events(&facts(&unknown, None));
    assert!(told.events.is_empty());
    assert_eq!(told.note.unwrap(), "spec.hibernation.afterIdle: it stays awake, since pod a does not tell");
    let begun = heard(Uses::NotYet);
    let told = events(&facts(&begun, None));
    assert_eq!((told.events, told.note, told.until), (vec![], None, Some(at(1))));
    let young = heard(Uses::Known { since: at(-5), last: Some(at(-600)), now: false });
    assert_eq!(events(&facts(&young, None)).until, Some(at(55)), "a gateway that started lately knows no more");
}

#[test]
fn what_was_told_counts_though_nobody_tells_it_any_more() {
    let nothing = heard(Uses::NotYet);
    for (state, by, asked) in [
        (SleepState::FallingAsleep, Happened::Idle, Some(true)),
        (SleepState::Asleep, Happened::Idle, Some(true)),
        (SleepState::Asleep, Happened::Unused, Some(true)),
        (SleepState::Waking, Happened::Connection, Some(false)),
        (SleepState::Awake, Happened::Connection, Some(false)),
        (SleepState::Waking, Happened::Idle, None),
        (SleepState::Awake, Happened::Idle, None),
        (SleepState::Asleep, Happened::Connection, None),
        (SleepState::Asleep, Happened::Other, None),
    ] {
        let record = record(state, -30, Some((by, -30)));
        let told = events(&facts(&nothing, Some(&record)));
        assert_eq!(told.events.first().map(|(_, wish)| wish.sleep), asked, "{state:?} {by:?}");
    }
    let asleep = record(SleepState::Asleep, -30, Some((Happened::Idle, -30)));
    let removed = Facts { after_idle: None, ..facts(&nothing, Some(&asleep)) };
    assert!(events(&removed).events.is_empty(), "without the field it wakes");
}

#[test]
fn a_connection_wakes_it_in_its_turn() {
    let asleep = record(SleepState::Asleep, -30, Some((Happened::Idle, -30)));
    let told = events(&facts(&called(true), Some(&asleep)));
    assert_eq!(happened(&told), [(Happened::Idle, at(-30)), (Happened::Connection, at(0))]);
    assert!(!sleeps(&told));
    let (full, wakes) = (called(false), called(true));
    let told = events(&facts(&full, Some(&asleep)));
    assert!(sleeps(&told) && told.note.unwrap().contains("7 tenants wake at once at most"));
    let deaf = Facts { wakes: false, ..facts(&wakes, Some(&asleep)) };
    assert!(sleeps(&events(&deaf)));
    for state in [SleepState::Awake, SleepState::Waking] {
        assert!(happened(&events(&facts(&wakes, Some(&record(state, -1, None))))).is_empty(), "{state:?}");
    }
}

#[test]
fn connections_wake_it_so_often_in_an_hour_and_not_amid_a_pause() {
    let mut asleep = record(SleepState::Asleep, -1, Some((Happened::Idle, -30)));
    let call = called(true);
    let woken = |minutes: &[i64]| minutes.iter().map(|minutes| Time(at(*minutes))).collect::<Vec<_>>();
    for (lately, until) in [
        (&[-61, -2][..], None),
        (&[-60, -2][..], None),
        (&[-59, -2][..], Some("20:01")),
        (&[-59, -50, -40][..], Some("20:10")),
    ] {
        asleep.by_itself.woken = woken(lately);
        let told = events(&facts(&call, Some(&asleep)));
        assert_eq!(sleeps(&told), until.is_some(), "{lately:?}");
        if let Some(until) = until {
            let note = told.note.unwrap();
            assert!(note.contains(&format!("no connection wakes it before 2026-11-29T{until}:00Z")), "{note}");
        }
    }
    asleep.by_itself = ByItself { quiet: Some(Time(at(3))), ..ByItself::default() };
    let told = events(&facts(&call, Some(&asleep)));
    assert!(happened(&told).is_empty() && told.note.unwrap().contains("before 2026-11-29T20:03:00Z"));
    asleep.by_itself.quiet = Some(Time(at(0)));
    assert_eq!(happened(&events(&facts(&call, Some(&asleep)))), [(Happened::Connection, at(0))]);
}

#[test]
fn one_that_a_connection_woke_and_nobody_uses_sleeps_again() {
    let woken = |since| record(SleepState::Awake, since, Some((Happened::Connection, since - 1)));
    for (since, last, now, unused, until) in [
        (-10, None, false, Some(0), None),
        (-9, None, false, None, Some(1)),
        (-10, Some(-11), false, Some(0), None),
        // The one that woke it was passed on before it counted as awake.
        (-10, Some(-10), false, None, Some(50)),
        (-10, Some(-3), false, None, Some(57)),
        (-10, None, true, None, Some(60)),
    ] {
        let (heard, record) = (heard(used(last, now)), woken(since));
        let told = events(&facts(&heard, Some(&record)));
        let again: Vec<_> = happened(&told).into_iter().filter(|(what, _)| *what != Happened::Connection).collect();
        let wanted: Vec<_> = unused.map(|minutes| (Happened::Unused, at(minutes))).into_iter().collect();
        assert_eq!((again, sleeps(&told)), (wanted, unused.is_some()), "{since} {last:?} {now}");
        assert_eq!(told.until, until.map(at).or(Some(at(50))), "{since} {last:?} {now}");
    }
    // A gateway that started after the wake does not know what was before.
    let late = heard(Uses::Known { since: at(-4), last: None, now: false });
    assert_eq!(events(&facts(&late, Some(&woken(-10)))).until, Some(at(6)));
}
