//! `status` and `members`.

use super::{Found, find};
use crate::access::Access;
use crate::age::{age, ago};
use crate::args::etcd::{Other, Show};
use crate::outcome::Outcome;
use crate::{output, paint};
use berth_api::EtcdCluster;
use berth_api::backup::EtcdBackup;
use berth_api::conditions::{ConditionType, find as find_condition};
use berth_api::etcd_bootstrap::Operation;
use berth_api::etcd_cluster::{EtcdClusterStatus, EtcdMember};
use berth_api::etcd_upkeep::Upkeep;
use berth_kubeio::ErrorKind;
use berth_plan_backup::backup::proven::{self, Wanted};
use berth_render::Kind;
use jiff::Timestamp;
use serde::Serialize;

/// How it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    object: String,
    ready: bool,
    phase: String,
    /// What is wrong, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upkeep: Option<Upkeep>,
    /// The newest proven backup of its data that is not damaged. None: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<Proven>,
    /// Why there is none, if others are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_backup: Option<String>,
    members: Vec<EtcdMember>,
}

/// A backup that was restored and compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proven {
    pub(super) name: String,
    pub(super) taken_at: Timestamp,
}

/// All of it.
pub(super) async fn status(access: &Access, args: &Show) -> anyhow::Result<Outcome> {
    let found = find(access, &args.of).await?;
    let backups = match access.io.list(Kind::EtcdBackup, &*access.namespace, None).await {
        Ok(all) => all.into_iter().filter_map(|b| serde_json::from_value(b).ok()).collect(),
        Err(error) if error.kind == ErrorKind::Forbidden => {
            output::note(&format!("backups are not shown: {error}"));
            vec![]
        }
        Err(error) => return Err(access.explain(error)),
    };
    let report = report(&found, newest(&backups, &args.of.as_other(), Some(identity(&found.etcd))));
    output::show(args.output, &report, || draw(&report, Timestamp::now()))?;
    Ok(Outcome::done_if(report.ready))
}

/// A line for each.
pub(super) async fn members(access: &Access, args: &Show) -> anyhow::Result<Outcome> {
    let found = find(access, &args.of).await?;
    let members = found.etcd.status.unwrap_or_default().members;
    output::show(args.output, &members, || table(&members))?;
    Ok(Outcome::Done)
}

/// Whose data an etcd has. Empty: it has not been formed, so there is none.
pub(super) fn identity(etcd: &EtcdCluster) -> &str {
    etcd.status.as_ref().and_then(|s| s.identity.as_deref()).unwrap_or_default()
}

/// The newest proven backup of that data, by what the operator goes by. Err: why there is none, if others are there. Without an identity: of
/// the data that was backed up last.
pub(super) fn newest(backups: &[EtcdBackup], of: &Other, identity: Option<&str>) -> Result<Proven, Option<String>> {
    let of = of.as_backup_of();
    let wanted = Wanted { of: &of, identity, until: None };
    let newest = proven::newest(backups, &wanted)
        .and_then(|b| Some(Proven { name: b.metadata.name.clone()?, taken_at: proven::taken(b)? }));
    newest.ok_or_else(|| proven::why_none(backups, &wanted))
}

fn report(found: &Found, backup: Result<Proven, Option<String>>) -> Report {
    let status: EtcdClusterStatus = found.etcd.status.clone().unwrap_or_default();
    let ready = find_condition(&status.conditions, ConditionType::Ready);
    let is_ready =
        ready.is_some_and(|c| c.status == "True") && status.observed_generation == found.etcd.metadata.generation;
    let problem = ready.filter(|_| !is_ready).map(|c| format!("{}: {}", c.reason, c.message));
    Report {
        object: found.key.to_string(),
        ready: is_ready,
        phase: status.phase.unwrap_or_else(|| "Pending".into()),
        problem,
        version: status.version,
        cluster_id: status.cluster_id,
        epoch: status.epoch,
        operation: status.operation,
        upkeep: status.upkeep,
        no_backup: backup.as_ref().err().cloned().flatten(),
        backup: backup.ok(),
        members: status.members,
    }
}

