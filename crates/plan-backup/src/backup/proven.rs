//! Which proven backups count, and which of them is the newest. Whoever restores, shows or deletes backups asks here.
//!
//! Never by a node's clock alone: a snapshot was taken after its `EtcdBackup` was created and before it was found proven, both by the API
//! server's clock, and of one etcd's data the revision says which is the newest.

use berth_api::backup::{Damage, EtcdBackup, EtcdBackupStatus, phase};
use berth_api::conditions::{self, ConditionType};
use berth_api::labels;
use berth_api::restore::BackupOf;
use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt;

/// Which backups are looked for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// What they are of, by name.
    pub of: &'a BackupOf,
    /// Whose data it has to be: UID of the `EtcdCluster` that it was first made for. None: that of the backup which was created last, such as
    /// where the etcd is gone.
    pub identity: Option<&'a str>,
    /// They were taken at this time or before, for certain. None: whenever.
    pub until: Option<Timestamp>,
}

impl Wanted<'_> {
    /// Whether it is of the etcd of that name, whose data it ever may have.
    pub fn is_named(&self, backup: &EtcdBackup) -> bool {
        subject(backup) == *self.of
    }
}

/// What a backup is of.
pub(crate) fn subject(backup: &EtcdBackup) -> BackupOf {
    BackupOf { cluster_ref: backup.spec.cluster_ref.clone(), etcd_cluster_ref: backup.spec.etcd_cluster_ref.clone() }
}

/// Whether it was proven, was not found damaged since, and stays.
pub fn is_good(backup: &EtcdBackup) -> bool {
    backup.phase() == Some(phase::VERIFIED) && backup.metadata.deletion_timestamp.is_none() && !is_damaged(backup)
}

/// Whether it may be restored without anybody naming it. Not one of members that a person named, such as where these have different data: it is
/// as good as its member. What a restore took of those that are left is all that there is.
pub(crate) fn counts(backup: &EtcdBackup) -> bool {
    let is_chosen = backup.labels().contains_key(labels::ETCD_RESTORE_UID);
    is_good(backup) && (backup.spec.members.is_empty() || is_chosen)
}

/// Whether it was proven once, and what the store gives back by now is another snapshot.
pub fn is_damaged(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().is_some_and(|status| damage(status).is_some())
}

/// What was found of it. By its condition, where the CustomResourceDefinition is older than the field, so that no API server keeps that.
pub(crate) fn damage(status: &EtcdBackupStatus) -> Option<Damage> {
    let said = || {
        let said = conditions::find(&status.conditions, ConditionType::Damaged).filter(|c| c.status == "True")?;
        let (at, message) = (said.last_transition_time.clone(), said.message.clone());
        Some(Damage { at, by: "an EtcdRestore".into(), message })
    };
    status.damaged.clone().or_else(said)
}

/// When it was found proven, by the API server's clock: its snapshot was taken before that.
pub fn proven_at(backup: &EtcdBackup) -> Option<Timestamp> {
    let status = backup.status.as_ref()?;
    // By a node's clock, for want of a better one.
    let otherwise = || status.verified_at.clone().max(status.taken_at.clone()).map(|at| at.0);
    certain(status).or_else(otherwise).max(created(backup))
}

/// When its snapshot was taken: by the clock of the Job's node, within what is certain.
pub fn taken(backup: &EtcdBackup) -> Option<Timestamp> {
    let status = backup.status.as_ref()?;
    let at = status.taken_at.as_ref()?.0;
    let Some(created) = created(backup) else { return Some(at) };
    let latest = certain(status).unwrap_or(created + LONGEST);
    Some(at.clamp(created, latest.max(created)))
}

/// A Job has an hour.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// When an API server's clock says that it is proven by now.
fn certain(status: &EtcdBackupStatus) -> Option<Timestamp> {
    let is_true = |type_| conditions::find(&status.conditions, type_).filter(|c| c.status == "True");
    // An earlier Berth wrote no `Verified`.
    let said = is_true(ConditionType::Verified).or_else(|| is_true(ConditionType::Ready));
    said.map(|c| c.last_transition_time.0)
}

fn created(backup: &EtcdBackup) -> Option<Timestamp> {
    backup.metadata.creation_timestamp.as_ref().map(|at| at.0)
}

/// How far an etcd's data is in a backup of it: revisions of one epoch are of one history, and each epoch is a later one.
pub(crate) fn furthest(backup: &EtcdBackup) -> (Option<i64>, Option<i64>) {
    let status = backup.status.as_ref();
    (status.and_then(|s| s.epoch), status.and_then(|s| s.revision))
}

/// UID of the `EtcdCluster` that the data was first made for.
pub(crate) fn identity(backup: &EtcdBackup) -> Option<&str> {
    backup.status.as_ref()?.identity.as_deref()
}

