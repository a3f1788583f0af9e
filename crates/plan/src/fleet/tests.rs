//! Who gets a turn, in tables; and a fleet that is played through with crashes, failures and changes of mind.

mod hostile;

use super::*;
use jiff::SignedDuration;
use serde_json::json;
use std::collections::BTreeSet;

const V: &str = "1.36.3";

fn id(name: &str) -> TenantId {
    TenantId { namespace: "team".into(), name: name.into() }
}

fn member(name: &str, wave: u8, state: Option<TurnState>) -> Member {
    let came_back = state == Some(TurnState::Failed);
    let turn = (state == Some(TurnState::Running)).then(|| V.to_owned());
    Member { id: id(name), wave, to: V.into(), state, came_back, turn, current: true, ..Member::default() }
}

fn limits(max_concurrent: usize, max_failed: usize) -> Rollouts {
    Rollouts { max_concurrent, max_failed, ..Rollouts::default() }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn decided(all: &[Member], limits: &Rollouts) -> Decision {
    decide(all, limits, &Memory::default(), now())
}

fn granted(decision: &Decision) -> Vec<&str> {
    decision.grant.iter().map(|(id, _)| &*id.name).collect()
}

use TurnState::{Blocked, Emulating, Failed, Running, Succeeded, Waiting, Window};

#[test]
fn no_more_at_once_than_may_and_lower_waves_first() {
    let all = [
        member("d", 5, Some(Waiting)),
        member("c", 5, Some(Running)),
        member("b", 5, Some(Waiting)),
        member("a", 5, Some(Waiting)),
    ];
    let decision = decided(&all, &limits(3, 2));
    assert_eq!(granted(&decision), ["a", "b"]);
    assert_eq!(decision.answers[&id("d")], Answer::Full { most: 3, on: Some(id("c")) });
    assert!(granted(&decided(&all, &limits(0, 2))).is_empty(), "0 is a stop");
    for (state, holds_up) in [
        (Waiting, true),
        (Window, true),
        (Running, true),
        (Blocked, false),
        (Emulating, false),
        (Succeeded, false),
        (Failed, false),
    ] {
        let all = [member("early", 1, Some(state)), member("late", 2, Some(Waiting))];
        let decision = decided(&all, &limits(3, 2));
        assert_eq!(!granted(&decision).contains(&"late"), holds_up, "{state}");
        if holds_up {
            assert_eq!(decision.answers[&id("late")], Answer::Wave { wave: 1, on: id("early") });
        }
    }
    let other = Member { to: "1.35.4".into(), ..member("early", 1, Some(Window)) };
    assert_eq!(
        granted(&decided(&[other, member("late", 2, Some(Waiting))], &limits(3, 2))),
        ["late"],
        "other versions"
    );
}

#[test]
fn what_was_not_looked_at_yet_holds_up_higher_waves_and_gets_no_turn() {
    let unseen = Member { unseen: true, current: false, ..member("early", 0, None) };
    let decision = decided(&[unseen, member("late", 5, Some(Waiting))], &limits(3, 2));
    assert!(decision.grant.is_empty() && decision.open);
    let stale = Member { current: false, ..member("a", 5, Some(Waiting)) };
    assert!(decided(&[stale], &limits(3, 2)).grant.is_empty());
}

#[test]
fn a_wave_waits_for_the_soak_of_those_before() {
    let through = Member { since: Some(now() - SignedDuration::from_mins(4)), ..member("early", 0, Some(Succeeded)) };
    let all = [through, member("late", 5, Some(Waiting))];
    let soak = |mins| Rollouts { wave_soak: SignedDuration::from_mins(mins), ..Rollouts::default() };
    let until = now() + SignedDuration::from_mins(1);
    assert_eq!(decided(&all, &soak(5)).answers[&id("late")], Answer::Soak { until });
    assert_eq!(granted(&decided(&all, &soak(4))), ["late"]);
}

#[test]
fn with_one_too_many_that_came_back_nobody_else_starts_and_those_may_try_again() {
    let mut all: Vec<Member> = ["a", "b", "c"].map(|name| member(name, 5, Some(Failed))).into();
    all.push(member("d", 5, Some(Waiting)));
    let decision = decided(&all, &limits(10, 2));
    let back = ["a", "b", "c"].map(id).to_vec();
    assert_eq!(
        decision.answers[&id("d")],
        Answer::Stopped { version: V.into(), back, only: Some("team".into()), most: 2 }
    );
    assert_eq!(granted(&decided(&all, &limits(10, 3))), ["d"], "the value is raised");
    all[0].came_back = false;
    assert_eq!(granted(&decided(&all, &limits(10, 2))), ["d"], "by flags of its own");
    all[0] = Member { came_back: true, ..member("a", 5, Some(Waiting)) };
    assert_eq!(granted(&decided(&all, &limits(10, 2))), ["a"], "it tries again, and still counts");
    all[0] = member("a", 5, None);
    assert_eq!(granted(&decided(&all, &limits(10, 2))), ["d"], "it was set back");
    let other = Member { to: "1.35.4".into(), ..member("e", 5, Some(Waiting)) };
    let mut all: Vec<Member> = ["a", "b", "c"].map(|name| member(name, 5, Some(Failed))).into();
    all.push(other);
    assert_eq!(granted(&decided(&all, &limits(10, 2))), ["e"], "towards another version");
}

#[test]
fn teams_take_turns_in_a_wave_and_a_lower_wave_comes_first() {
    let of = |team: &str, name: &str, wave, state| {
        let id = TenantId { namespace: team.into(), name: name.into() };
        Member { id, ..member(name, wave, Some(state)) }
    };
    let many: Vec<Member> = (0..9).map(|n| of("big", &format!("a{n}"), 5, Waiting)).collect();
    let others = [of("small", "b", 5, Waiting), of("tiny", "c", 5, Waiting), of("tiny", "d", 5, Waiting)];
    let all = [many.clone(), others.to_vec()].concat();
    assert_eq!(granted(&decided(&all, &limits(5, 2))), ["a0", "b", "c", "a1", "d"]);
    // Who runs counts: the others of that team come later.
    let runs = [all.clone(), vec![of("big", "z", 5, Running)]].concat();
    assert_eq!(granted(&decided(&runs, &limits(4, 2))), ["b", "c", "a0"]);
    let early = [many, vec![of("big", "e", 0, Waiting), of("small", "b", 5, Waiting)]].concat();
    assert_eq!(granted(&decided(&early, &limits(5, 2))), ["e"], "a team's lower wave holds up the higher ones");
}

fn of_team(team: &str, member: Member) -> Member {
    Member { id: TenantId { namespace: team.into(), ..member.id.clone() }, ..member }
}

#[test]
fn a_team_whose_tenants_fail_stops_itself_and_nobody_else() {
    let back = |wave| ["a", "b", "c"].map(|name| of_team("evil", member(name, wave, Some(Failed))));
    let waits = [of_team("evil", member("d", 9, Some(Waiting))), of_team("good", member("e", 9, Some(Waiting)))];
    let all = |wave| [&back(wave)[..], &waits].concat();
    let decision = decided(&all(DEFAULT_WAVE), &limits(10, 2));
    assert_eq!(granted(&decision), ["e"]);
    assert!(matches!(&decision.answers[&waits[0].id], Answer::Stopped { only: Some(team), .. } if team == "evil"));
    assert!(granted(&decided(&all(4), &limits(10, 2))).is_empty(), "a wave that the platform gave");
    let another = [&all(DEFAULT_WAVE)[..], &[of_team("other", member("f", 5, Some(Failed)))]].concat();
    assert_eq!(granted(&decided(&another, &limits(10, 2))), ["e"], "for others that is one, and one of another team");
    assert_eq!(granted(&decided(&all(DEFAULT_WAVE), &limits(10, 0))), ["e"], "whatever the value is");
    let third = [&another[..], &[of_team("third", member("g", 5, Some(Failed)))]].concat();
    let decision = decided(&third, &limits(10, 2));
    assert!(granted(&decision).is_empty(), "three teams'");
    let Answer::Stopped { back, only: None, .. } = &decision.answers[&waits[1].id] else { panic!("{decision:?}") };
    assert_eq!(back.len(), 5);
    assert_eq!(granted(&decided(&another, &limits(10, 4))), ["d", "e"], "four may");
}

#[test]
fn a_team_leaves_a_place_to_others_if_there_are_others() {
    let many: Vec<Member> = (0..9).map(|n| of_team("big", member(&format!("a{n}"), 5, Some(Waiting)))).collect();
    assert_eq!(granted(&decided(&many, &limits(3, 2))), ["a0", "a1", "a2"]);
    let rests = [&many[..], &[of_team("small", member("b", 5, None))]].concat();
    assert_eq!(granted(&decided(&rests, &limits(3, 2))), ["a0", "a1"], "others may come");
    assert_eq!(granted(&decided(&rests, &limits(1, 2))), ["a0"], "of one place none can be left");
}

#[test]
fn a_turn_is_counted_for_others_as_long_as_a_change_can_take() {
    let endless = of_team("evil", member("a", 5, Some(Running)));
    let waits = [of_team("evil", member("b", 5, Some(Waiting))), of_team("good", member("c", 5, Some(Waiting)))];
    let all = [&[endless][..], &waits].concat();
    let before = decided(&all, &limits(1, 2)).memory;
    let after = |turn: SignedDuration| decide(&all, &limits(1, 2), &before, now() + turn);
    assert!(granted(&after(LONGEST_TURN)).is_empty());
    let late = after(LONGEST_TURN + SignedDuration::from_secs(1));
    assert_eq!(granted(&late), ["c"], "and its own team waits for it");
}

#[test]
fn who_had_a_turn_last_comes_last_and_then_who_waits_longest_comes_first() {
    let since = |hours: i64, member| Member { since: Some(now() - SignedDuration::from_hours(hours)), ..member };
    let served = |member| Member { served: Some(now() - SignedDuration::from_hours(1)), ..member };
    let all = [
        served(since(9, of_team("a-team", member("a", 5, Some(Waiting))))),
        since(1, of_team("b-team", member("b", 5, Some(Waiting)))),
        since(2, of_team("c-team", member("c", 5, Some(Waiting)))),
    ];
    assert_eq!(granted(&decided(&all, &limits(3, 2))), ["c", "b", "a"]);
    // One that was asked for too long ago comes before no other wave.
    let late = Member { asked: Some(now() - PATIENCE), ..of_team("evil", member("a", 5, Some(Waiting))) };
    let all = [late, served(of_team("good", member("b", 8, Some(Waiting))))];
    assert_eq!(granted(&decided(&all, &limits(1, 2))), ["b"]);
}

#[test]
fn a_fleet_that_is_stopped_is_looked_at_when_there_is_news() {
    let back = || (0..3).map(|n| member(&format!("f{n}"), 0, Some(Failed)));
    let stopped: Vec<Member> = back().chain([member("late", 5, Some(Waiting))]).collect();
    let decision = decided(&stopped, &limits(3, 2));
    assert!(decision.open && decision.stands, "{decision:?}");
    for other in [
        member("runs", 5, Some(Running)),
        Member { unseen: true, ..member("new", 5, None) },
        Member { to: "1.35.4".into(), ..member("waits", 9, Some(Waiting)) },
    ] {
        let all: Vec<Member> = stopped.iter().cloned().chain([other]).collect();
        assert!(!decided(&all, &limits(3, 2)).stands);
    }
    assert!(!decided(&[], &limits(3, 2)).stands);
}

#[test]
fn nobody_holds_up_higher_waves_for_ever() {
    let holds_up = |early: Member| {
        let all = [early, member("late", 2, Some(Waiting))];
        !granted(&decided(&all, &limits(3, 2))).contains(&"late")
    };
    let window =
        |hours| Member { asked: Some(now() - SignedDuration::from_hours(hours)), ..member("early", 1, Some(Window)) };
    assert!(holds_up(window(7 * 24)));
    assert!(!holds_up(window(9 * 24)), "a window that never opens");
    // Eight days count from the first request of the team, whatever it does meanwhile.
    for (state, since, waited_for) in
        [(Window, 0, false), (Waiting, 0, false), (Running, 0, false), (Running, 30, true)]
    {
        let since = Some(now() - SignedDuration::from_hours(since));
        let asked = Some(now() - PATIENCE);
        let early = Member { asked, since, turn: None, ..member("early", 1, Some(state)) };
        assert_eq!(holds_up(early), waited_for, "{state}: what began in time may end");
    }
    let unseen = Member { asked: Some(now() - PATIENCE), unseen: true, current: false, ..member("early", 1, None) };
    assert!(!holds_up(unseen));
    for state in [Waiting, Window, Running] {
        let early = Member { failures: 1, turn: None, ..member("early", 1, Some(state)) };
        assert!(!holds_up(early), "{state}: it tries again");
    }
    // Nor by ending again and again.
    let soak = Rollouts { wave_soak: SignedDuration::from_mins(5), ..Rollouts::default() };
    for (days, waits) in [(10, true), (12, false)] {
        let asked = Some(now() - SignedDuration::from_hours(24 * days));
        let early = Member { asked, since: Some(now()), ..member("early", 1, Some(Succeeded)) };
        let decision = decided(&[early, member("late", 2, Some(Waiting))], &soak);
        assert_eq!(decision.grant.is_empty(), waits, "{days}");
    }
    for (failures, waits) in [(0, true), (1, true), (2, false)] {
        let early = Member { failures, came_back: false, since: Some(now()), ..member("early", 1, Some(Failed)) };
        let decision = decided(&[early, member("late", 2, Some(Waiting))], &soak);
        assert_eq!(decision.grant.is_empty(), waits, "{failures}");
    }
}

#[test]
fn what_becomes_of_one_tenant_of_a_wave_is_no_news_for_all_that_wait() {
    let mut all: Vec<Member> = (0..10).map(|n| member(&format!("a{n}"), 0, Some(Running))).collect();
    all.extend((0..90).map(|n| member(&format!("b{n:02}"), 5, Some(Waiting))));
    let limits = limits(20, 2);
    let before = decided(&all, &limits).memory;
    all[0].state = Some(Succeeded);
    let after = decide(&all, &limits, &before, now()).answers;
    let told = after.iter().filter(|(id, answer)| before.told.get(id) != Some(answer)).count();
    assert_eq!((before.told.len(), told), (90, 9));
}

#[test]
fn who_gives_back_a_turn_keeps_nobody_waiting() {
    let back = Member { turn: Some(V.into()), ..member("a", 5, Some(Blocked)) };
    let all = [back, member("b", 5, Some(Waiting)), member("c", 5, Some(Waiting))];
    let decision = decided(&all, &limits(2, 2));
    assert_eq!(
        (decision.take_back.as_slice(), granted(&decision)),
        (&[id("a")][..], vec!["b"]),
        "it counts until then"
    );
}

#[test]
fn turns_are_given_back() {
    let holds = |state, until: Option<i64>| Member {
        turn: Some(V.into()),
        until: until.map(|mins| now() + SignedDuration::from_mins(mins)),
        ..member("a", 5, state)
    };
    for (state, until, back) in [
        (None, None, true),
        (Some(Waiting), None, false),
        (Some(Running), None, false),
        (Some(Emulating), Some(1), false),
        (Some(Emulating), Some(60), true),
        (Some(Emulating), Some(-1), false),
        (Some(Emulating), Some(-60), true),
        (Some(Blocked), None, true),
        (Some(Succeeded), None, true),
        (Some(Failed), None, true),
    ] {
        let decision = decided(&[holds(state, until)], &limits(3, 2));
        assert_eq!(!decision.take_back.is_empty(), back, "{state:?} {until:?}");
        let unknown = Member { current: false, ..holds(state, until) };
        assert!(decided(&[unknown], &limits(3, 2)).take_back.is_empty(), "of another spec");
    }
    let open = Member { state: Some(Running), turn: None, ..member("a", 5, None) };
    let full = decided(&[open, member("b", 5, Some(Waiting))], &limits(1, 2));
    assert_eq!(full.answers[&id("b")], Answer::Full { most: 1, on: Some(id("a")) }, "a turn that was lost counts");
    let bumped = Member { turn: Some("1.36.2".into()), rolls: true, ..member("a", 5, Some(Waiting)) };
    let through = Member { rolls: false, ..bumped.clone() };
    assert_eq!(granted(&decided(&[bumped], &limits(1, 2))), ["a"], "a quick bump takes up the same turn");
    assert_eq!(decided(&[through], &limits(1, 2)).take_back, [id("a")], "of what is through");
}

#[test]
fn what_was_said_is_said_again_as_long_as_it_is_true() {
    let all = ["a", "b", "x", "y"].map(|name| member(name, 5, Some(if name < "c" { Running } else { Waiting })));
    let first = decided(&all, &limits(2, 2));
    let on = |decision: &Decision, name| match &decision.answers[&id(name)] {
        Answer::Full { on: Some(on), .. } => on.name.clone(),
        other => panic!("{other:?}"),
    };
    assert_ne!(on(&first, "x"), on(&first, "y"), "they name different ones");
    let mut told = Memory::default();
    told.told.insert(id("x"), Answer::Full { most: 2, on: Some(id("b")) });
    assert_eq!(on(&decide(&all, &limits(2, 2), &told, now()), "x"), "b");
}

fn read(status: &serde_json::Value, version: &str, turn: Option<&str>) -> Option<Member> {
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "acme", "namespace": "team-a", "generation": 2, "labels": {"berth.dev/wave": "2"}},
        "spec": {"version": version}, "status": status,
    });
    Member::of(&serde_json::from_value(object).unwrap(), turn)
}

