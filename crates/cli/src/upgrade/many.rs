//! `upgrade` of many Clusters: who is ready for it, and who is not and why.

use super::{patch_of, roll};
use crate::access::Access;
use crate::args::{Meta, Upgrade};
use crate::confirm::confirmed_by;
use crate::outcome::Outcome;
use crate::paint::{bad, good, safe, warn};
use crate::{output, unchanged};
use anyhow::bail;
use berth_api::Cluster;
use berth_api::conditions::{ConditionType, find, is_settled, shortened};
use berth_api::version::Version;
use berth_plan::fleet::wave;
use berth_render::{Kind, ObjectKey};
use kube::ResourceExt as _;
use serde_json::json;

/// What becomes of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judged {
    /// It has the version already.
    Has,
    /// It is set.
    Ready,
    /// It is left alone, for this reason.
    Not(String),
}

/// Shows all, asks, and writes, lower waves first.
pub(super) async fn run(meta: &Meta, args: &Upgrade) -> anyhow::Result<Outcome> {
    let access = Access::to_write(meta).await?;
    let namespace = (!args.all_namespaces).then_some(&*access.namespace);
    let (mut all, _) = access.clusters(namespace, args.selector.as_deref()).await?;
    if all.is_empty() {
        bail!("no Cluster fits. Nothing was changed");
    }
    all.sort_by_key(|cluster| (wave(cluster), cluster.namespace(), cluster.name_any()));
    let judged: Vec<(&Cluster, Judged)> = all.iter().map(|cluster| (cluster, judge(cluster, args.to))).collect();
    output::print(&table(&judged, args.to))?;
    let left = judged.iter().filter(|(_, judged)| matches!(judged, Judged::Not(_))).count();
    let ready: Vec<&Cluster> = judged.iter().filter(|(_, j)| *j == Judged::Ready).map(|(c, _)| *c).collect();
    let count = ready.len();
    output::print(&format!("{count} to be set to {}, {left} not ready\n", args.to))?;
    if args.dry_run || count == 0 {
        return Ok(Outcome::done_if(left == 0));
    }
    let to = args.to.to_string();
    let what = format!("set spec.version of {count} Clusters");
    if !args.yes && !confirmed_by("version", &to, &what)? {
        bail!("nothing was changed");
    }
    let mut failed = 0;
    for cluster in ready {
        let value = serde_json::to_value(cluster)?;
        let key = ObjectKey::of(Kind::Cluster, &value);
        let spec = json!({"version": to});
        let roll = args.now.then(|| roll(cluster, true));
        match unchanged::patch(&access, &value, &patch_of(&spec, roll.as_deref())).await {
            Ok(()) => output::print(&format!("{}: spec.version is {to}\n", safe(&key.to_string())))?,
            Err(error) => {
                failed += 1;
                output::complain(&error);
            }
        }
    }
    Ok(if failed > 0 { Outcome::Failed } else { Outcome::done_if(left == 0) })
}

/// Whether it may be asked of a Cluster. The operator judges the rest before it changes anything.
fn judge(cluster: &Cluster, to: Version) -> Judged {
    if cluster.spec.asked_version() == Some(to) {
        return Judged::Has;
    }
    obstacle(cluster, to).map_or(Judged::Ready, Judged::Not)
}

fn obstacle(cluster: &Cluster, to: Version) -> Option<String> {
    let asked = &cluster.spec.version;
    if cluster.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".into());
    }
    if cluster.spec.paused {
        return Some("spec.paused is true".into());
    }
    let Some(now) = cluster.spec.asked_version() else { return Some(format!("spec.version: {asked}")) };
    let way_back = "kubectl berth upgrade NAME sets it back";
    match to.minor().since(now.minor()) {
        Some(0) if to < now => return Some(format!("{asked} is newer: {way_back}")),
        Some(0 | 1) => {}
        Some(n) if n < 0 => return Some(format!("{asked} is of a newer minor version: {way_back}")),
        _ => return Some(format!("{asked} is more than one minor version older: go one at a time")),
    }
    let conditions = cluster.status.clone().unwrap_or_default().conditions;
    let Some(ready) = find(&conditions, ConditionType::Ready) else {
        return Some("the operator has not looked at it yet".into());
    };
    let is_next = to.minor() != now.minor();
    let blocked = find(&conditions, ConditionType::UpgradeReady).filter(|c| is_next && c.status == "False");
    let found = if is_settled(ready) { blocked } else { Some(ready) };
    found.map(|found| format!("{}: {}", found.reason, found.message))
}

