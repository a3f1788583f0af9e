//! What a person does about a quorum that is lost for good: what is left comes before any backup, since it may hold more.

use super::health::Home;
use super::recovery::view::{newest, store};
use super::subject::Subject;
use berth_render::Kind;
use serde_json::{Value, json};

/// The commands, as they are typed, and what is to be known of them.
pub(super) fn of(s: &Subject<'_>, lost: &[String], left: &[String]) -> String {
    let (of, verb) = (s.members().len(), if left.len() == 1 { "holds" } else { "hold" });
    let newest = newest(s, Home::of(s).namespace);
    let store = store(s, newest.as_ref().map(|(backup, _)| backup));
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
            || format!("No verified EtcdBackup of this data is in namespace {}", Home::of(s).namespace),
            |backup| capital(&backup),
        );
        let volumes = lost.iter().map(|m| format!("data-{m}")).collect::<Vec<_>>().join(", ");
        return format!(
            "{back}. Or restore volume {volumes} and delete pod {}; or, if nobody needs the data, delete the Cluster with spec.deletion.protected false and spec.deletion.dataPolicy Delete (a stand-alone EtcdCluster: spec.dataPolicy Delete) and create it again",
            lost.join(", ")
        );
    }
    let (lost, names) = (lost.join(", "), left.join(", "));
    let said = format!(
        "{lost} of {of} members lost their data, so no quorum can ever be again. What {names} {verb} may be more than any backup"
    );
    let Some(store) = store else {
        return format!(
            "{said}, and no store for backups may have it (chart value backups.stores). Keep the volume: {}. Then restore it by a store of your own: kubectl berth -n {} etcd restore {}{} --survivors --secret SECRET",
            left.iter().map(|m| keep(s, m)).collect::<Vec<_>>().join(" && "),
            Home::of(s).namespace,
            Home::of(s).name,
            if Home::of(s).field == "etcdClusterRef" { " --stand-alone" } else { "" }
        );
    };
    let left = restore(s, "left-", &json!({"survivors": {"store": store}}));
    let backup = backup.map(|backup| format!(". If that cannot be, {backup}")).unwrap_or_default();
    format!("{said}: restore it: {left}{backup}")
}

/// What keeps a member's volume, whatever becomes of its claim.
fn keep(s: &Subject<'_>, member: &str) -> String {
    let claim = s.observed.get(&s.key(Kind::PersistentVolumeClaim, format!("data-{member}")));
    let volume = claim.and_then(|claim| claim["spec"]["volumeName"].as_str());
    let volume = volume.map_or_else(
        || format!("$(kubectl -n {} get pvc data-{member} -o jsonpath={{.spec.volumeName}})", s.namespace),
        str::to_owned,
    );
    let patch = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    format!("kubectl patch pv {volume} --type=merge -p '{patch}'")
}

/// What a person runs to restore that.
fn restore(s: &Subject<'_>, prefix: &str, source: &Value) -> String {
    let Home { namespace, field: of, name } = Home::of(s);
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
