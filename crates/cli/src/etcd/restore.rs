//! `restore`: creates an `EtcdRestore` with the confirmation in it, after asking for the name, and waits until etcd serves.

use super::show::{self, Proven};
use super::{Found, create, find};
use crate::access::Access;
use crate::args::etcd::{Other, Restore, Source};
use crate::confirm::confirmed_by;
use crate::outcome::Outcome;
use crate::output;
use anyhow::{anyhow, bail};
use berth_api::EtcdCluster;
use berth_api::backup::{EtcdBackup, StoreClaim, StoreRef, StoreSecret};
use berth_api::conditions::{ConditionType, find as find_condition};
use berth_api::restore::{BackupOf, EtcdRestore, EtcdRestoreSpec, RestoreSource, StoredSnapshot, Survivors, phase};
use berth_plan_backup::restore::{Held, Intent, answers, confirmation_id, gives_up, of_what_is_left};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Asks, creates it, and waits.
pub(super) async fn run(access: &Access, args: &Restore) -> anyhow::Result<Outcome> {
    let Found { etcd, key, .. } = find(access, &args.of).await?;
    has_store(args)?;
    let newest = if args.source.latest { Some(newest(access, args, &etcd).await?) } else { None };
    let args = &with(args, newest.as_ref());
    let given_up = given_up(args, newest.as_ref(), &etcd);
    output::print(&explanation(args, newest.as_ref(), &etcd, &key.to_string(), given_up.as_deref()))?;
    let what = if args.of.stand_alone { "EtcdCluster's name" } else { "Cluster's name" };
    let to = if args.of_other.is_some() { "replace its data" } else { "restore its etcd" };
    if !args.yes && !confirmed_by(what, &args.of.name, to)? {
        bail!("{key}: nothing was changed");
    }
    let confirm = confirmation(args, &etcd, &key, given_up.is_some())?;
    let now = Timestamp::now();
    let name = args.called.clone().unwrap_or_else(|| super::default_name(&args.of.name, now));
    let key = ObjectKey::namespaced(Kind::EtcdRestore, &access.namespace, &*name);
    let object = serde_json::to_value(object(args, &name, confirm))?;
    create(access, &key, &object, &args.wait, progress).await
}

/// The newest verified backup now: by what is there, since clocks may differ.
async fn newest(access: &Access, args: &Restore, etcd: &EtcdCluster) -> anyhow::Result<Proven> {
    // What another one held may be all that is left of it.
    let identity = args.of_other.is_none().then(|| show::identity(etcd));
    let of = args.of_other.clone().unwrap_or_else(|| args.of.as_other());
    let all = access.io.list(Kind::EtcdBackup, &*access.namespace, None).await.map_err(|e| access.explain(e))?;
    let all: Vec<EtcdBackup> = all.into_iter().filter_map(|b| serde_json::from_value(b).ok()).collect();
    show::newest(&all, &of, identity).map_err(|why| {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        anyhow!(
            "namespace {} has no verified EtcdBackup of the data of {of}{why}; see kubectl -n {} get etcdbackups. Nothing was changed",
            access.namespace,
            access.namespace
        )
    })
}

/// With that backup, if the newest one was asked for.
fn with(args: &Restore, newest: Option<&Proven>) -> Restore {
    let mut args = args.clone();
    if let Some(newest) = newest {
        args.source.backup = Some(newest.name.clone());
    }
    args
}

/// Whether the store is named that a snapshot is in, or that a backup of what is left goes to.
fn has_store(args: &Restore) -> anyhow::Result<()> {
    let own = usize::from(args.secret.is_some()) + usize::from(args.claim.is_some());
    if args.source.key.is_some() && own == 0 && args.store.is_none() {
        bail!("--key needs --store, --secret or --claim: which store the snapshot is in. Nothing was changed");
    }
    let named = args.source.survivors.as_ref().map(|store| usize::from(!store.is_empty()) + own);
    match named {
        None | Some(1) => Ok(()),
        _ => bail!(
            "--survivors needs one of a store of the platform, --secret and --claim: where the backup of what is left goes to. Nothing was changed"
        ),
    }
}

