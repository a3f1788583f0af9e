//! What schedules ask for at which time.

use super::super::wish::latest;
use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(sleep: &str, wake: &str, zone: &str) -> SleepSchedule {
    let times = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    SleepSchedule { sleep: times(sleep), wake: times(wake), time_zone: zone.to_owned() }
}

fn read(all: &[SleepSchedule]) -> Result<Schedules, String> {
    let mut read = Schedules::read(all, "a", at("2026-01-01T00:00:00Z"))?;
    read.all.iter_mut().for_each(|boundary| boundary.times = boundary.times.clone().punctual());
    Ok(read)
}

/// Whether it is asked to sleep at that time. None: nothing asks.
fn sleeps(all: &[SleepSchedule], now: &str) -> Option<bool> {
    let wishes: Vec<_> = read(all).unwrap().wishes(at("2026-01-01T00:00:00Z"), at(now)).collect();
    latest(&wishes, at(now)).map(|wish| wish.sleep)
}

#[test]
fn the_latest_time_of_all_schedules_counts() {
    let office = [schedule("0 20 * * 1-5", "0 7 * * 1-5", "Europe/Berlin")];
    for (now, wanted) in [
        ("2026-01-01T05:59:59Z", None),
        ("2026-01-01T06:00:00Z", Some(false)),
        ("2026-01-01T18:59:59Z", Some(false)),
        ("2026-01-01T19:00:00Z", Some(true)),
        // Friday evening, the weekend, and Monday morning: nobody has to have been there.
        ("2026-01-02T12:00:00Z", Some(false)),
        ("2026-01-04T12:00:00Z", Some(true)),
        ("2026-01-05T06:00:00Z", Some(false)),
        ("2026-07-03T18:00:00Z", Some(true)),
        ("2026-07-03T17:59:59Z", Some(false)),
    ] {
        assert_eq!(sleeps(&office, now), wanted, "{now}");
    }
    // Two that have one half each, in two zones.
    let apart = [schedule("0 18 * * *", "", "America/New_York"), schedule("", "0 8 * * *", "Europe/Berlin")];
    assert_eq!(sleeps(&apart, "2026-01-02T06:59:00Z"), Some(true));
    assert_eq!(sleeps(&apart, "2026-01-02T07:00:00Z"), Some(false));
    assert_eq!(sleeps(&apart, "2026-01-02T23:00:00Z"), Some(true));
    let never_wakes = [schedule("0 20 * * *", "", "UTC")];
    assert_eq!(sleeps(&never_wakes, "2026-02-01T12:00:00Z"), Some(true));
}

#[test]
fn over_both_changes_of_the_clock_it_sleeps_and_wakes_once_a_night() {
    type Night = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);
    // What it is to do at, and from when to when it sleeps, by UTC.
    let nights: [Night; 8] = [
        ("Europe/Berlin", "0 22 * * *", "0 6 * * *", "2026-03-28", "2026-03-28T21:00:00Z", "2026-03-29T04:00:00Z"),
        ("Europe/Berlin", "0 22 * * *", "0 6 * * *", "2026-10-24", "2026-10-24T20:00:00Z", "2026-10-25T05:00:00Z"),
        // 02:30 is skipped in March: it comes at 03:00. In October it comes twice: the first counts.
        ("Europe/Berlin", "30 2 * * *", "0 6 * * *", "2026-03-29", "2026-03-29T01:00:00Z", "2026-03-29T04:00:00Z"),
        ("Europe/Berlin", "30 2 * * *", "0 6 * * *", "2026-10-25", "2026-10-25T00:30:00Z", "2026-10-25T05:00:00Z"),
        ("Europe/Berlin", "0 22 * * *", "30 2 * * *", "2026-10-24", "2026-10-24T20:00:00Z", "2026-10-25T00:30:00Z"),
        // Half an hour is skipped from 02:00 on in October, and shown twice from 01:30 on in April.
        (
            "Australia/Lord_Howe",
            "0 22 * * *",
            "15 2 * * *",
            "2026-10-03",
            "2026-10-03T11:30:00Z",
            "2026-10-03T15:30:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "45 1 * * *",
            "0 6 * * *",
            "2026-04-05",
            "2026-04-04T14:45:00Z",
            "2026-04-04T19:30:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "0 22 * * *",
            "0 6 * * *",
            "2026-04-04",
            "2026-04-04T11:00:00Z",
            "2026-04-04T19:30:00Z",
        ),
    ];
    for (zone, sleep, wake, day, from, until) in nights {
        let all = [schedule(sleep, wake, zone)];
        let second = SignedDuration::from_secs(1);
        let is = |now: Timestamp| sleeps(&all, &now.to_string());
        let told = (is(at(from) - second), is(at(from)), is(at(until) - second), is(at(until)));
        assert_eq!(told, (Some(false), Some(true), Some(true), Some(false)), "{zone} {sleep} {wake} {day}");
        // In between nothing changes.
        let mut now = at(from);
        while now < at(until) {
            assert_eq!(is(now), Some(true), "{zone} {sleep} at {now}");
            now += SignedDuration::from_mins(5);
        }
    }
}

