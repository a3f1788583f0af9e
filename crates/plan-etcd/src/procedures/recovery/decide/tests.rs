//! Decisions about a recovery, and every state of one that operators, restores and other etcds lead to.

use super::*;
use berth_api::conditions::Reason;
use berth_api::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeSet;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Two of three lost, the third answers, and a backup is there.
fn view(seconds: i64) -> RecoveryView {
    RecoveryView {
        now: at(seconds),
        is_wanted: true,
        within: "acme-9201d5e7".into(),
        of: "acme".into(),
        identity: "0123456789".into(),
        epoch: 1,
        loss: Some(Loss { lost: vec!["etcd-0".into(), "etcd-1".into()], left: vec![("etcd-2".into(), true)] }),
        newest: Some(Newest { name: "nightly".into(), taken_at: Time(at(-3600)) }),
        store: Some("main".into()),
        most: 3,
        ..RecoveryView::default()
    }
}

/// Decides until something is created, or nothing changes any more, as reconciles do.
fn settle(view: &mut RecoveryView) -> RecoveryStep {
    for _ in 0..10 {
        let (step, mut status) = decide_recovery(view);
        if let (RecoveryStep::Begin { name, .. }, Some(status)) = (&step, &mut status) {
            view.begun(status, "team-a", name);
        }
        if matches!(step, RecoveryStep::Begin { .. }) || status == view.old {
            view.old = status;
            return step;
        }
        view.old = status;
        view.now += SignedDuration::from_secs(30);
    }
    panic!("it never settles: {view:?}")
}

fn ended(view: &mut RecoveryView, name: &str) {
    view.attempts.push(Attempt {
        namespace: "team-a".into(),
        name: name.into(),
        has_ended: true,
        says: "the store is gone".into(),
        ..Attempt::default()
    });
}

#[test]
fn what_is_left_comes_first_then_the_newest_backup_then_a_person() {
    let mut v = view(0);
    let (step, status) = decide_recovery(&v);
    assert!(matches!(&step, RecoveryStep::Wait(on) if on.contains("etcd-0, etcd-1")), "a loss has to last: {step:?}");
    assert_eq!(status.unwrap().begun, None);
    let RecoveryStep::Begin { name, source } = settle(&mut v) else { panic!("{v:?}") };
    assert_eq!((name.as_str(), source), ("recover-acme-012345-1-s", Source::Survivors { store: "main".into() }));
    assert!(names::restore_survivors(&name).ends_with("-1-s"), "it is not cut");
    ended(&mut v, &name);
    // Whoever is left may hold more than any backup, and whoever is away is waited for.
    let RecoveryStep::Hold(Reason::RestoreFailed, why) = settle(&mut v) else { panic!("{v:?}") };
    let give_up = "kubectl -n acme-9201d5e7 label pvc/data-etcd-2 berth.dev/allow-deletion=true && kubectl -n acme-9201d5e7 delete pvc/data-etcd-2 pod/etcd-2 --wait=false";
    assert!(why.contains("the store is gone") && why.ends_with(give_up), "{why}");
    v.loss.as_mut().unwrap().left[0].1 = false;
    assert!(matches!(settle(&mut v), RecoveryStep::Wait(on) if on.contains("etcd-2 to answer")));
    // A person says that it is lost, too.
    v.loss.as_mut().unwrap().left.clear();
    let RecoveryStep::Begin { name, source } = settle(&mut v) else { panic!("{v:?}") };
    assert_eq!(name, "recover-acme-012345-1-b");
    assert!(matches!(source, Source::Backup(newest) if newest.name == "nightly"));
    assert_eq!(v.old.as_ref().unwrap().taken_at, Some(Time(at(-3600))), "what was written since is lost");
    ended(&mut v, &name);
    let RecoveryStep::Hold(reason, message) = settle(&mut v) else { panic!("{v:?}") };
    assert!(
        reason == Reason::RestoreFailed
            && message.contains("the store is gone")
            && message.contains("delete etcdrestores.berth.dev recover-acme-012345-1-b")
    );
    v.attempts.pop();
    assert!(matches!(settle(&mut v), RecoveryStep::Begin { .. }), "who deletes it has it tried again");
}

/// Its backup was found damaged; `left`: the newest one of those that are not.
fn damaged(view: &mut RecoveryView, name: &str, left: Option<&str>) {
    ended(view, name);
    let attempt = view.attempts.last_mut().unwrap();
    (attempt.is_damaged, attempt.says) = (true, format!("the backup of {name} is damaged"));
    view.newest = left.map(|name| Newest { name: name.into(), taken_at: Time(at(-7200)) });
}