/// The newest one that counts: the one with the highest revision of that data.
pub fn newest<'b>(all: impl IntoIterator<Item = &'b EtcdBackup>, wanted: &Wanted<'_>) -> Option<&'b EtcdBackup> {
    let good: Vec<&EtcdBackup> = all.into_iter().filter(|b| counts(b) && wanted.is_named(b)).collect();
    let last = || good.iter().max_by_key(|b| (created(b), taken(b))).and_then(|b| identity(b));
    let whose = wanted.identity.or_else(last);
    let in_time = |b: &EtcdBackup| wanted.until.is_none_or(|until| proven_at(b).is_some_and(|at| at <= until));
    let fit = good.iter().filter(|b| identity(b) == whose && in_time(b));
    fit.max_by_key(|b| (furthest(b), taken(b), &b.metadata.name)).copied()
}

/// Why there is none, as far as that is known: the beginning of a sentence.
pub fn why_none<'b>(all: impl IntoIterator<Item = &'b EtcdBackup>, wanted: &Wanted<'_>) -> Option<String> {
    let named: Vec<&EtcdBackup> = all.into_iter().filter(|b| wanted.is_named(b)).collect();
    let list = |all: Vec<&EtcdBackup>| {
        let names: Vec<&str> = all.iter().take(LISTED).filter_map(|b| b.metadata.name.as_deref()).collect();
        let more = all.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
    };
    let only = |is: &dyn Fn(&EtcdBackup) -> bool| list(named.iter().filter(|b| is(b)).copied().collect());
    let is_its = |b: &EtcdBackup| wanted.identity.is_none_or(|whose| identity(b) == Some(whose));
    if let Some(of_members) = only(&|b| is_good(b) && is_its(b) && !counts(b)) {
        return Some(format!("{of_members} is of chosen members, and is restored by name only"));
    }
    if let Some(late) = only(&|b| is_good(b) && is_its(b)) {
        return Some(format!("{late} was proven after that time, so its snapshot may be newer"));
    }
    if let Some(damaged) = only(&|b| is_damaged(b) && is_its(b)) {
        return Some(format!("{damaged} is damaged"));
    }
    only(&|b| is_good(b) && !is_its(b))
        .map(|others| format!("{others} is of an earlier etcd of this name, which held other data"))
}