/// What it gives up of what members hold, as the operator sees it.
fn given_up(args: &Restore, newest: Option<&Proven>, etcd: &EtcdCluster) -> Option<String> {
    let taken = newest.map(|newest| newest.taken_at);
    let instead = of_what_is_left(etcd);
    gives_up(etcd, Intent { source: &source(args), without: &args.without, taken, instead: &instead })
}

fn explanation(
    args: &Restore,
    newest: Option<&Proven>,
    etcd: &EtcdCluster,
    key: &str,
    given_up: Option<&str>,
) -> String {
    let source = match (&args.source.backup, &args.source.survivors, &args.source.key) {
        (Some(backup), ..) => {
            let taken = newest.map(|newest| format!(", the newest verified one, taken at {}", newest.taken_at));
            format!("EtcdBackup {backup}{}", taken.unwrap_or_default())
        }
        (_, Some(_), _) => return survivors(args, etcd, key, given_up),
        (_, _, Some(key)) => format!("the snapshot {key}"),
        _ => {
            let until = args.source.latest_before.map(|t| format!(" until {t}"));
            format!("the newest verified EtcdBackup{}", until.unwrap_or_default())
        }
    };
    let held = Held::of(etcd);
    let first = match (answers(etcd), args.no_backup_first) {
        (_, true) => "no backup of what it has is taken first".to_owned(),
        (true, false) => "a backup of what it has is taken first".to_owned(),
        (false, false) if held.answer.is_empty() => "no member answers, so no backup is taken first".to_owned(),
        (false, false) => format!("a backup of what {} holds is taken first", held.answer.join(", ")),
    };
    if let Some(of) = &args.of_other {
        return format!(
            "{key} gets the data of another etcd: {source} of {of}. All that it holds is replaced, and it does not answer meanwhile; {first}\n"
        );
    }
    let warning = given_up.filter(|_| !answers(etcd)).map(|text| format!("WARNING: {text}.\n")).unwrap_or_default();
    format!(
        "{warning}{key} goes back to {source}. What was written since then is lost, and the API does not answer meanwhile; {first}\n"
    )
}

/// Of a restore of what is left.
fn survivors(args: &Restore, etcd: &EtcdCluster, key: &str, given_up: Option<&str>) -> String {
    let Held { lost, away, answer } = Held::of(etcd);
    let away: Vec<String> = away.into_iter().filter(|m| !args.without.contains(m)).collect();
    let list = |names: &[String], what: &str| {
        if names.is_empty() { String::new() } else { format!("\n  {what}: {}", names.join(", ")) }
    };
    let members = [
        list(&answer, "answers"),
        list(&away, "does not answer, and is waited for"),
        list(&args.without, "is left out"),
        list(&lost, "lost its data"),
    ];
    let warning = given_up.map(|text| format!("WARNING: {text}.\n")).unwrap_or_default();
    format!(
        "{warning}{key} gets what its surviving members hold. First that is saved as EtcdBackup survivors-NAME, and proven. Writes that no survivor received are lost, and the API does not answer meanwhile{}\n",
        members.concat()
    )
}

/// What confirms that what it holds may be lost: its cluster ID. Of an etcd that does not answer, and whose members' data is not lost, --yes
/// alone does not: it would be said before anybody saw what would be lost.
fn confirmation(args: &Restore, etcd: &EtcdCluster, key: &ObjectKey, gives_up: bool) -> anyhow::Result<Option<String>> {
    if args.confirm.is_some() || !gives_up {
        return Ok(args.confirm.clone());
    }
    if args.yes && args.of_other.is_none() && !answers(etcd) {
        return Ok(None);
    }
    confirmation_id(etcd)
        .map(Some)
        .ok_or_else(|| anyhow!("{key} has no cluster ID (status.clusterId): wait until it is Ready"))
}

