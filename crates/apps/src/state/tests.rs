use super::*;

/// Revisions from 1, each with content of its own: `status`, or `status/label`. All are made by Berth from `old`.
fn history(of: &[&str]) -> Vec<Revision> {
    let one = |(revision, text): (i64, &&str)| {
        let (status, label) = text.split_once('/').unwrap_or((text, text));
        Revision {
            revision,
            status: status.to_owned(),
            label: label.to_owned(),
            digest: format!("d{revision}"),
            marks: marks_of("old"),
            made: Some(revision),
            ..Revision::default()
        }
    };
    (1..).zip(of).map(one).collect()
}

fn marks_of(chart: &str) -> Marks {
    Marks { installation: "ours".into(), chart: chart.into(), values: "v".into() }
}

fn recorded(revision: i64) -> Recorded {
    let manifest_digest = format!("d{revision}");
    Recorded { revision, manifest_digest, chart_digest: "old".into(), values_digest: "v".into() }
}

fn theirs(history: &mut [Revision], revisions: &[i64]) {
    for it in history.iter_mut().filter(|it| revisions.contains(&it.revision)) {
        (it.marks, it.made) = (Marks::default(), None);
    }
}

fn failed(revision: i64) -> Mark {
    Mark { revision, to: Some("failed"), strip: false }
}

fn deployed(revision: i64) -> Mark {
    Mark { revision, to: Some("deployed"), strip: false }
}

#[test]
fn each_state_of_a_release_that_is_not_on_record_has_its_step() {
    for (statuses, wanted, step, marked) in [
        (&[][..], "new", Step::Install, vec![]),
        (&["deployed"], "old", Step::Nothing, vec![]),
        (&["superseded", "deployed"], "new", Step::Upgrade(Some(2)), vec![]),
        // The labels are those of what failed: it is no reason to count as done.
        (&["superseded", "failed"], "old", Step::Upgrade(Some(1)), vec![deployed(1)]),
        (&["failed"], "old", Step::Upgrade(None), vec![]),
        (&["pending-install"], "old", Step::Upgrade(None), vec![failed(1)]),
        (&["deployed", "pending-upgrade"], "old", Step::Upgrade(Some(1)), vec![failed(2)]),
        (&["superseded", "failed", "deployed", "pending-upgrade"], "old", Step::Upgrade(Some(3)), vec![failed(4)]),
        (&["failed", "pending-upgrade"], "old", Step::Upgrade(None), vec![failed(2)]),
        (&["superseded", "pending-rollback"], "old", Step::Upgrade(Some(1)), vec![deployed(1), failed(2)]),
        (&["uninstalling"], "old", Step::Purge, vec![]),
        (&["superseded", "uninstalled"], "old", Step::Purge, vec![]),
    ] {
        let history = history(statuses);
        let decided = decide(&history, None, &marks_of(wanted), false);
        assert_eq!(decided, step, "{statuses:?}");
        if let Step::Upgrade(base) = decided {
            assert_eq!(marks(&history, base), marked, "{statuses:?}");
        }
    }
}

/// Whoever may write Secrets in that namespace may write Helm's record.
#[test]
fn what_berth_deployed_is_the_base_whatever_others_recorded_since() {
    let of = |statuses: &[&str], wanted: &str| {
        let history = history(statuses);
        let step = decide(&history, Some(&recorded(2)), &marks_of(wanted), false);
        let Step::Upgrade(base) = step else { return (step, vec![]) };
        (step, marks(&history, base))
    };
    assert_eq!(of(&["superseded", "deployed"], "old"), (Step::Nothing, vec![]));
    assert_eq!(of(&["superseded", "deployed"], "new"), (Step::Upgrade(Some(2)), vec![]));
    for newer in ["pending-upgrade", "deployed", "superseded", "uninstalling", "strange", "failed/deployed"] {
        assert_eq!(
            of(&["superseded", "superseded", newer], "old"),
            (Step::Upgrade(Some(2)), vec![deployed(2), failed(3)]),
            "{newer}"
        );
    }
    // The labels by which Helm finds what is deployed are written by others, too.
    let older = Mark { revision: 1, to: Some("superseded"), strip: false };
    assert_eq!(
        of(&["superseded/deployed", "deployed/superseded", "failed"], "old"),
        (Step::Upgrade(Some(2)), vec![older, deployed(2)])
    );
    // What somebody began to uninstall is not uninstalled to its end.
    assert_eq!(of(&["superseded", "uninstalling"], "old"), (Step::Upgrade(Some(2)), vec![deployed(2)]));
}

