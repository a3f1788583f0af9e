//! `backup`: creates an `EtcdBackup`, and waits until it is proven.

use super::{create, default_name, find};
use crate::access::Access;
use crate::args::etcd::{At, Backup};
use crate::outcome::Outcome;
use berth_api::EtcdBackup;
use berth_api::backup::phase;
use berth_api::conditions::{ConditionType, find as find_condition};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Creates it, and waits.
pub(super) async fn run(access: &Access, args: &Backup) -> anyhow::Result<Outcome> {
    exists(access, args).await?;
    // By its member first: those of several members are created within one second.
    let ordinal = |member: &String| format!("m{}-", member.rsplit('-').next().unwrap_or_default());
    let of = args.members.iter().map(ordinal).collect::<String>() + &args.of.name;
    let name = args.called.clone().unwrap_or_else(|| default_name(&of, Timestamp::now()));
    let key = ObjectKey::namespaced(Kind::EtcdBackup, &access.namespace, &*name);
    let object = object(args, &name, &access.namespace);
    create(access, &key, &object, &args.wait, progress).await
}

/// Who may create backups need not see the control-plane namespace, so only what was named is looked at.
async fn exists(access: &Access, args: &Backup) -> anyhow::Result<()> {
    if !args.of.stand_alone {
        return access.cluster(&args.of.name).await.map(drop);
    }
    find(access, &args.of).await.map(drop)
}

fn object(args: &Backup, name: &str, namespace: &str) -> Value {
    let field = args.of.as_other().field;
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {field: {"name": args.of.name}},
    });
    let At { store, secret, claim } = &args.at;
    if let Some(store) = store {
        object["spec"]["store"] = json!(store);
    }
    if let Some(secret) = secret {
        object["spec"]["secretRef"] = json!({"name": secret});
    }
    if let Some(claim) = claim {
        object["spec"]["claimRef"] = json!({"name": claim});
    }
    if !args.members.is_empty() {
        object["spec"]["withoutQuorum"] = true.into();
        object["spec"]["members"] = json!(args.members);
    }
    object
}

/// Whether it has ended, well or not, and what is to be said.
fn progress(backup: &EtcdBackup) -> (Option<bool>, String) {
    let status = backup.status.clone().unwrap_or_default();
    let message = |type_| find_condition(&status.conditions, type_).map(|c| c.message.clone()).unwrap_or_default();
    match status.phase.as_deref() {
        Some(phase::VERIFIED) => {
            let key = status.key.clone().unwrap_or_default();
            (Some(true), format!("Verified: revision {}, {key}", status.revision.unwrap_or_default()))
        }
        Some(phase::FAILED) => (Some(false), format!("Failed: {}", message(ConditionType::Degraded))),
        Some(phase) => (None, format!("{phase}: {}", message(ConditionType::Ready))),
        None => (None, "wait: the operator has not seen it yet".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::etcd::{Etcd, Verb};
    use clap::Parser;

    fn backup(status: &Value) -> EtcdBackup {
        let spec = json!({"clusterRef": {"name": "acme"}, "store": "main"});
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "b"}, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn it_ends_when_it_is_proven_or_has_failed() {
        let condition = |type_: &str, message: &str| json!({"type": type_, "status": "True", "reason": "X", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let verified = backup(&json!({"phase": "Verified", "revision": 7, "key": "a/b.db"}));
        assert_eq!(progress(&verified), (Some(true), "Verified: revision 7, a/b.db".into()));
        let failed = backup(&json!({"phase": "Failed", "conditions": [condition("Degraded", "403")]}));
        assert_eq!(progress(&failed), (Some(false), "Failed: 403".into()));
        let queued = backup(&json!({"phase": "Queued", "conditions": [condition("Ready", "its turn")]}));
        assert_eq!(progress(&queued), (None, "Queued: its turn".into()));
        assert_eq!(progress(&backup(&json!({}))).0, None);
    }

    #[test]
    fn it_is_kept_in_a_store_of_the_platform_or_a_teams_own() {
        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            etcd: Etcd,
        }
        let spec = |text: &str| {
            let all = ["etcd", "backup", "acme"].into_iter().chain(text.split_whitespace());
            match Cli::try_parse_from(all).ok()?.etcd.verb {
                Verb::Backup(args) => Some(object(&args, "b", "team-a")["spec"].clone()),
                other => panic!("{other:?}"),
            }
        };
        let of = json!({"name": "acme"});
        assert_eq!(spec("--store main"), Some(json!({"clusterRef": of, "store": "main"})));
        let own = json!({"etcdClusterRef": of, "secretRef": {"name": "mine"}});
        assert_eq!(spec("--secret mine --stand-alone"), Some(own));
        let volume = json!({"etcdClusterRef": of, "claimRef": {"name": "disk"}});
        assert_eq!(spec("--claim disk --stand-alone"), Some(volume));
        let held = json!({"clusterRef": of, "store": "main", "withoutQuorum": true, "members": ["etcd-1"]});
        assert_eq!(spec("--store main --member etcd-1"), Some(held));
        assert_eq!(spec("--claim disk"), None, "a tenant's backups go to no volume");
        assert_eq!(spec("--claim disk --stand-alone --store main"), None);
        assert_eq!(spec(""), None);
        assert_eq!(spec("--store main --secret mine"), None);
    }

    #[test]
    fn names_sort_by_time() {
        let at = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(default_name("acme", at), "acme-20260102030405");
        assert_eq!(default_name(&"a".repeat(40), at).len(), 40, "longer ones are refused");
    }
}