fn table(all: &[(&Cluster, Judged)], to: Version) -> String {
    let row = |(cluster, judged): &(&Cluster, Judged)| {
        let (word, why) = match judged {
            Judged::Has => (good("has it"), String::new()),
            Judged::Ready => (warn(&format!("→ {to}")), String::new()),
            Judged::Not(why) => (bad("not ready"), shortened(&safe(why), 100)),
        };
        let (namespace, name) = (safe(&cluster.namespace().unwrap_or_default()), safe(&cluster.name_any()));
        vec![wave(cluster).to_string(), namespace, name, safe(&cluster.spec.version), word, why]
    };
    output::table(["WAVE", "NAMESPACE", "NAME", "VERSION", "", "WHY"], all.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn cluster(version: &str, more: &Value, ready: &str) -> Cluster {
        let mut spec = json!({"version": version});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "acme", "namespace": "team-a"},
            "spec": spec,
            "status": {"conditions": [{
                "type": "Ready", "status": ready, "reason": "Waiting", "message": "a pod",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn who_is_not_ready_is_left_alone_and_it_says_why() {
        let to: Version = "1.36.3".parse().unwrap();
        let judged = |version: &str, more: &Value, ready: &str| judge(&cluster(version, more, ready), to);
        let none = json!({});
        assert_eq!(judged("1.36.3", &none, "True"), Judged::Has);
        assert_eq!(judged("1.36.2", &none, "True"), Judged::Ready);
        assert_eq!(judged("1.35.4", &none, "True"), Judged::Ready);
        for (version, more, ready, says) in [
            ("1.36.2", &none, "False", "Waiting: a pod"),
            ("1.36.2", &json!({"paused": true}), "True", "spec.paused is true"),
            ("1.34.4", &none, "True", "more than one minor version older"),
            ("1.37.0", &none, "True", "newer minor version"),
            ("1.36.9", &none, "True", "is newer"),
        ] {
            let Judged::Not(why) = judged(version, more, ready) else { panic!("{version}") };
            assert!(why.contains(says), "{why}");
        }
        for reason in ["NotInTemplates", "NoIPAddress", "OtherAddressFamily"] {
            let mut settled = cluster("1.36.2", &none, "False");
            settled.status.as_mut().unwrap().conditions[0].reason = reason.into();
            assert_eq!(judge(&settled, to), Judged::Ready, "{reason}");
        }
        let mut blocked = cluster("1.35.4", &none, "True");
        let conditions = &mut blocked.status.as_mut().unwrap().conditions;
        let mut upgrade_ready = conditions[0].clone();
        (upgrade_ready.type_, upgrade_ready.status) = ("UpgradeReady".into(), "False".into());
        upgrade_ready.message = "for 1.36: Admission: no".into();
        conditions.push(upgrade_ready);
        let Judged::Not(why) = judge(&blocked, to) else { panic!("it is not ready") };
        assert!(why.contains("Admission: no"), "{why}");
        assert_eq!(judge(&blocked, "1.35.5".parse().unwrap()), Judged::Ready, "for a patch that does not matter");
        let acme = cluster("1.36.2", &none, "True");
        let text = table(&[(&acme, Judged::Ready), (&acme, Judged::Not("x".into()))], to);
        assert!(text.contains("→ 1.36.3") && text.contains("not ready"), "{text}");
    }
}