fn draw(report: &Report, now: Timestamp) -> String {
    let unknown = || "unknown".to_owned();
    let mut rows = vec![
        ("phase", if report.ready { paint::good(&report.phase) } else { paint::warn(&report.phase) }),
        ("version", paint::safe(&report.version.clone().unwrap_or_else(unknown))),
        ("cluster ID", paint::safe(&report.cluster_id.clone().unwrap_or_else(unknown))),
    ];
    if let Some(epoch) = report.epoch {
        rows.push(("epoch", epoch.to_string()));
    }
    if let Some(o) = &report.operation {
        rows.push((
            "operation",
            format!("{:?} of {}, at {:?} for {}", o.kind, paint::safe(&o.target), o.phase, age(o.since.0, now)),
        ));
    }
    if let Some(upkeep) = &report.upkeep {
        rows.push(("upkeep", upkept(upkeep, now)));
    }
    let backup = report.backup.as_ref().map(|b| format!("{}, taken {}", paint::safe(&b.name), ago(b.taken_at, now)));
    let none = || report.no_backup.as_ref().map_or_else(|| "none".to_owned(), |why| format!("none: {why}"));
    rows.push(("proven backup", backup.unwrap_or_else(|| paint::warn(&none()))));
    if let Some(problem) = &report.problem {
        rows.push(("problem", paint::bad(problem)));
    }
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![format!("  {name}"), value]).collect();
    format!("{}\n{}{}", paint::strong(&report.object), output::columns(&rows), table(&report.members))
}

fn upkept(upkeep: &Upkeep, now: Timestamp) -> String {
    let done =
        if upkeep.done.is_empty() { String::new() } else { format!(", defragmented {}", upkeep.done.join(", ")) };
    let when = match (&upkeep.finished, &upkeep.member) {
        (Some(at), _) => format!("finished {}", ago(at.0, now)),
        (None, Some(member)) => format!("at {member}, since {}", age(upkeep.since.0, now)),
        (None, None) => format!("since {}", age(upkeep.since.0, now)),
    };
    paint::safe(&format!("{:?} {when}{done}", upkeep.reason))
}

fn table(members: &[EtcdMember]) -> String {
    let head = ["MEMBER", "ID", "READY", "DB SIZE", "IN USE", "QUOTA", ""].map(str::to_owned).to_vec();
    let row = |m: &EtcdMember| {
        let id = m.id.clone().unwrap_or_default();
        let ready = if m.ready { paint::good("yes") } else { paint::bad("no") };
        let message = m.message.as_deref().map(paint::safe).unwrap_or_default();
        // No more is in use than there is: that was measured before the database became smaller.
        let in_use = m.db_size_in_use.filter(|used| m.db_size.is_none_or(|size| *used <= size));
        let sizes = [m.db_size, in_use, m.quota_backend_bytes].map(size);
        let mut row = vec![paint::safe(&m.name), paint::safe(&id), ready];
        row.extend(sizes);
        row.push(message);
        row
    };
    let rows: Vec<_> = std::iter::once(head).chain(members.iter().map(row)).collect();
    let text = output::columns(&rows);
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n"))
}

