//! `restore`: creates an `EtcdRestore` with the confirmation in it, after asking for the name, and waits until etcd serves.

use super::args::Restore;
use super::backup::kept;
use super::show::{self, Proven};
use super::{Found, find, until};
use crate::access::{Access, parse};
use crate::confirm::confirmed_by;
use crate::{Outcome, output};
use anyhow::{anyhow, bail};
use berth_api::backup::EtcdBackup;
use berth_api::conditions::{ConditionType, find as find_condition};
use berth_api::restore::phase;
use berth_api::{EtcdCluster, EtcdRestore};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Asks, creates it, and waits.
pub(super) async fn run(access: &Access, args: &Restore) -> anyhow::Result<Outcome> {
    let Found { etcd, key, .. } = find(access, &args.of).await?;
    let confirm = confirmation(args, &etcd, &key)?;
    if args.source.key.is_some() && args.store.is_none() && args.secret.is_none() && args.claim.is_none() {
        bail!("--key needs --store, --secret or --claim: which store the snapshot is in. Nothing was changed");
    }
    let newest = if args.source.latest { Some(newest(access, args).await?) } else { None };
    let args = &with(args, newest.as_ref());
    output::print(&explanation(args, newest.as_ref(), &etcd, &key.to_string()))?;
    let what = if args.of.stand_alone { "EtcdCluster's name" } else { "Cluster's name" };
    let to = if args.of_other.is_some() { "replace its data" } else { "restore its etcd" };
    if !args.yes && !confirmed_by(what, &args.of.name, to)? {
        bail!("{key}: nothing was changed");
    }
    let now = Timestamp::now();
    let name = args.called.clone().unwrap_or_else(|| super::default_name(&args.of.name, now));
    let key = ObjectKey::namespaced(Kind::EtcdRestore, &access.namespace, &*name);
    let object = object(args, &name, &access.namespace, confirm);
    access.io.create(&key, &object, "kubectl-berth").await.map_err(|e| access.explain(e))?;
    output::print(&format!("{key} is created\n"))?;
    if !args.wait.wait {
        return Ok(Outcome::Done);
    }
    let look = async || {
        let live = access.io.get(&key).await.map_err(|e| access.explain(e))?;
        let Some(live) = live else { return Ok((Some(false), format!("{key} was deleted"))) };
        Ok(progress(&parse(live, &key.to_string())?))
    };
    Ok(Outcome::done_if(until(&args.wait, look).await? == Some(true)))
}

/// The newest verified backup now: by what is there, since clocks may differ.
async fn newest(access: &Access, args: &Restore) -> anyhow::Result<Proven> {
    let of = args.of_other.clone().unwrap_or_else(|| args.of.as_other());
    let all = access.io.list(Kind::EtcdBackup, &access.namespace, None).await.map_err(|e| access.explain(e))?;
    let all: Vec<EtcdBackup> = all.into_iter().filter_map(|b| serde_json::from_value(b).ok()).collect();
    show::newest(&all, &of).ok_or_else(|| {
        anyhow!(
            "namespace {} has no verified EtcdBackup of {of}; see kubectl -n {} get etcdbackups. Nothing was changed",
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

fn explanation(args: &Restore, newest: Option<&Proven>, etcd: &EtcdCluster, key: &str) -> String {
    let source = match (&args.source.backup, &args.source.survivors, &args.source.key) {
        (Some(backup), ..) => {
            let taken = newest.map(|newest| format!(", the newest verified one, taken at {}", newest.taken_at));
            format!("EtcdBackup {backup}{}", taken.unwrap_or_default())
        }
        (_, Some(_), _) => "what the members hold that are left".to_owned(),
        (_, _, Some(key)) => format!("the snapshot {key}"),
        _ => {
            let until = args.source.latest_before.map(|t| format!(" until {t}"));
            format!("the newest verified EtcdBackup{}", until.unwrap_or_default())
        }
    };
    let first = match (answers(etcd), args.no_backup_first) {
        (None, _) => "it does not answer, so no backup is taken first",
        (Some(_), true) => "no backup of what it has is taken first",
        (Some(_), false) => "a backup of what it has is taken first",
    };
    if let Some(of) = &args.of_other {
        return format!(
            "{key} gets the data of another etcd: {source} of {of}. All that it holds is replaced, and it does not answer meanwhile; {first}\n"
        );
    }
    format!(
        "{key} goes back to {source}. What was written since then is lost, and the API does not answer meanwhile; {first}\n"
    )
}

/// Its cluster ID, if it answers.
fn answers(etcd: &EtcdCluster) -> Option<String> {
    let status = etcd.status.as_ref()?;
    let available = find_condition(&status.conditions, ConditionType::Available);
    status.cluster_id.clone().filter(|_| available.is_none_or(|c| c.status != "False"))
}

/// What confirms that what it holds may be lost: its cluster ID, if it answers, and always if data of another etcd replaces its own.
fn confirmation(args: &Restore, etcd: &EtcdCluster, key: &ObjectKey) -> anyhow::Result<Option<String>> {
    if args.of_other.is_none() {
        return Ok(answers(etcd));
    }
    let id = etcd.status.as_ref().and_then(|s| s.cluster_id.clone());
    id.map(Some).ok_or_else(|| anyhow!("{key} has no cluster ID (status.clusterId): wait until it is Ready"))
}

fn object(args: &Restore, name: &str, namespace: &str, confirm: Option<String>) -> Value {
    let field = args.of.as_other().field;
    let mut source = match (&args.source.backup, &args.source.survivors, &args.source.key) {
        (Some(backup), ..) => json!({"backup": backup}),
        (None, Some(store), _) => json!({"survivors": {"store": store}}),
        (None, None, Some(key)) => {
            let mut at = json!({"key": key});
            kept(&mut at, args.store.as_ref(), args.secret.as_ref(), args.claim.as_ref());
            json!({"key": at})
        }
        (None, None, None) => json!({"latestBefore": args.source.latest_before}),
    };
    if let Some(of) = &args.of_other {
        source["of"] = json!({of.field: {"name": of.name}});
    }
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {field: {"name": args.of.name}, "source": source, "backupFirst": !args.no_backup_first},
    });
    if let Some(id) = confirm {
        object["spec"]["confirm"] = id.into();
    }
    object
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
    use crate::etcd::args::{Etcd, Verb};
    use clap::Parser;

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
            let confirm = confirmation(&args, &etcd, &key).unwrap();
            object(&with(&args, Some(&proven()).filter(|_| args.source.latest)), "n", "team-a", confirm)["spec"].clone()
        };
        let wanted =
            json!({"clusterRef": {"name": "acme"}, "source": {"backup": "b"}, "backupFirst": true, "confirm": "c1"});
        assert_eq!(spec("--backup b", "True"), wanted);
        let wanted =
            json!({"clusterRef": {"name": "acme"}, "source": {"survivors": {"store": "main"}}, "backupFirst": true});
        assert_eq!(spec("--survivors main", "False"), wanted);
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
        ] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
        let unformed = EtcdCluster { status: None, ..etcd("True") };
        let key = ObjectKey::namespaced(Kind::EtcdCluster, "team-a", "scratch");
        let why = confirmation(&args("--latest --stand-alone --of acme").unwrap(), &unformed, &key).unwrap_err();
        assert!(why.to_string().contains("status.clusterId"), "{why}");
        let said = |text: &str, key: &str| {
            let args = with(&args(text).unwrap(), Some(&proven()));
            explanation(&args, Some(&proven()), &etcd("True"), key)
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