#[test]
fn a_member_is_what_its_cluster_says() {
    let history = json!([{"revision": 1, "version": "1.36.2", "cause": "Creation"}]);
    let turn = json!({"to": V, "state": "Running", "cameBack": true});
    assert_eq!(read(&json!({"observedGeneration": 2}), V, None), None, "it is being created");
    let rest = read(&json!({"observedGeneration": 2, "history": history}), "1.36.2", None).unwrap();
    assert!(rest.state.is_none() && !rest.unseen && rest.wave == 2);
    let unseen = read(&json!({"observedGeneration": 1, "history": history}), V, None).unwrap();
    assert!(unseen.unseen && unseen.to == V);
    let flags = read(&json!({"observedGeneration": 1, "history": history}), "1.36.2", None).unwrap();
    assert!(!flags.unseen, "no other version");
    let runs = json!({"observedGeneration": 1, "history": history, "turn": turn});
    let runs = read(&runs, "1.36.9", Some(V)).unwrap();
    assert!(runs.runs() && runs.came_back && !runs.unseen && runs.to == V && runs.turn.as_deref() == Some(V));
    for (outcomes, failures) in [
        (&["Succeeded"][..], 0),
        (&["Held", "Succeeded", "Held"], 1),
        (&["", "RolledBack", "Held"], 2),
        (&["Superseded", "Superseded"], 0),
        (&["", "Superseded", "Superseded", "Superseded"], 1),
    ] {
        let one = |(n, outcome): (usize, &&str)| match *outcome {
            "" => json!({"revision": 9 - n, "version": V, "cause": "Upgrade"}),
            outcome => json!({"revision": 9 - n, "version": V, "cause": "Upgrade", "outcome": outcome}),
        };
        let history: Vec<_> = outcomes.iter().enumerate().map(one).collect();
        let status = json!({"observedGeneration": 2, "history": history, "turn": turn});
        assert_eq!(read(&status, V, None).unwrap().failures, failures, "{outcomes:?}");
    }
    let requests = json!([
        {"to": "1.36.2", "since": "2025-12-01T00:00:00Z", "last": "2025-12-02T00:00:00Z"},
        {"to": V, "since": "2025-12-24T00:00:00Z"},
    ]);
    let turn = json!({"to": V, "state": "Waiting", "since": "2025-12-31T00:00:00Z"});
    let mut status = json!({"observedGeneration": 2, "history": history, "turn": turn, "requests": requests});
    let known = read(&status, V, None).unwrap();
    let at = |text: &str| Some(text.parse().unwrap());
    assert_eq!((known.asked, known.served), (at("2025-12-24T00:00:00Z"), at("2025-12-02T00:00:00Z")));
    status["requests"] = json!([]);
    assert_eq!(read(&status, V, None).unwrap().asked, at("2025-12-31T00:00:00Z"), "of an operator that recorded none");
    let other =
        |n: usize| json!({"to": format!("1.36.{}", 100 + n), "since": format!("2025-11-{:02}T00:00:00Z", n + 1)});
    status["requests"] = (0..crate::fleet::requests::MOST).map(other).collect();
    assert_eq!(read(&status, V, None).unwrap().asked, at("2025-11-01T00:00:00Z"), "one of too many");
    let mut cluster = Cluster::default();
    for (label, wanted) in [(None, 5), (Some("0"), 0), (Some("9"), 9), (Some("10"), 5), (Some("x"), 5)] {
        cluster.metadata.labels = label.map(|l| [("berth.dev/wave".to_owned(), l.to_owned())].into());
        assert_eq!(wave(&cluster), wanted, "{label:?}");
    }
}

