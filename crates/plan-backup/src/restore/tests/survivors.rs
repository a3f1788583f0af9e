//! Of an etcd without a quorum: what members hold that are left, and restores that Berth creates itself.

use super::*;
use berth_api::labels;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Restores what is left.
pub(super) fn of_survivors() -> RestoreFixture {
    let mut w = RestoreFixture::new();
    w.restore.spec.source = serde_json::from_value(json!({"survivors": {"store": "main"}})).unwrap();
    w.live(Kind::EtcdBackup)["status"]["revision"] = 7.into();
    is_available(&mut w, "False");
    w.members(&["DataLost", "DataLost", "Answers"]);
    w
}

/// The backup of what is left, as it became.
pub(super) fn survivors(w: &mut RestoreFixture, but: &Value) {
    w.backup("survivors-back", "2026-01-02T00:00:00Z", but);
    let mut labels = json!(RestoreInput(w.input()).owner().labels);
    labels[labels::ETCD_RESTORE_UID] = "r1".into();
    let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, "survivors-back");
    w.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"] = labels;
}

#[test]
fn what_members_hold_that_are_left_is_backed_up_first_and_the_further_one_counts() {
    let mut w = of_survivors();
    let (planned, _) = w.reconcile();
    let backup = job_of(&planned);
    assert_eq!(backup["metadata"]["name"], "survivors-back");
    let spec = |members: &[&str]| json!({"clusterRef": {"name": "acme"}, "store": "main", "withoutQuorum": true, "members": members});
    assert_eq!(backup["spec"], spec(&["etcd-2"]));
    // Members that clients were not told of count, too.
    let mut own = automatic(of_survivors());
    let said = own.says();
    assert!(said.contains("to say which members are left"), "{said}");
    let left = ["etcd-2", "etcd-4"].map(|name| json!({"name": name, "url": "u", "host": "h", "address": "a"}));
    own.live(Kind::EtcdCluster)["status"]["recovery"]["left"] = json!(left);
    assert_eq!(job_of(&own.reconcile().0)["spec"], spec(&["etcd-2", "etcd-4"]));
    survivors(&mut w, &json!({"phase": "Running"}));
    assert!(w.says().contains("survivors-back"), "{}", w.says());
    for (revision, epoch, chosen) in
        [(9, 1, "survivors-back"), (7, 1, "survivors-back"), (5, 1, "one"), (5, 2, "survivors-back")]
    {
        let mut w = of_survivors();
        survivors(&mut w, &json!({"revision": revision, "epoch": epoch}));
        assert_eq!(w.reconcile().1.backup.as_deref(), Some(chosen), "{revision} {epoch}");
    }
    let mut w = of_survivors();
    survivors(&mut w, &json!({"phase": "Failed"}));
    assert!(w.says().starts_with("Failed RestoreFailed"), "{}", w.says());
    assert!(described(&w.reconcile().0).is_empty(), "it ends there");
}

#[test]
fn whoever_may_hold_more_is_waited_for_unless_a_person_leaves_it_out() {
    let mut w = of_survivors();
    w.members(&["DataLost", "DataLost", "Answers", "Away"]);
    let said = w.says();
    let command =
        r#"kubectl -n team-a patch etcdrestore back --type=merge -p '{"spec":{"withoutMembers":["etcd-3"]}}'"#;
    assert!(said.contains("member etcd-3 to answer") && said.contains(command), "{said}");
    assert!(RestorePlanner::plan(w.input()).plan.is_empty());
    w.restore.spec.without_members = vec!["etcd-3".into()];
    assert_eq!(job_of(&w.reconcile().0)["spec"]["members"], json!(["etcd-2"]));
    // It is said that what only it holds is lost.
    w.restore.spec.confirm = None;
    survivors(&mut w, &json!({"revision": 9, "epoch": 1}));
    w.ends(CHECK, Some("Complete"), Some(&checked()));
    w.reconcile();
    let said = w.says();
    assert!(said.contains("ConfirmationRequired") && said.contains("what only etcd-3 of"), "{said}");
    // Without it, and without another one that is left, nothing is.
    let mut w = of_survivors();
    w.members(&["DataLost"; 3]);
    assert!(w.says().contains("no member is left"), "{}", w.says());
}

/// All that is left is in its backup.
#[test]
fn what_is_left_is_restored_without_a_confirmation_where_the_quorum_is_lost_for_good() {
    for (members, tells) in [(["DataLost", "DataLost", "Answers"], true), (["DataLost", "Answers", "Answers"], false)] {
        let mut w = of_survivors();
        w.restore.spec.confirm = None;
        w.members(&members);
        survivors(&mut w, &json!({"revision": 9, "epoch": 1}));
        w.ends(CHECK, Some("Complete"), Some(&checked()));
        w.reconcile();
        let (planned, status) = w.reconcile();
        assert_eq!(annotation_of(&planned).is_some(), tells, "{members:?}: {status:?}");
    }
}

/// Created by Berth, without a confirmation.
fn automatic(mut w: RestoreFixture) -> RestoreFixture {
    w.restore.metadata.labels = Some([(labels::RECOVERY.to_owned(), "id".to_owned())].into());
    w.restore.spec.confirm = None;
    let since = "2026-01-02T00:00:00Z";
    let recovery = json!({"since": since, "epoch": 1, "begun": since, "restore": "team-a/back"});
    w.live(Kind::EtcdCluster)["status"]["recovery"] = recovery;
    w
}