#[test]
fn what_is_not_as_berth_deployed_it_is_no_base() {
    let mut all = history(&["superseded", "deployed"]);
    all[1].digest = "forged".into();
    let record = recorded(2);
    assert_eq!(decide(&all, Some(&record), &marks_of("old"), false), Step::Tampered);
    assert_eq!(removal(&all, Some(&record), "ours", false), Removal::Tampered);
    assert_eq!(decide(&all[..1], Some(&record), &marks_of("new"), false), Step::Tampered, "it was deleted");
    assert_eq!(decide(&[], Some(&record), &marks_of("new"), false), Step::Install);
    // A person has looked at it.
    assert_eq!(decide(&all, Some(&record), &marks_of("new"), true), Step::Upgrade(Some(2)));
}

#[test]
fn labels_do_not_say_that_something_is_deployed_where_berth_has_a_record() {
    let mut all = history(&["superseded", "deployed"]);
    all[1].marks = marks_of("new");
    assert_eq!(decide(&all, Some(&recorded(2)), &marks_of("new"), false), Step::Upgrade(Some(2)));
    assert_eq!(decide(&all, None, &marks_of("new"), false), Step::Nothing);
}

/// Helm hands Berth's labels on to it.
#[test]
fn what_somebody_upgraded_by_hand_is_upgraded() {
    let of = |made, digest: &str| {
        let mut all = history(&["superseded", "superseded", "deployed"]);
        (all[1].made, all[2].made, all[2].digest) = (Some(1), made, digest.into());
        decide(&all, None, &marks_of("old"), false)
    };
    assert_eq!(of(Some(3), "d3"), Step::Nothing);
    assert_eq!(of(Some(1), "d3"), Step::Upgrade(Some(3)));
    assert_eq!(of(None, "d3"), Step::Upgrade(Some(3)), "nobody knows");
    assert_eq!(of(Some(1), "d1"), Step::Nothing, "it was rolled back to what Berth deployed");
    assert_eq!(of(Some(1), "d2"), Step::Upgrade(Some(3)), "and to what somebody else did");
    let mut back = history(&["superseded", "superseded", "deployed"]);
    back[2].digest = "d1".into();
    assert_eq!(decide(&back, Some(&recorded(1)), &marks_of("old"), false), Step::Nothing);
}

#[test]
fn somebody_elses_release_is_left_alone_unless_it_is_adopted() {
    for statuses in [&["deployed"][..], &["deployed", "pending-upgrade"], &["uninstalling"]] {
        let mut all = history(statuses);
        theirs(&mut all, &[1, 2]);
        assert_eq!(decide(&all, None, &marks_of("new"), false), Step::Refuse, "{statuses:?}");
        assert_eq!(removal(&all, None, "ours", false), Removal::Leave(vec![]), "{statuses:?}");
    }
    let mut all = history(&["deployed"]);
    theirs(&mut all, &[1]);
    assert_eq!(decide(&all, None, &marks_of("new"), true), Step::Upgrade(Some(1)));
    // Another App has taken it over since.
    let mut all = history(&["superseded", "deployed"]);
    all[1].marks.installation = "other".into();
    assert_eq!(decide(&all, Some(&recorded(1)), &marks_of("new"), false), Step::Refuse);
    assert_eq!(removal(&all, Some(&recorded(1)), "ours", false), Removal::Leave(vec![]));
    // And failed: it is this one's still.
    all[1].status = "failed".into();
    assert_eq!(decide(&all, Some(&recorded(1)), &marks_of("new"), false), Step::Upgrade(Some(1)));
}