use berth_api::Cluster;

/// A fleet, played: each tenant as its status and its namespace say it.
#[derive(Clone, Debug)]
struct Played {
    member: Member,
    /// Its pods are being replaced.
    rolls: bool,
    /// It never comes up.
    poisoned: bool,
}

/// Numbers that are as good as any, and the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// What the tenant's reconcile does next, if it is its turn to run.
fn reconcile(tenant: &mut Played, dice: &mut Dice) {
    let has_turn = tenant.member.turn.as_deref() == Some(V);
    let state = tenant.member.state;
    tenant.member.current = true;
    tenant.member.unseen = false;
    tenant.member.state = match state {
        None | Some(Waiting) if has_turn => {
            tenant.rolls = true;
            Some(Running)
        }
        None => Some(Waiting),
        Some(Running) if dice.roll(3) == 0 => {
            tenant.rolls = false;
            tenant.member.came_back = tenant.poisoned;
            Some(if tenant.poisoned { Failed } else { Succeeded })
        }
        state => state,
    };
}

#[test]
fn a_fleet_that_is_played_through_never_has_more_at_once_and_ends() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let limits = limits(1 + dice.roll(4), 2);
        let poison = dice.roll(6);
        let mut fleet: Vec<Played> = (0..12)
            .map(|n| {
                let wave = u8::try_from(n / 4).unwrap();
                let member = Member { unseen: true, current: false, ..member(&format!("t{n:02}"), wave, None) };
                Played { member, rolls: false, poisoned: n < poison }
            })
            .collect();
        let mut told = Memory::default();
        for step in 0.. {
            assert!(step < 4000, "it never ends: seed {seed}: {fleet:#?}");
            let n = dice.roll(fleet.len());
            reconcile(&mut fleet[n], &mut dice);
            // What is decided is carried out one write after the other, and a crash may come after each.
            let all: Vec<Member> = fleet.iter().map(|t| t.member.clone()).collect();
            let decision = decide(&all, &limits, &told, now());
            let dies_after = dice.roll(6);
            let mut writes = 0;
            for tenant in &mut fleet {
                let id = &tenant.member.id;
                let back = decision.take_back.contains(id);
                let grant = decision.grant.iter().find(|(granted, _)| granted == id);
                if (back || grant.is_some()) && writes < dies_after {
                    writes += 1;
                    tenant.member.turn = grant.map(|(_, to)| to.clone());
                    assert!(!(back && tenant.rolls), "it is at work: seed {seed}");
                }
            }
            told = if dies_after < 3 { Memory::default() } else { decision.memory };
            let rolling: Vec<&Played> = fleet.iter().filter(|t| t.rolls).collect();
            assert!(rolling.len() <= limits.max_concurrent, "seed {seed}");
            let waves: BTreeSet<u8> = rolling.iter().map(|t| t.member.wave).collect();
            assert!(waves.len() <= 1, "seed {seed}: waves at once: {waves:?}");
            let done = |t: &Played| matches!(t.member.state, Some(Succeeded | Failed)) && t.member.turn.is_none();
            let failed = fleet.iter().filter(|t| t.member.came_back).count();
            let stands = fleet.iter().all(|t| done(t) || (t.member.state == Some(Waiting) && !t.member.runs()));
            if fleet.iter().all(done) {
                assert!(failed <= limits.max_failed + limits.max_concurrent, "seed {seed}");
                break;
            }
            if failed > limits.max_failed && stands {
                assert!(failed < limits.max_failed + 1 + limits.max_concurrent, "seed {seed}: {failed} failed");
                // They are set back: the rest goes on.
                for tenant in fleet.iter_mut().filter(|t| t.member.came_back) {
                    (tenant.member.came_back, tenant.member.state) = (false, Some(Succeeded));
                }
                for tenant in &mut fleet {
                    tenant.poisoned = false;
                }
            }
        }
    }
}