#[test]
fn after_a_damaged_backup_comes_the_next_older_one_and_then_a_person() {
    let mut v = view(0);
    v.loss.as_mut().unwrap().left.clear();
    let begins = |v: &mut RecoveryView| match settle(v) {
        RecoveryStep::Begin { name, source: Source::Backup(newest) } => (name, newest.name),
        other => panic!("{other:?}"),
    };
    let (first, backup) = begins(&mut v);
    assert_eq!((first.as_str(), backup.as_str()), ("recover-acme-012345-1-b", "nightly"));
    damaged(&mut v, &first, Some("older"));
    let (second, backup) = begins(&mut v);
    assert_eq!((second.as_str(), backup.as_str()), ("recover-acme-012345-1-b-2", "older"));
    assert_eq!(v.old.as_ref().unwrap().restore.as_deref(), Some("team-a/recover-acme-012345-1-b-2"));
    // The operator ended after it had created that one, and has noted nothing.
    let mut again = v.clone();
    again.old.as_mut().unwrap().restore = Some(format!("team-a/{first}"));
    let backup = Some("older".to_owned());
    again.attempts.push(Attempt { namespace: "team-a".into(), name: second.clone(), backup, ..Attempt::default() });
    assert!(matches!(settle(&mut again), RecoveryStep::Wait(on) if on.contains(&second)));
    let noted = again.old.unwrap();
    assert_eq!(noted.restore.as_deref(), Some("team-a/recover-acme-012345-1-b-2"));
    assert_eq!(noted.backup.as_deref(), Some("older"), "whose time is what is missing since");
    // A store that is away is no reason for an older one.
    let mut away = v.clone();
    ended(&mut away, &second);
    let RecoveryStep::Hold(Reason::RestoreFailed, why) = settle(&mut away) else { panic!("{away:?}") };
    assert!(
        why.contains("the store is gone")
            && why.contains("is damaged")
            && why.ends_with("delete etcdrestores.berth.dev recover-acme-012345-1-b-2"),
        "{why}"
    );
    // A person has deleted the first one.
    let mut gone = v.clone();
    damaged(&mut gone, &second, Some("oldest"));
    gone.attempts.remove(0);
    assert_eq!(begins(&mut gone).0, "recover-acme-012345-1-b-3");
    damaged(&mut v, &second, None);
    let RecoveryStep::Hold(Reason::RestoreFailed, why) = settle(&mut v) else { panic!("{v:?}") };
    assert!(why.contains("is left that is not damaged") && why.contains("spec.source.key"), "{why}");
    // Another loss of the same epoch takes names of its own.
    let loss = v.loss.take();
    v.serves = true;
    v.old = decide_recovery(&v).1;
    (v.loss, v.serves, v.newest) = (loss, false, view(0).newest);
    assert_eq!(begins(&mut v).0, "recover-acme-012345-1-b2");
}

#[test]
fn whoever_is_away_is_waited_for_and_without_a_source_a_person_is() {
    let mut v = view(0);
    v.loss.as_mut().unwrap().left[0].1 = false;
    let RecoveryStep::Wait(on) = settle(&mut v) else { panic!("{v:?}") };
    assert!(on.contains("etcd-2 to answer") && on.contains("data-etcd-2"), "{on}");
    let mut v = view(0);
    v.loss.as_mut().unwrap().left.clear();
    assert!(matches!(settle(&mut v), RecoveryStep::Begin { source: Source::Backup(_), .. }));
    v = view(0);
    (v.loss.as_mut().unwrap().left, v.newest) = (vec![], None);
    assert!(
        matches!(settle(&mut v), RecoveryStep::Hold(Reason::DataLost, why) if why.contains("no verified EtcdBackup"))
    );
    v = view(0);
    v.store = None;
    assert!(matches!(settle(&mut v), RecoveryStep::Hold(Reason::DataLost, why) if why.contains("backups.stores")));
}