#[test]
fn the_next_time_is_told_with_what_asks_for_it() {
    let office = [schedule("0 20 * * 1-5", "0 7 * * 1-5", "Europe/Berlin"), schedule("0 14 * * 5", "", "UTC")];
    let next = |sleep, now: &str| {
        let next = read(&office).unwrap().next(sleep, at(now)).unwrap();
        (next.state, next.at.0.to_string(), next.cause)
    };
    let cause = "schedules[1].sleep (0 14 * * 5 UTC)".to_owned();
    assert_eq!(next(true, "2026-01-02T12:00:00Z"), (SleepState::Asleep, "2026-01-02T14:00:00Z".into(), cause));
    let cause = "schedules[0].wake (0 7 * * 1-5 Europe/Berlin)".to_owned();
    assert_eq!(next(false, "2026-01-02T19:00:00Z"), (SleepState::Awake, "2026-01-05T06:00:00Z".into(), cause));
    assert!(read(&office[1..]).unwrap().next(false, at("2026-01-02T12:00:00Z")).is_none());
}

#[test]
fn many_that_wake_at_one_time_are_spread_and_each_keeps_its_second() {
    let office = [schedule("0 20 * * *", "0 7 * * *", "UTC")];
    let now = at("2026-01-01T12:00:00Z");
    let of = |uid: &str| Schedules::read(&office, uid, now).unwrap().next(false, now).unwrap().at.0;
    let all: std::collections::BTreeSet<_> = (0..200).map(|n| of(&format!("uid-{n}"))).collect();
    let wake = at("2026-01-02T07:00:00Z");
    assert!(all.len() > 60 && all.iter().all(|at| (0..120).contains(&at.duration_since(wake).as_secs())), "{all:?}");
    assert_eq!(of("uid-1"), of("uid-1"));
    // What a person asked for after the time counts, though the schedule is put off.
    let read = Schedules::read(&office, "uid-1", now).unwrap();
    let wishes: Vec<_> = read.wishes(Timestamp::MIN, of("uid-1")).collect();
    assert_eq!(latest(&wishes, of("uid-1")).unwrap().at, wake);
}

#[test]
fn what_is_wrong_is_named_with_the_way_out() {
    let wrong = |all: &[SleepSchedule]| read(all).map(|_| ()).unwrap_err();
    let good = schedule("0 20 * * *", "0 7 * * *", "UTC");
    for (bad, said) in [
        (schedule("0 20", "", "UTC"), "spec.hibernation.schedules[1].sleep: 0 20 is no cron schedule with five fields"),
        (schedule("", "0 0 30 2 *", "UTC"), "spec.hibernation.schedules[1].wake: 0 0 30 2 * never comes"),
        (schedule("0 20 * * *", "", "Mars/Base"), "spec.hibernation.schedules[1].timeZone: Mars/Base is no time zone"),
        (schedule("", "", "UTC"), "spec.hibernation.schedules[1]: neither sleep nor wake is set: set one of them"),
        (
            schedule("", "0 20 * * 5", "UTC"),
            "spec.hibernation.schedules[0].sleep and spec.hibernation.schedules[1].wake are both at 2026-01-02T20:00:00Z: a tenant cannot sleep and wake at one minute. Change one of them",
        ),
        (
            schedule("0 8 * * *", "", "Europe/Berlin"),
            "spec.hibernation.schedules[1].sleep and spec.hibernation.schedules[0].wake are both at 2026-01-01T07:00:00Z",
        ),
    ] {
        let why = wrong(&[good.clone(), bad]);
        assert!(why.starts_with(said), "{why}");
    }
    let fine = [good, schedule("30 20 * * *", "0 8 * * 6", "UTC")];
    assert!(read(&fine).is_ok());
}

#[test]
fn however_many_there_are_reading_them_ends_soon() {
    let zones = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"];
    let all: Vec<_> = (0..16).map(|n| schedule("*/2 * * * *", "1-59/2 * * * *", zones[n % 4])).collect();
    // Without a bound this takes minutes.
    assert!(read(&all).is_ok());
}