/// Anybody may write a label.
#[test]
fn a_label_alone_makes_none_that_berth_created() {
    let mut w = automatic(RestoreFixture::checked());
    is_available(&mut w, "False");
    w.members(&["Away"; 3]);
    w.live(Kind::EtcdCluster)["status"]["recovery"]["restore"] = "team-a/another".into();
    let said = w.says();
    assert!(said.contains("to say that it created this"), "{said}");
    assert_eq!(annotation_of(&RestorePlanner::plan(w.input())), None);
}

fn is_available(w: &mut RestoreFixture, status: &str) {
    let available = json!({"type": "Available", "status": status, "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z"});
    w.live(Kind::EtcdCluster)["status"]["conditions"] = json!([available]);
}

/// A disk that comes late is no loss any more, though there is no quorum yet. Once etcd's pods end, nobody knows what they hold.
#[test]
fn a_backup_is_not_restored_once_a_member_has_its_data_again() {
    for (at, ends) in [("", true), ("WaitingForClients", true), ("Stop", false), ("Restore", false)] {
        let of = |at: &str| if at.is_empty() { RestoreFixture::checked() } else { RestoreFixture::told(None, at, 1) };
        let mut w = automatic(of(at));
        is_available(&mut w, "False");
        w.members(&["DataLost", "DataLost", "Answers"]);
        // As the etcd says it, which knows who is only about to join.
        w.live(Kind::EtcdCluster)["status"]["recovery"]["left"] =
            json!([{"name": "etcd-2", "url": "u", "host": "h", "address": "a"}]);
        let failed = w.reconcile().1.phase.as_deref() == Some("Failed");
        assert_eq!(failed, ends, "{at}");
        let mut w = automatic(of(at));
        is_available(&mut w, "False");
        w.members(&["DataLost", "DataLost", "Answers"]);
        assert_ne!(w.reconcile().1.phase.as_deref(), Some("Failed"), "{at}: who answers was about to join");
    }
    // A person's, that nobody confirmed, waits for that.
    let mut w = RestoreFixture::told(None, "WaitingForClients", 1);
    w.restore.spec.confirm = None;
    let request = json!({"namespace": TEAM, "name": "back", "uid": "r1", "unconfirmed": true}).to_string();
    w.live(Kind::EtcdCluster)["metadata"]["annotations"] = json!({labels::RESTORE_REQUEST: request});
    is_available(&mut w, "False");
    w.members(&["DataLost", "DataLost", "Answers"]);
    let (planned, _) = w.reconcile();
    assert_eq!(annotation_of(&planned), Some(None), "it is asked for no more");
}

#[test]
fn one_that_berth_created_leaves_an_etcd_alone_that_answers_again() {
    for at in ["", "WaitingForClients", "Stop", "Restore"] {
        for (answers, operation) in [("True", at), ("False", at)] {
            let of =
                |at: &str| if at.is_empty() { RestoreFixture::checked() } else { RestoreFixture::told(None, at, 1) };
            let mut w = automatic(of(operation));
            is_available(&mut w, answers);
            let (planned, status) = w.reconcile();
            let gives_up = answers == "True" && ["", "WaitingForClients"].contains(&at);
            assert_eq!(status.phase.as_deref() == Some("Failed"), gives_up, "{at} {answers}: {status:?}");
            if gives_up {
                assert_eq!(annotation_of(&planned), None, "{at}");
                let ready = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
                assert!(ready.message.ends_with("Nothing was stopped"), "{}", ready.message);
                // Then it asks for nothing any more, and etcd goes on as it was.
                let asks = annotation_of(&w.reconcile().0);
                assert_eq!(asks, (!at.is_empty()).then_some(None), "{at}");
            }
        }
    }
    // A person's goes on, and so does one that a person has confirmed.
    let mut w = automatic(RestoreFixture::told(None, "WaitingForClients", 1));
    w.restore.spec.confirm = Some("c1".into());
    is_available(&mut w, "True");
    assert_eq!(w.reconcile().1.phase.as_deref(), Some("Stopping"));
    // It says of itself that nobody confirmed it.
    let mut w = automatic(RestoreFixture::checked());
    is_available(&mut w, "False");
    assert_eq!(annotation_of(&w.reconcile().0).unwrap().unwrap()["unconfirmed"], true);
    assert!(annotation_of(&RestoreFixture::checked().reconcile().0).unwrap().unwrap()["unconfirmed"].is_null());
}

/// What it has of the members may be older than what they acknowledged meanwhile.
#[test]
fn one_whose_loss_has_ended_does_nothing_at_the_next_one() {
    let since = "2026-01-02T00:00:00Z";
    for (recovery, gives_up) in [
        (json!({"since": since, "epoch": 1, "begun": since, "restore": "team-a/back"}), false),
        (json!({"since": since, "epoch": 1, "begun": since, "restore": "team-a/back", "ended": since}), true),
        (json!({"since": since, "epoch": 1, "round": 2, "restore": "team-a/back"}), true),
    ] {
        let mut w = automatic(RestoreFixture::checked());
        is_available(&mut w, "False");
        w.live(Kind::EtcdCluster)["status"]["recovery"] = recovery.clone();
        assert_eq!(w.reconcile().1.phase.as_deref() == Some("Failed"), gives_up, "{recovery}");
    }
}

/// A person corrects what is bad, and Berth tries something else.
#[test]
fn what_is_bad_ends_one_that_berth_created() {
    for is_automatic in [false, true] {
        let mut w = RestoreFixture::new();
        if is_automatic {
            w = automatic(w);
        }
        is_available(&mut w, "False");
        w.live(Kind::EtcdBackup)["status"]["etcdVersion"] = "3.7.0".into();
        let said = w.says();
        let phase = if is_automatic { "Failed" } else { "Waiting" };
        assert!(said.starts_with(&format!("{phase} RestoreFailed")) && said.contains("cannot read it"), "{said}");
    }
}