#[test]
fn nothing_is_done_that_nobody_asked_for_or_that_is_not_proven() {
    let mut v = view(0);
    settle(&mut v);
    let begun = v.old.clone();
    for change in [|v: &mut RecoveryView| v.is_wanted = false, |v: &mut RecoveryView| v.loss = None] {
        let mut v = view(0);
        change(&mut v);
        assert_eq!(decide_recovery(&v), (RecoveryStep::None, None));
        v.old.clone_from(&begun);
        let (step, status) = decide_recovery(&v);
        let status = status.map(|now| RecoveryStatus { ended: None, ..now });
        assert_eq!((step, status), (RecoveryStep::None, begun.clone()), "what was begun is on record");
    }
    // A person was faster.
    let mut v = view(0);
    v.attempts.push(Attempt { name: "mine".into(), says: "waiting".into(), ..Attempt::default() });
    let RecoveryStep::Wait(on) = settle(&mut v) else { panic!("{v:?}") };
    assert!(on.contains("/mine") && v.old.unwrap().begun.is_none(), "{on}");
}

/// Each loss is proven, counts for the fleet, and takes what members hold by then.
#[test]
fn a_loss_that_ended_by_itself_speeds_up_no_other() {
    // Its restore has given up by the next one, or not yet.
    for has_ended in [true, false] {
        let mut v = view(0);
        let RecoveryStep::Begin { name, .. } = settle(&mut v) else { panic!("{v:?}") };
        ended(&mut v, &name);
        v.attempts[0].has_ended = has_ended;
        let loss = v.loss.take();
        // The volume comes back, and the member starts.
        let (step, status) = decide_recovery(&v);
        assert_eq!(
            (step, status.as_ref().unwrap().ended.is_some()),
            (RecoveryStep::None, has_ended),
            "not all have ended"
        );
        v.serves = true;
        let (_, status) = decide_recovery(&v);
        let status = status.unwrap();
        assert!(status.ended.is_some() && status.has_given_up(&format!("team-a/{name}")), "{status:?}");
        (v.old, v.serves) = (Some(status), false);
        assert_eq!(decide_recovery(&v).1, v.old, "at rest nothing changes");
        // Hours later, while others are restored.
        (v.now, v.loss, v.others.begun) = (at(10_000), loss, 3);
        let (step, status) = decide_recovery(&v);
        let status = status.unwrap();
        assert!(matches!(&step, RecoveryStep::Wait(on) if on.contains("to last")), "{step:?}");
        assert_eq!((status.since.clone(), status.round, status.begun.is_some()), (Time(at(10_000)), 2, false));
        assert!(status.has_given_up(&format!("team-a/{name}")) && status.goes_on());
        (v.old, v.now) = (Some(status), at(10_030));
        if !has_ended {
            assert!(matches!(settle(&mut v), RecoveryStep::Wait(on) if on.contains(&name)), "two at once are none");
            assert!(v.old.as_ref().unwrap().begun.is_none());
            v.attempts[0].has_ended = true;
        }
        assert!(matches!(settle(&mut v), RecoveryStep::Hold(Reason::RecoveryHeld, _)));
        v.others.begun = 0;
        let RecoveryStep::Begin { name, source } = settle(&mut v) else { panic!("{v:?}") };
        assert_eq!((name.as_str(), source), ("recover-acme-012345-1-s2", Source::Survivors { store: "main".into() }));
        // And one that ends before anything has begun leaves no trace but that.
        (v.loss, v.now) = (None, at(20_000));
        ended(&mut v, &name);
        (v.old, v.loss) = (decide_recovery(&v).1, view(0).loss);
        v.old = decide_recovery(&v).1;
        v.loss = None;
        v.old = decide_recovery(&v).1;
        v.loss = view(0).loss;
        assert_eq!(decide_recovery(&v).1.unwrap().round, 4);
    }
}

/// A restore that is under way tells nothing of a loss.
#[test]
fn while_etcd_is_stopped_nothing_has_ended_by_itself() {
    let mut v = view(0);
    let RecoveryStep::Begin { name, .. } = settle(&mut v) else { panic!("{v:?}") };
    ended(&mut v, &name);
    (v.loss, v.is_restored) = (None, true);
    assert_eq!(decide_recovery(&v).1, v.old);
}