/// In MiB, as roughly as the status says it.
fn size(bytes: Option<i64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{} MiB", bytes / 1024 / 1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::etcd::Of;
    use berth_render::ObjectKey;
    use serde_json::{Value, json};

    fn found(status: &Value) -> Found {
        let value = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd", "generation": 1},
            "spec": {"version": "3.6.16"}, "status": status,
        });
        let key = ObjectKey::namespaced(Kind::EtcdCluster, "acme-1", "etcd");
        let etcd: EtcdCluster = serde_json::from_value(value.clone()).unwrap();
        Found { named: key.clone(), value, key, etcd }
    }

    fn status(ready: &str, reason: &str, message: &str) -> Value {
        let condition = json!({"type": "Ready", "status": ready, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        json!({
            "observedGeneration": 1, "phase": "Ready", "version": "3.6.16", "clusterId": "c1", "epoch": 1, "conditions": [condition],
            "upkeep": {"reason": "NoSpace", "since": "2026-01-01T00:00:00Z", "done": ["etcd-0"], "finished": "2026-01-01T00:01:00Z"},
            "members": [
                {"name": "etcd-0", "id": "a0", "ready": true, "dbSize": 4_194_304, "dbSizeInUse": 1_048_576, "quotaBackendBytes": 2_147_483_648_i64},
                {"name": "etcd-1", "ready": false, "message": "connection\u{1b} refused"},
            ],
        })
    }

    #[test]
    fn people_see_members_sizes_upkeep_and_the_backup() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let backup = Proven { name: "nightly-1".into(), taken_at: "2026-01-01T00:00:00Z".parse().unwrap() };
        let report = report(&found(&status("True", "AsExpected", "")), Ok(backup));
        assert!(report.ready);
        let text = paint::plain(&draw(&report, now));
        let expected = "\
EtcdCluster acme-1/etcd
  phase          Ready
  version        3.6.16
  cluster ID     c1
  epoch          1
  upkeep         NoSpace finished 9m ago, defragmented etcd-0
  proven backup  nightly-1, taken 10m ago
MEMBER  ID  READY  DB SIZE  IN USE  QUOTA
etcd-0  a0  yes    4 MiB    1 MiB   2048 MiB
etcd-1      no     ?        ?       ?         connection  refused
";
        assert_eq!(text, expected);
        output::same_in_both_forms(&report);
    }

    #[test]
    fn what_cannot_be_is_not_shown_as_if_it_were() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let mut status = status("True", "AsExpected", "");
        (status["members"][0]["dbSize"], status["members"][0]["dbSizeInUse"]) = (8_388_608.into(), 16_777_216.into());
        let ahead = Proven { name: "odd".into(), taken_at: "2036-01-01T00:00:00Z".parse().unwrap() };
        let text = paint::plain(&draw(&report(&found(&status), Ok(ahead)), now));
        assert!(text.contains("odd, taken in 10 years") && !text.contains("16 MiB"), "{text}");
        assert!(text.contains("etcd-0  a0  yes    8 MiB    ?       2048 MiB"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_said_and_a_status_of_an_earlier_spec_is_none() {
        let mut ill = found(&status("False", "EtcdAlarm", "alarm NOSPACE on etcd-0"));
        let said = report(&ill, Err(None));
        assert!(!said.ready);
        let text = paint::plain(&draw(&said, Timestamp::now()));
        assert!(text.contains("EtcdAlarm: alarm NOSPACE on etcd-0") && text.contains("proven backup  none"), "{text}");
        ill = found(&status("True", "AsExpected", ""));
        ill.etcd.metadata.generation = Some(2);
        assert!(!report(&ill, Err(None)).ready);
        assert_eq!(report(&found(&json!({})), Err(None)).phase, "Pending");
    }

    #[test]
    fn the_newest_proven_backup_of_its_data_counts() {
        let backup = |name: &str, of: &Value, but: &Value, day: u8| {
            let at = |hour: u8| format!("2026-01-{day:02}T{hour:02}:00:00Z");
            let verified = json!({"type": "Verified", "status": "True", "reason": "AsExpected", "message": "", "lastTransitionTime": at(4)});
            let mut status = json!({
                "phase": "Verified", "identity": "id", "epoch": 1, "revision": day, "takenAt": at(3), "conditions": [verified],
            });
            status.as_object_mut().unwrap().extend(but.as_object().unwrap().clone());
            let object = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
                "metadata": {"name": name, "creationTimestamp": at(2)}, "spec": {"clusterRef": of, "store": "main"}, "status": status,
            });
            serde_json::from_value::<EtcdBackup>(object).unwrap()
        };
        let (acme, damage) =
            (json!({"name": "acme"}), json!({"at": "2026-01-09T00:00:00Z", "by": "x", "message": "cut"}));
        let all = [
            backup("ahead", &acme, &json!({"takenAt": "2036-01-01T00:00:00Z"}), 1),
            backup("new", &acme, &json!({}), 2),
            backup("failed", &acme, &json!({"phase": "Failed"}), 3),
            backup("damaged", &acme, &json!({"damaged": damage}), 4),
            backup("others", &json!({"name": "initech"}), &json!({}), 5),
        ];
        let of = |stand_alone| Of { name: "acme".into(), stand_alone }.as_other();
        let proven = newest(&all, &of(false), Some("id")).unwrap();
        assert_eq!((proven.name.as_str(), proven.taken_at.to_string()), ("new", "2026-01-02T03:00:00Z".into()));
        assert_eq!(newest(&all, &of(true), Some("id")), Err(None));
        // The Cluster was deleted and made anew.
        let why = newest(&all, &of(false), Some("anew")).unwrap_err();
        let text = paint::plain(&draw(&report(&found(&status("True", "AsExpected", "")), Err(why)), Timestamp::now()));
        assert!(text.contains("proven backup  none: ahead, new is of an earlier etcd of this name"), "{text}");
        assert_eq!(newest(&all, &of(false), None).unwrap().name, "new", "to look into what is gone");
    }
}
