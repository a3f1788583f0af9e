//! Whether an etcd's backups are as young as its schedules say: the condition `BackupReady` of what is backed up.

use crate::objects::list;
use berth_api::backup_schedule::EtcdBackupSchedule;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::etcd_cluster::EtcdClusterStatus;
use berth_api::labels;
use berth_plan::etcd_home::Home;
use berth_plan::observed::Observed;
use berth_plan::times::Times;
use berth_render::Kind;
use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt;
use serde_json::Value;

/// How long after its time a backup may take to be proven: its turn in the fleet, and an hour for its Job.
const GRACE: SignedDuration = SignedDuration::from_hours(2);

/// What is to be backed up.
#[derive(Clone, Debug)]
struct Data {
    /// UID of the `EtcdCluster` that it was first made for.
    identity: String,
    /// When the `EtcdCluster` was created.
    since: Option<Timestamp>,
    /// Since when it has no pods, if it has none.
    asleep: Option<Timestamp>,
}

impl Data {
    /// None: it has not been formed yet.
    fn new(etcd: &Value) -> Option<Self> {
        let identity = etcd.pointer("/status/identity")?.as_str()?.to_owned();
        let since = etcd.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        let status: Option<EtcdClusterStatus> = serde_json::from_value(etcd["status"].clone()).ok();
        let asleep = status.as_ref().and_then(EtcdClusterStatus::sleep).map(|sleep| sleep.since.0);
        Some(Self { identity, since: since.and_then(|at| at.parse().ok()), asleep })
    }
}

/// Of a `Cluster`, or of an `EtcdCluster` that belongs to none. `etcd`: its etcd, if that is there. None: nothing is scheduled. The best of several
/// schedules counts: what another one proved is proven.
pub fn verdict(observed: &Observed, home: Home<'_>, etcd: Option<&Value>, now: Timestamp) -> Option<Verdict> {
    let data = etcd.and_then(Data::new);
    let all = list::<EtcdBackupSchedule>(observed, Kind::EtcdBackupSchedule, home.namespace);
    let about = |s: &EtcdBackupSchedule| {
        let of = if home.field == "clusterRef" { &s.spec.cluster_ref } else { &s.spec.etcd_cluster_ref };
        s.metadata.deletion_timestamp.is_none() && of.as_ref().is_some_and(|of| of.name == home.name)
    };
    let judged = all.filter(about).map(|schedule| judge(&schedule, data.as_ref(), now));
    judged.max_by_key(|v| match (v.status, v.reason) {
        (Some(true), _) => 3,
        (None, Reason::Waiting) => 2,
        (Some(false), _) => 1,
        (None, _) => 0,
    })
}

