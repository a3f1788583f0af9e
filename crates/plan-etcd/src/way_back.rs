//! What a person does about a quorum that is lost for good: what is left comes before any backup, since it may hold more.

use super::backups::newest_and_store;
use super::subject::{Subject, etcdctl};
use super::volumes::has_lost;
use berth_plan::etcd_home::{Home, keep_volumes};
use serde_json::{Value, json};

/// Of the members as they are. None: none of them lost its data.
pub(super) fn now(s: &Subject<'_>) -> Option<String> {
    let (lost, left): (Vec<String>, Vec<String>) = s.members().into_iter().partition(|m| has_lost(s, m));
    (!lost.is_empty()).then(|| of(s, &lost, &left))
}

/// The commands, as they are typed, and what is to be known of them.
pub(super) fn of(s: &Subject<'_>, lost: &[String], left: &[String]) -> String {
    let of = s.members().len();
    let (newest, store) = newest_and_store(s);
    let backup = newest.and_then(|(backup, at)| {
        let name = backup.metadata.name?;
        Some(format!(
            "restore the newest backup, EtcdBackup {name}, taken at {}: {}",
            at.0,
            restore(s, "newest-", &json!({"backup": name}))
        ))
    });
    if left.is_empty() {
        let back = backup.map_or_else(
            || format!("No verified EtcdBackup of this data is in namespace {}", Home::of(s.etcd).namespace),
            |backup| capital(&backup),
        );
        let volumes = lost.iter().map(|m| format!("data-{m}")).collect::<Vec<_>>().join(", ");
        return format!(
            "{back}. Otherwise restore volume {volumes} (such as from a snapshot of your storage) and delete pod {}; or, if nobody needs the data, delete the Cluster with spec.deletion.protected false and spec.deletion.dataPolicy Delete (a stand-alone EtcdCluster: spec.dataPolicy Delete) and create it again",
            lost.join(", ")
        );
    }
    let (lost, names) = (lost.join(", "), left.join(", "));
    let said = format!(
        "{lost} of {of} members lost their data: the quorum is lost for good. Data of {names} may be newer than any backup"
    );
    let Some(store) = store else {
        return format!(
            "{said}, and no store for backups takes it (chart value backups.stores). Keep the volume: {}. Then restore it by a store of your own: {} --survivors --secret SECRET",
            keep_volumes(s.namespace, &left.iter().map(String::as_str).collect::<Vec<_>>()),
            Home::of(s.etcd).command("restore")
        );
    };
    let left = restore(s, "left-", &json!({"survivors": {"store": store}}));
    let backup = backup.map(|backup| format!(". If that cannot be, {backup}")).unwrap_or_default();
    format!("{said}: restore it: {left}{backup}")
}

/// What is done where members have different data, and nobody knows which is right: nothing of any of them is lost by it.
pub(super) fn differing(s: &Subject<'_>) -> String {
    let (_, store) = newest_and_store(s);
    let to = store.map_or_else(|| "--secret SECRET".to_owned(), |store| format!("--store {store}"));
    let save = s
        .members()
        .iter()
        .map(|m| format!("{} {to} --member {m}", Home::of(s.etcd).command("backup")))
        .collect::<Vec<_>>();
    format!(
        "First back up each member: {}. Compare them: {}. Then restore the backup of the right one: {} --backup NAME",
        save.join(" && "),
        etcdctl(s, &format!("{}-0", s.name), "endpoint status --cluster -w table"),
        Home::of(s.etcd).command("restore")
    )
}

/// What a person runs to restore that.
fn restore(s: &Subject<'_>, prefix: &str, source: &Value) -> String {
    let Home { namespace, field: of, name } = Home::of(s.etcd);
    let manifest = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"generateName": prefix},
        "spec": {of: {"name": name}, "source": source},
    });
    format!("echo '{manifest}' | kubectl -n {namespace} create -f -")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