/// Names in a sentence.
const LISTED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::backup::BackupRef;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    fn acme() -> BackupOf {
        BackupOf { cluster_ref: Some(BackupRef { name: "acme".into() }), etcd_cluster_ref: None }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// One that was created and proven by the API server's clock, and taken by that of a node.
    fn backup(name: &str, revision: i64, [created, taken, proven]: [&str; 3], but: &Value) -> EtcdBackup {
        let verified = json!({"type": "Verified", "status": "True", "reason": "AsExpected", "message": "", "lastTransitionTime": proven});
        let mut status = json!({
            "phase": "Verified", "identity": "id", "epoch": 1, "revision": revision, "takenAt": taken, "verifiedAt": taken,
            "conditions": [verified],
        });
        status.as_object_mut().unwrap().extend(but.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"clusterRef": {"name": "acme"}, "store": "main"}, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn day(n: u8) -> [String; 3] {
        [0, 1, 2].map(|minute| format!("2026-01-{n:02}T03:0{minute}:00Z"))
    }

    fn of_day(name: &str, n: u8, revision: i64, but: &Value) -> EtcdBackup {
        let times = day(n);
        backup(name, revision, [&times[0], &times[1], &times[2]], but)
    }

    fn name<'b>(all: &'b [EtcdBackup], identity: Option<&str>, until: Option<&str>) -> Option<&'b str> {
        let of = acme();
        newest(all, &Wanted { of: &of, identity, until: until.map(at) }).and_then(|b| b.metadata.name.as_deref())
    }

    #[test]
    fn one_of_members_that_a_person_named_is_restored_by_its_name_only() {
        let mut of_one = of_day("of-one", 2, 20, &json!({}));
        of_one.spec.without_quorum = true;
        of_one.spec.members = vec!["etcd-1".into()];
        let mut all = [of_day("nightly", 1, 10, &json!({})), of_one];
        assert_eq!(name(&all, Some("id"), None), Some("nightly"));
        assert!(is_good(&all[1]));
        all[1].metadata.labels = Some([(labels::ETCD_RESTORE_UID.to_owned(), "r1".to_owned())].into());
        assert_eq!(name(&all, Some("id"), None), Some("of-one"), "a restore took it of those that are left");
    }

    #[test]
    fn a_node_whose_clock_is_ahead_makes_no_backup_a_newer_one() {
        let ahead = json!({"takenAt": "2036-01-01T00:00:00Z", "verifiedAt": "2036-01-01T00:00:30Z"});
        let all = [of_day("old", 1, 10, &ahead), of_day("new", 2, 20, &json!({}))];
        assert_eq!(name(&all, Some("id"), None), Some("new"));
        assert_eq!(name(&all, Some("id"), Some("2026-01-01T12:00:00Z")), Some("old"), "it was proven by then");
        assert_eq!(name(&all, Some("id"), Some("2026-01-03T00:00:00Z")), Some("new"));
        assert_eq!(taken(&all[0]), Some(at("2026-01-01T03:02:00Z")), "no later than it was proven");
        let behind = of_day("old", 1, 10, &json!({"takenAt": "1999-01-01T00:00:00Z"}));
        assert_eq!(taken(&behind), Some(at("2026-01-01T03:00:00Z")), "no earlier than it was created");
        assert_eq!(taken(&all[1]), Some(at("2026-01-02T03:01:00Z")), "a clock that is right is believed");
    }

    #[test]
    fn one_that_was_created_before_a_time_and_taken_after_it_was_not_taken_by_then() {
        let queued =
            backup("queued", 20, ["2026-01-02T00:00:00Z", "2026-01-02T05:00:00Z", "2026-01-02T05:01:00Z"], &json!({}));
        let all = [of_day("old", 1, 10, &json!({})), queued];
        for (until, wanted) in [
            ("2026-01-02T04:00:00Z", Some("old")),
            ("2026-01-02T05:00:30Z", Some("old")),
            ("2026-01-02T05:01:00Z", Some("queued")),
            ("2026-01-01T00:00:00Z", None),
        ] {
            assert_eq!(name(&all, Some("id"), Some(until)), wanted, "{until}");
        }
        // The clock of its node was behind, and it would look as if it had been taken in time.
        let mut all = all;
        all[1].status.as_mut().unwrap().taken_at = Some(Time(at("2026-01-01T23:00:00Z")));
        assert_eq!(name(&all, Some("id"), Some("2026-01-02T04:00:00Z")), Some("old"));
    }

    #[test]
    fn of_what_was_taken_by_then_the_highest_revision_of_the_last_epoch_counts() {
        let all = [
            of_day("ahead", 1, 30, &json!({})),
            of_day("behind", 2, 20, &json!({})),
            of_day("restored", 3, 5, &json!({"epoch": 2})),
        ];
        assert_eq!(name(&all, Some("id"), Some("2026-01-02T12:00:00Z")), Some("ahead"));
        assert_eq!(name(&all, Some("id"), None), Some("restored"));
    }

    #[test]
    fn only_those_count_that_are_good_and_hold_this_etcds_data() {
        let damaged = json!({"damaged": {"at": "2026-01-05T00:00:00Z", "by": "EtcdRestore r", "message": "cut"}});
        let all = [
            of_day("good", 1, 10, &json!({})),
            of_day("damaged", 2, 20, &damaged),
            of_day("failed", 3, 30, &json!({"phase": "Failed"})),
            of_day("others", 4, 40, &json!({"identity": "before"})),
        ];
        assert_eq!(name(&all, Some("id"), None), Some("good"));
        assert_eq!(name(&all, Some("nobody"), None), None);
        assert_eq!(name(&all, None, None), Some("others"), "whose data was backed up last");
        let mut gone = all.clone();
        gone[0].metadata.deletion_timestamp = gone[0].metadata.creation_timestamp.clone();
        assert_eq!(name(&gone, Some("id"), None), None);
        gone[0].metadata.deletion_timestamp = None;
        gone[0].spec.cluster_ref.as_mut().unwrap().name = "initech".into();
        assert_eq!(name(&gone, Some("id"), None), None);
    }

    #[test]
    fn an_older_definition_of_the_resource_loses_no_damage() {
        let said = json!({"type": "Damaged", "status": "True", "reason": "BackupDamaged", "message": "cut", "lastTransitionTime": "2026-01-05T00:00:00Z"});
        let backup = of_day("bad", 1, 10, &json!({"conditions": [said]}));
        assert!(is_damaged(&backup) && !is_good(&backup));
        assert_eq!(damage(backup.status.as_ref().unwrap()).unwrap().message, "cut");
    }

    #[test]
    fn why_there_is_none_is_said() {
        let damaged = json!({"damaged": {"at": "2026-01-05T00:00:00Z", "by": "EtcdRestore r", "message": "cut"}});
        let all = [of_day("good", 2, 10, &json!({})), of_day("bad", 1, 5, &damaged)];
        let why = |all: &[EtcdBackup], identity, until: &str| {
            let of = acme();
            why_none(all, &Wanted { of: &of, identity: Some(identity), until: Some(at(until)) }).unwrap_or_default()
        };
        assert!(why(&all, "id", "2026-01-01T00:00:00Z").starts_with("good was proven after that time"));
        assert_eq!(why(&all[1..], "id", "2100-01-01T00:00:00Z"), "bad is damaged");
        assert!(why(&all, "other", "2100-01-01T00:00:00Z").starts_with("good is of an earlier etcd of this name"));
        assert_eq!(why(&[], "id", "2100-01-01T00:00:00Z"), "");
    }

    #[test]
    fn one_of_an_earlier_berth_says_by_ready_when_it_was_proven() {
        let mut old = of_day("old", 1, 10, &json!({}));
        let status = old.status.as_mut().unwrap();
        status.conditions[0].type_ = "Ready".into();
        assert_eq!(proven_at(&old), Some(at("2026-01-01T03:02:00Z")));
        old.status.as_mut().unwrap().conditions.clear();
        assert_eq!(proven_at(&old), Some(at("2026-01-01T03:01:00Z")), "by the node's clock");
    }
}