#[test]
fn a_release_that_could_not_be_taken_over_is_given_back() {
    let of = |statuses: &[&str], not_ours: &[i64]| {
        let mut all = history(statuses);
        theirs(&mut all, not_ours);
        assert_eq!(decide(&all, None, &marks_of("new"), false), Step::Refuse, "{statuses:?}");
        match removal(&all, None, "ours", true) {
            Removal::Leave(marks) => marks,
            other => panic!("{statuses:?}: {other:?}"),
        }
    };
    assert_eq!(of(&["deployed", "failed"], &[1]), []);
    assert_eq!(of(&["deployed", "pending-upgrade"], &[1]), [failed(2)]);
    assert_eq!(of(&["superseded", "failed", "pending-rollback"], &[1]), [failed(3), deployed(1)]);
    // Helm has rolled back by itself.
    assert_eq!(of(&["superseded", "failed", "deployed"], &[1, 3]), []);
    // Somebody is at work on it.
    assert_eq!(of(&["deployed", "failed", "pending-upgrade"], &[1, 3]), []);

    // Helm has handed the labels of the try on to what somebody upgraded since.
    let mut all = history(&["superseded", "failed", "deployed"]);
    theirs(&mut all, &[1]);
    all[2].made = Some(2);
    let strip = Mark { revision: 3, to: None, strip: true };
    assert_eq!(removal(&all, None, "ours", true), Removal::Leave(vec![strip]));
    // Once it was whole it is this one's, and goes.
    let mut all = history(&["superseded", "deployed"]);
    theirs(&mut all, &[1]);
    assert_eq!(removal(&all, None, "ours", true), Removal::Uninstall { discard: vec![], hooks: true });
}

#[test]
fn it_is_uninstalled_by_what_berth_deployed() {
    let of = |statuses: &[&str], record: Option<i64>| {
        removal(&history(statuses), record.map(recorded).as_ref(), "ours", false)
    };
    let uninstall = |discard: &[i64], hooks| Removal::Uninstall { discard: discard.to_vec(), hooks };
    assert_eq!(of(&[], Some(1)), Removal::Gone);
    assert_eq!(of(&["deployed"], Some(1)), uninstall(&[], true));
    assert_eq!(of(&["superseded", "deployed", "pending-upgrade"], Some(1)), uninstall(&[2, 3], true));
    assert_eq!(of(&["deployed", "failed"], None), uninstall(&[], true));
    // Its hooks may be what hung, or were never looked at.
    assert_eq!(of(&["pending-install"], None), uninstall(&[], false));
}

/// Whatever is found, it is as it is to be after a few steps, if each does what it says.
#[test]
fn it_ends() {
    let statuses = [
        "deployed",
        "failed",
        "superseded",
        "pending-install",
        "pending-upgrade",
        "pending-rollback",
        "uninstalling",
        "strange",
    ];
    let all = statuses.iter().flat_map(|first| statuses.iter().map(move |second| [*first, *second]));
    for (found, record) in all.flat_map(|found| [None, Some(1), Some(2)].map(|record| (found, record))) {
        let (mut history, mut record) = (history(&found), record.map(recorded));
        for step in 0.. {
            assert!(step < 4, "{found:?}");
            match decide(&history, record.as_ref(), &marks_of("new"), false) {
                Step::Nothing => break,
                step @ (Step::Refuse | Step::Tampered) => panic!("{found:?}: {step:?}"),
                Step::Purge => history.clear(),
                step @ (Step::Install | Step::Upgrade(_)) => {
                    let base = if let Step::Upgrade(base) = step { base } else { None };
                    for mark in marks(&history, base) {
                        let it = history.iter_mut().find(|it| it.revision == mark.revision).unwrap();
                        (it.status, it.label) = (mark.to.unwrap().into(), mark.to.unwrap().into());
                    }
                    // As Helm goes about it.
                    let by_helm = history.iter().rfind(|it| it.label == "deployed").or(history.last());
                    assert_eq!(by_helm.map(|it| it.revision), base.or(history.last().map(|it| it.revision)));
                    assert!(history.last().is_none_or(|it| !is_pending(&it.status)), "{history:?}");
                    let revision = history.last().map_or(1, |it| it.revision + 1);
                    for it in history.iter_mut().filter(|it| it.status == "deployed") {
                        (it.status, it.label) = ("superseded".into(), "superseded".into());
                    }
                    let (status, digest) = ("deployed".to_owned(), format!("d{revision}"));
                    let (marks, made) = (marks_of("new"), Some(revision));
                    let label = status.clone();
                    history.push(Revision { revision, status, label, digest, marks, made, ..Revision::default() });
                    record = Some(Recorded { chart_digest: "new".into(), ..recorded(revision) });
                }
            }
        }
    }
}