#[test]
fn how_it_ended_is_on_record_and_another_loss_is_another_recovery() {
    let mut v = view(0);
    let RecoveryStep::Begin { name, .. } = settle(&mut v) else { panic!("{v:?}") };
    ended(&mut v, &name);
    let attempt = v.attempts.last_mut().unwrap();
    (attempt.backup, attempt.taken_at) = (Some("survivors".into()), Some(Time(at(60))));
    attempt.restored_at = Some(Time(at(90)));
    (v.loss, v.epoch) = (None, 2);
    let (step, status) = decide_recovery(&v);
    let status = status.unwrap();
    assert_eq!((step, status.epoch), (RecoveryStep::None, 1));
    assert_eq!((&status.taken_at, &status.restored_at), (&Some(Time(at(60))), &Some(Time(at(90)))));
    (v.old, v.loss, v.now) = (Some(status), view(0).loss, at(10_000));
    let RecoveryStep::Begin { name, .. } = settle(&mut v) else { panic!("{v:?}") };
    assert_eq!((name.as_str(), v.old.unwrap().epoch), ("recover-acme-012345-2-s", 2));
}

#[test]
fn one_that_failed_after_etcd_had_stopped_goes_on_in_the_new_epoch() {
    let mut v = view(0);
    let RecoveryStep::Begin { name, .. } = settle(&mut v) else { panic!("{v:?}") };
    ended(&mut v, &name);
    (v.loss, v.epoch) = (Some(Loss::default()), 2);
    let RecoveryStep::Begin { name, source } = settle(&mut v) else { panic!("{v:?}") };
    assert!(name.ends_with("-2-b") && matches!(source, Source::Backup(_)), "{name}");
}

#[test]
fn no_more_begin_than_the_fleet_may() {
    let mut v = view(0);
    v.others.begun = 3;
    let RecoveryStep::Hold(reason, message) = settle(&mut v) else { panic!("{v:?}") };
    assert!(reason == Reason::RecoveryHeld && message.contains("at most 3"), "{message}");
    assert!(v.old.as_ref().unwrap().begun.is_none());
    v.others.begun = 2;
    let RecoveryStep::Begin { name, .. } = settle(&mut v) else { panic!("{v:?}") };
    // Its second attempt is not held: it counts already.
    ended(&mut v, &name);
    v.others.begun = 9;
    v.loss.as_mut().unwrap().left.clear();
    assert!(matches!(settle(&mut v), RecoveryStep::Begin { .. }));
    v = view(0);
    v.most = 0;
    assert!(matches!(settle(&mut v), RecoveryStep::Hold(Reason::RecoveryHeld, _)), "none at all");
}

/// A fleet that loses its quorums at once. Each reads the others' statuses and later writes its own, in any order, with any time.
#[test]
fn however_reconciles_interleave_no_more_begin_than_may_and_as_many_do() {
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    struct One {
        queued: Option<i64>,
        begun: bool,
        /// What it is about to write.
        writes: Option<(Option<i64>, bool)>,
    }
    for most in 0..3 {
        let (mut seen, mut next) = (BTreeSet::new(), vec![vec![One::default(); 3]]);
        while let Some(fleet) = next.pop() {
            if !seen.insert(fleet.clone()) {
                continue;
            }
            assert!(fleet.iter().filter(|one| one.begun).count() <= most, "{fleet:?}");
            let mut ends = true;
            for (i, one) in fleet.iter().enumerate().filter(|(_, one)| !one.begun) {
                let mut after = fleet.clone();
                if let Some((queued, begun)) = one.writes {
                    after[i] = One { queued, begun, writes: None };
                    next.push(after);
                    ends = false;
                    continue;
                }
                let others = || fleet.iter().enumerate().filter(|(j, _)| *j != i);
                let is_queued = |o: &One| !o.begun && o.queued.is_some();
                for stamp in [1, 2] {
                    let mut v = view(60 + stamp);
                    v.old = Some(RecoveryStatus {
                        queued: one.queued.map(|t| Time(at(60 + t))),
                        ..RecoveryStatus::new(Time(at(0)), 1, 1)
                    });
                    v.others = Others {
                        begun: others().filter(|(_, o)| o.begun).count(),
                        queued: others().filter(|(_, o)| is_queued(o)).count(),
                        earlier: others().any(|(j, o)| is_queued(o) && (o.queued, j) < (one.queued, i)),
                    };
                    v.most = most;
                    let (step, status) = decide_recovery(&v);
                    let queued = status.unwrap().queued.map(|t| t.0.duration_since(at(60)).as_secs());
                    let writes = (queued, matches!(step, RecoveryStep::Begin { .. }));
                    if writes != (one.queued, false) {
                        after[i].writes = Some(writes);
                        next.push(after.clone());
                        ends = false;
                    }
                }
            }
            assert!(!ends || fleet.iter().filter(|one| one.begun).count() == most, "nobody goes on: {fleet:?}");
        }
    }
}