fn judge(schedule: &EtcdBackupSchedule, etcd: Option<&Data>, now: Timestamp) -> Verdict {
    let said = |status, reason, message: String| Verdict::new(ConditionType::BackupReady, status, reason, message);
    let (spec, meta) = (&schedule.spec, &schedule.metadata);
    let name = schedule.name_any();
    let by = if schedule.labels().contains_key(labels::CLUSTER_NAME) {
        format!("{name} (the platform's default)")
    } else {
        name.clone()
    };
    let seed = format!("{}/{name}", schedule.namespace().unwrap_or_default());
    if spec.suspend {
        return said(None, Reason::Paused, format!("EtcdBackupSchedule {name} is suspended: no backup is taken"));
    }
    let times = match Times::read(&spec.schedule, &spec.time_zone, &seed, now) {
        Ok(times) => times,
        Err(why) => return said(Some(false), Reason::InvalidSpec, format!("EtcdBackupSchedule {name}: {why}")),
    };
    let status = schedule.status.as_ref();
    // An earlier Berth did not say whose data it is.
    let whose = status.and_then(|s| s.last_verified_identity.as_ref());
    let is_its = whose.zip(etcd).is_none_or(|(whose, etcd)| *whose == etcd.identity);
    let proven = status.and_then(|s| s.last_verified_time.as_ref()).map(|t| t.0).filter(|_| is_its);
    let made = meta.creation_timestamp.as_ref().map_or(now, |t| t.0);
    let made = etcd.and_then(|etcd| etcd.since).map_or(made, |since| made.max(since));
    let none = if is_its { "" } else { "; its backups so far are of an earlier etcd of this name" };
    if let Some((asleep, at)) = etcd.and_then(|etcd| etcd.asleep).zip(proven) {
        let message = format!(
            "it sleeps since {asleep:.0}, and no backup is taken; the newest was taken at {at:.0}, by EtcdBackupSchedule {by}: what was written after that is on the volumes alone"
        );
        return said(None, Reason::Asleep, message);
    }
    let missed = times.due(proven.unwrap_or(made), now - GRACE);
    match (proven, missed) {
        (Some(at), None) => said(
            Some(true),
            Reason::AsExpected,
            format!("the newest proven backup was taken at {at:.0}, by EtcdBackupSchedule {by}"),
        ),
        (None, None) => {
            said(None, Reason::Waiting, format!("waiting for the first backup of EtcdBackupSchedule {by}{none}"))
        }
        (_, Some(due)) => {
            let newest = proven.map_or_else(
                || format!("no earlier one of this data was taken{none}"),
                |at| format!("the newest was taken at {at:.0}"),
            );
            said(
                Some(false),
                Reason::BackupOverdue,
                format!(
                    "the backup of {due:.0} is not proven, and {newest}: writes since then have no backup. See the status of EtcdBackupSchedule {by}"
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_render::ObjectKey;
    use serde_json::json;

    const ACME: Home<'_> = Home { namespace: "team-a", field: "clusterRef", name: "acme" };

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn seen(all: &[(&str, &Value, &Value)]) -> Observed {
        let mut observed = Observed::default();
        for (name, spec, status) in all {
            let mut whole = json!({"clusterRef": {"name": "acme"}, "store": "main", "schedule": "0 3 * * *"});
            whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let meta = json!({"name": name, "namespace": "team-a", "creationTimestamp": "2026-01-01T00:00:00Z"});
            let kind = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": meta, "spec": whole, "status": status});
            observed.put(ObjectKey::namespaced(Kind::EtcdBackupSchedule, "team-a", *name), kind);
        }
        observed
    }

    fn says(all: &[(&str, &Value, &Value)], now: &str) -> Option<(Option<bool>, Reason)> {
        verdict(&seen(all), ACME, None, at(now)).map(|v| (v.status, v.reason))
    }

    #[test]
    fn without_a_schedule_nothing_is_said() {
        let other = json!({"clusterRef": {"name": "initech"}});
        assert_eq!(says(&[("other", &other, &json!({}))], "2026-01-05T00:00:00Z"), None);
        let alone = json!({"clusterRef": null, "etcdClusterRef": {"name": "acme"}});
        let observed = seen(&[("alone", &alone, &json!({}))]);
        let now = at("2026-01-01T00:10:00Z");
        assert_eq!(verdict(&observed, ACME, None, now), None);
        assert_eq!(
            verdict(&observed, Home { field: "etcdClusterRef", ..ACME }, None, now).unwrap().reason,
            Reason::Waiting
        );
    }

    #[test]
    fn a_backup_that_is_due_has_two_hours() {
        let daily = json!({});
        let proven = |at: &str| json!({"lastVerifiedTime": at});
        let (young, none) = (proven("2026-01-04T03:01:00Z"), json!({}));
        let of = |status: &Value, now: &str| says(&[("nightly", &daily, status)], now).unwrap();
        assert_eq!(of(&none, "2026-01-01T04:59:00Z"), (None, Reason::Waiting));
        assert_eq!(of(&none, "2026-01-01T05:10:00Z"), (Some(false), Reason::BackupOverdue));
        assert_eq!(of(&young, "2026-01-05T02:00:00Z"), (Some(true), Reason::AsExpected));
        assert_eq!(of(&young, "2026-01-05T04:59:00Z"), (Some(true), Reason::AsExpected), "the next one is under way");
        assert_eq!(of(&young, "2026-01-05T05:10:00Z"), (Some(false), Reason::BackupOverdue));
        assert_eq!(
            says(&[("w", &json!({"schedule": "0 3 * * 0"}), &young)], "2026-01-10T00:00:00Z").unwrap().0,
            Some(true),
            "once a week"
        );
    }

    #[test]
    fn what_stands_in_its_way_is_said_and_the_best_schedule_counts() {
        let suspended = json!({"suspend": true});
        let wrong = json!({"schedule": "61 * * * *"});
        let proven = json!({"lastVerifiedTime": "2026-01-04T03:01:00Z"});
        let now = "2026-01-04T12:00:00Z";
        assert_eq!(says(&[("a", &suspended, &proven)], now), Some((None, Reason::Paused)));
        assert_eq!(says(&[("a", &wrong, &proven)], now), Some((Some(false), Reason::InvalidSpec)));
        let both = [("a", &wrong, &json!({})), ("b", &json!({}), &proven)];
        assert_eq!(says(&both, now), Some((Some(true), Reason::AsExpected)));
    }

    #[test]
    fn of_one_that_sleeps_the_last_backup_is_named_and_none_is_missed() {
        let etcd = json!({"metadata": {}, "status": {"identity": "own",
            "operation": {"id": 3, "type": "Sleep", "target": "etcd", "phase": "Asleep", "since": "2026-01-04T20:00:00Z"}}});
        let of = |status: &Value| {
            verdict(&seen(&[("nightly", &json!({}), status)]), ACME, Some(&etcd), at("2026-02-01T00:00:00Z")).unwrap()
        };
        let verdict = of(&json!({"lastVerifiedTime": "2026-01-04T03:01:00Z"}));
        assert_eq!((verdict.status, verdict.reason), (None, Reason::Asleep));
        assert!(verdict.message.contains("2026-01-04T03:01:00Z"), "{}", verdict.message);
        assert_eq!(of(&json!({})).reason, Reason::BackupOverdue, "there is none at all");
    }

    #[test]
    fn a_predecessors_backup_is_none_of_this_etcd() {
        let status = json!({"lastVerifiedTime": "2026-01-04T03:01:00Z", "lastVerifiedIdentity": "before"});
        let observed = seen(&[("nightly", &json!({}), &status)]);
        let of = |identity: &str, now: &str| {
            let etcd =
                json!({"metadata": {"creationTimestamp": "2026-01-04T12:00:00Z"}, "status": {"identity": identity}});
            verdict(&observed, ACME, Some(&etcd), at(now)).unwrap()
        };
        let verdict = of("before", "2026-01-04T13:00:00Z");
        assert_eq!((verdict.status, verdict.reason), (Some(true), Reason::AsExpected));
        let verdict = of("own", "2026-01-05T04:00:00Z");
        assert_eq!((verdict.status, verdict.reason), (None, Reason::Waiting), "its own first one is due at three");
        assert!(verdict.message.ends_with("its backups so far are of an earlier etcd of this name"), "{verdict:?}");
        let verdict = of("own", "2026-01-05T05:10:00Z");
        assert_eq!((verdict.status, verdict.reason), (Some(false), Reason::BackupOverdue));
        assert!(verdict.message.contains("no earlier one of this data was taken"), "{verdict:?}");
    }
}