fn source(args: &Restore) -> RestoreSource {
    let Source { backup, latest_before, survivors, key, .. } = args.source.clone();
    let stored = |name: Option<String>| StoreRef {
        name: name.unwrap_or_default(),
        secret_ref: args.secret.clone().map(|name| StoreSecret { name }),
        claim_ref: args.claim.clone().map(|name| StoreClaim { name }),
    };
    RestoreSource {
        backup,
        latest_before: latest_before.map(Time),
        survivors: survivors.map(|store| Survivors { store: stored(Some(store)) }),
        key: key.map(|key| StoredSnapshot { store: stored(args.store.clone()), key }),
        of: args.of_other.as_ref().map(Other::as_backup_of),
    }
}

fn object(args: &Restore, name: &str, confirm: Option<String>) -> EtcdRestore {
    let BackupOf { cluster_ref, etcd_cluster_ref } = args.of.as_other().as_backup_of();
    let spec = EtcdRestoreSpec {
        cluster_ref,
        etcd_cluster_ref,
        source: source(args),
        confirm,
        backup_first: !args.no_backup_first,
        without_members: args.without.clone(),
    };
    EtcdRestore::new(name, spec)
}

/// Whether it has ended, well or not, and what is to be said.
fn progress(restore: &EtcdRestore) -> (Option<bool>, String) {
    let status = restore.status.clone().unwrap_or_default();
    let said = find_condition(&status.conditions, ConditionType::Ready).map(|c| c.message.clone()).unwrap_or_default();
    match status.phase.as_deref() {
        Some(phase::RESTORED) => (Some(true), format!("Restored: {said}")),
        Some(phase::FAILED) => (Some(false), format!("Failed: {said}")),
        Some(phase) => (None, format!("{phase}: {said}")),
        None => (None, "wait: the operator has not seen it yet".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::etcd::{Etcd, Verb};
    use clap::Parser;
    use serde_json::{Value, json};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        etcd: Etcd,
    }

    fn args(text: &str) -> Result<Restore, String> {
        let all = ["etcd", "restore", "acme"].into_iter().chain(text.split_whitespace());
        match Cli::try_parse_from(all).map_err(|e| e.to_string())?.etcd.verb {
            Verb::Restore(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    fn proven() -> Proven {
        Proven { name: "nightly".into(), taken_at: "2026-01-01T03:00:00Z".parse().unwrap() }
    }

    fn etcd(available: &str) -> EtcdCluster {
        let condition = json!({"type": "Available", "status": available, "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "etcd"},
            "spec": {"version": "3.6.16"}, "status": {"clusterId": "c1", "conditions": [condition]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_etcd_that_answers_is_confirmed_and_another_is_not() {
        let spec = |text, available| {
            let (args, etcd) = (args(text).unwrap(), etcd(available));
            let key = ObjectKey::namespaced(Kind::EtcdCluster, "team-a", "etcd");
            let gives_up = given_up(&args, None, &etcd).is_some();
            let confirm = confirmation(&args, &etcd, &key, gives_up).unwrap();
            json!(object(&with(&args, Some(&proven()).filter(|_| args.source.latest)), "n", confirm).spec)
        };
        let wanted =
            json!({"clusterRef": {"name": "acme"}, "source": {"backup": "b"}, "backupFirst": true, "confirm": "c1"});
        assert_eq!(spec("--backup b", "True"), wanted);
        let wanted = json!({"clusterRef": {"name": "acme"}, "source": {"survivors": {"store": "main"}}, "backupFirst": true, "confirm": "c1"});
        assert_eq!(spec("--survivors main", "False"), wanted);
        let own = spec("--survivors --secret mine --without etcd-1 --yes", "False");
        assert_eq!(own["source"], json!({"survivors": {"secretRef": {"name": "mine"}}}));
        assert_eq!((&own["withoutMembers"], &own["confirm"]), (&json!(["etcd-1"]), &Value::Null));
        // Nobody has seen what would be lost.
        assert_eq!(spec("--latest --yes", "False")["confirm"], Value::Null);
        assert_eq!(spec("--latest --yes --confirm c1", "False")["confirm"], "c1");
        assert_eq!(spec("--latest --yes", "True")["confirm"], "c1");
        let newest = spec("--latest --no-backup-first --stand-alone", "True");
        assert_eq!(newest["source"], json!({"backup": "nightly"}));
        assert_eq!((&newest["backupFirst"], &newest["etcdClusterRef"]["name"]), (&json!(false), &json!("acme")));
        let until = spec("--latest-before 2026-01-01T00:00:00Z", "True");
        assert_eq!(until["source"], json!({"latestBefore": "2026-01-01T00:00:00Z"}));
        let key = spec("--key a/b.db --secret mine", "True");
        assert_eq!(key["source"], json!({"key": {"key": "a/b.db", "secretRef": {"name": "mine"}}}));
        // Also of one that does not answer, since its data is replaced.
        let fished = spec("--key a/b.db --store main --of acme --stand-alone", "False");
        let of = json!({"clusterRef": {"name": "acme"}});
        assert_eq!(fished["source"], json!({"key": {"key": "a/b.db", "store": "main"}, "of": of}));
        assert_eq!(fished["confirm"], "c1");
        let fished = spec("--latest --of etcdcluster/shop --stand-alone", "True");
        assert_eq!(fished["source"]["of"], json!({"etcdClusterRef": {"name": "shop"}}));
        for wrong in [
            "",
            "--backup b --latest",
            "--latest-before yesterday",
            "--backup b --store main",
            "--key a.db --store main --secret mine",
            "--latest --of acme",
            "--latest --stand-alone --of pod/acme",
            "--survivors main --stand-alone --of acme",
            "--latest --without etcd-1",
        ] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
        for (text, is_named) in [
            ("--survivors", false),
            ("--survivors main --secret s", false),
            ("--survivors --secret s", true),
            ("--key a.db", false),
        ] {
            assert_eq!(has_store(&args(text).unwrap()).is_ok(), is_named, "{text}");
        }
        let unformed = EtcdCluster { status: None, ..etcd("True") };
        let key = ObjectKey::namespaced(Kind::EtcdCluster, "team-a", "scratch");
        let why = confirmation(&args("--latest --stand-alone --of acme").unwrap(), &unformed, &key, true).unwrap_err();
        assert!(why.to_string().contains("status.clusterId"), "{why}");
        let said = |text: &str, key: &str| {
            let args = with(&args(text).unwrap(), Some(&proven()));
            explanation(&args, Some(&proven()), &etcd("True"), key, None)
        };
        let fished = said("--latest --stand-alone --of acme", "EtcdCluster a/s");
        assert!(fished.contains("of Cluster acme. All that it holds is replaced"), "{fished}");
        let newest = said("--latest", "EtcdCluster a/etcd");
        assert!(newest.contains("is lost") && newest.contains("is taken first"), "{newest}");
        let which = "EtcdBackup nightly, the newest verified one, taken at 2026-01-01T03:00:00Z";
        assert!(newest.contains(which), "{newest}");
    }

    #[test]
    fn it_ends_when_etcd_serves_or_it_has_failed() {
        let restore = |status: Value| -> EtcdRestore {
            let object = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "n"},
                "spec": {"clusterRef": {"name": "acme"}, "source": {"backup": "b"}}, "status": status,
            });
            serde_json::from_value(object).unwrap()
        };
        assert_eq!(progress(&restore(json!({"phase": "Restored"}))).0, Some(true));
        assert_eq!(progress(&restore(json!({"phase": "Failed"}))).0, Some(false));
        assert_eq!(progress(&restore(json!({"phase": "Stopping"}))).0, None);
        assert_eq!(progress(&restore(json!({}))).0, None);
    }
}
